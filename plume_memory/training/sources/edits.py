"""Edits a passage for the update-aware stage: one answer is replaced wherever it stands.

Held by tests: the stale value is nowhere in the update and the new one is nowhere in the old text; a question
that the edit touches without answering it is dropped; a name that lives on in part ("Holm" for "Ada Holm")
is not edited, since the passage would contradict itself.
"""

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from plume_memory.segmentation.sentences import Span, sentence_spans
from plume_memory.training.sources.matching import holds, occurrences
from plume_memory.training.sources.reading import Question
from plume_memory.training.sources.replacements import Pools, shape_of

_OPENINGS = (
    "",
    "",
    "",
    "Correction: ",
    "Update: ",
    "Correction of the account above:\n",
    "The following replaces what was said before.\n",
)
_TRIES = 8


class Edit(NamedTuple):
    """What became of a passage."""

    update: str
    stale: str
    value: str
    affected: tuple[Question, ...]
    unaffected: tuple[Question, ...]


class Editor:
    """Edits passages; names are replaced by answers to questions of the same kind."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self._pools = Pools(question for question in questions if question.is_verbatim)

    def edit(self, chance: random.Random, text: str, questions: Sequence[Question]) -> Edit | None:
        """Change one answer of the passage; None if no answer of it can be changed."""
        sentences = sentence_spans(text)
        for question in chance.sample(list(questions), len(questions)):
            if not question.is_verbatim or shape_of(question.answer) is None:
                continue
            places = _places(text, sentences, question)
            for _ in range(_TRIES if places else 0):
                value = self._pools.replacement(chance, question)
                if value is None or holds(text, value) or question.answer.lower() in value.lower():
                    continue
                update = _rewritten(chance, text, sentences, places, value)
                if question.answer.lower() not in update.lower():
                    return _edit(question, questions, update, value)
        return None


def _places(text: str, sentences: Sequence[Span], question: Question) -> list[Span]:
    """Find where the answer stands; none where replacing it there would leave a contradiction."""
    stale = question.answer
    places = occurrences(text, stale, any_case=False)
    shape = shape_of(stale)
    if holds(question.text, stale) or len(places) != text.lower().count(stale.lower()):
        return []
    if shape in {"number", "number word"} and len(places) > 1:
        return []  # the same small number elsewhere counts something else
    if shape in {"year", "number"} and any(_in_range(text, place) for place in places):
        return []  # one end of "1914-1918" or "2018/2019" does not change alone
    if shape == "name":
        starts = {sentence.start for sentence in sentences}
        opens_only = all(place.start in starts for place in places)
        if opens_only and " " not in stale:
            return []  # its capital may be the sentence's
        rest = _without(text, places)
        if any(holds(rest, word) for word in _name_words(stale)):
            return []
    return places


def _in_range(text: str, place: Span) -> bool:
    around = text[max(0, place.start - 1) : place.start] + text[place.end : place.end + 1]
    return any(mark in "-–/" for mark in around)


def _rewritten(chance: random.Random, text: str, sentences: Sequence[Span], places: Sequence[Span], value: str) -> str:
    """Write the update: the whole passage, or the sentences that changed."""
    whole = chance.random() < 0.5
    parts = []
    for sentence in sentences:
        own = [place for place in places if sentence.start <= place.start < sentence.end]
        if own or whole:
            written, at = [], sentence.start
            for place in own:
                written += [text[at : place.start], value]
                at = place.end
            parts.append("".join([*written, text[at : sentence.end]]))
    if whole:
        return "".join(parts)
    return chance.choice(_OPENINGS) + " ".join(part.strip() for part in parts)


def _edit(question: Question, questions: Sequence[Question], update: str, value: str) -> Edit:
    stale = question.answer
    affected = [other for other in questions if other.answer == stale and not holds(other.text, stale)]
    touched = [stale, value, *_name_words(stale)] if shape_of(stale) == "name" else [stale, value]
    unaffected = [
        other
        for other in questions
        if other not in affected
        and not any(holds(other.answer, part) or holds(other.text, part) for part in touched)
        and not holds(stale, other.answer)
    ]
    return Edit(update, stale, value, tuple(affected), tuple(unaffected))


def _name_words(name: str) -> list[str]:
    return [word for word in name.split() if len(word) > 2 and word[0].isupper()]


def _without(text: str, places: Sequence[Span]) -> str:
    kept, at = [], 0
    for place in places:
        kept.append(text[at : place.start])
        at = place.end
    return "\n".join([*kept, text[at:]])
