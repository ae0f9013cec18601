"""Chooses notes: near duplicates once, the best first, as many as a budget takes, then in the order they were said."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from plume_memory.errors import InvalidInput
from plume_memory.recalling.notes import MAX_TOKENS, NOTES, Note, Recall, text_of
from plume_memory.terms import FUNCTION_WORDS, stem_of, terms_of


@dataclass(frozen=True, slots=True)
class Found:
    """A note that bears on a question."""

    note: Note
    beside: tuple[Note, ...] = ()
    """What completes it."""


def chosen(
    question: str,
    memories: Sequence[str],
    found: Iterable[Found],
    *,
    count_tokens: Callable[[str], int],
    k: int = NOTES,
    max_tokens: int = MAX_TOKENS,
) -> Recall:
    """Return the best notes that fit.

    Args:
        question: the words that were routed.
        memories: what was read.
        found: of one memory in the order of their rank; of several by their scores.
        count_tokens: of a text.
        k: most notes, beside those that complete them.
        max_tokens: of the text.

    Raises:
        InvalidInput: `k` or `max_tokens` is below 1.
    """
    if k < 1 or max_tokens < 1:
        raise InvalidInput(f"A recall has at least one note and one token; got k={k}, max_tokens={max_tokens}.")
    taken: dict[tuple[object, ...], Note] = {}
    ranked = list(found) if len(memories) == 1 else sorted(found, key=lambda one: -one.note.score)
    for rank, one in enumerate(_once(ranked)[:k]):
        note, *beside = (replace(each, rank=rank) for each in (one.note, *one.beside))
        alone = {**taken, _place(note): note}
        for wanted in ({**{_place(each): each for each in beside}, **alone}, alone):
            if count_tokens(text_of(list(wanted.values()), memories)) <= max_tokens:
                taken = wanted
                break
    return _recall(question, memories, sorted(taken.values(), key=lambda note: note.order), count_tokens)


def first_that_fit(
    memory: str, notes: Iterable[Note], *, count_tokens: Callable[[str], int], max_tokens: int
) -> Recall:
    """Return notes in their order, near duplicates once, until the next one would not fit.

    Raises:
        InvalidInput: `max_tokens` is below 1.
    """
    if max_tokens < 1:
        raise InvalidInput(f"A profile has at least one token; got max_tokens={max_tokens}.")
    taken: dict[tuple[object, ...], Note] = {}
    for note in notes:
        wanted = {**taken, _said(note): note}
        if count_tokens(text_of(list(wanted.values()), [memory])) > max_tokens:
            break
        taken = wanted
    return _recall("", [memory], list(taken.values()), count_tokens)


def _once(found: Sequence[Found]) -> list[Found]:
    """Of those that say the same the latest, at the place of the best."""
    kept: dict[tuple[object, ...], Found] = {}
    for one in found:
        said = _said(one.note)
        other = kept.get(said)
        if other is None or other.note.order < one.note.order:
            kept[said] = one
    return list(kept.values())


def _said(note: Note) -> tuple[object, ...]:
    """What it says: its words in their order, function words and forms apart; and whether it holds."""
    words = tuple(stem_of(term) for term in terms_of(note.text) if term not in FUNCTION_WORDS)
    whose = note.speaker or (note.memory,)  # "I" is another owner's in another memory
    return whose, note.is_current, words or note.text.strip()


def _recall(
    question: str, memories: Sequence[str], notes: Sequence[Note], count_tokens: Callable[[str], int]
) -> Recall:
    tokens = count_tokens(text_of(notes, memories)) if notes else 0
    return Recall(question, tuple(memories), tuple(notes), tokens)


def _place(note: Note) -> tuple[object, ...]:
    return note.memory, note.version, note.span, note.text
