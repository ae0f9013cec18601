"""Cuts a long context to a window of whole sentences that holds what its questions rest on.

A question stays only if its evidence does: the place of the answer whose sentence shares most words with
the question. An answer that the window holds by chance ("4", "the patient") would teach guessing.
"""

import random
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from plume_memory.segmentation.sentences import sentence_spans
from plume_memory.training.facts.names import listed
from plume_memory.training.sources.matching import count_words, occurrences
from plume_memory.training.sources.reading import Passage, Question


class Cut(NamedTuple):
    """A text within the limit, and the questions that it answers."""

    text: str
    questions: tuple[Question, ...]


class Windows:
    """One context that can be cut again and again; evidence is looked for once.

    `is_usable` is False when no question's evidence fits into the limit.
    """

    def __init__(self, passage: Passage, *, largest_words: int) -> None:
        self._passage = passage
        self._largest = largest_words
        self._is_whole = count_words(passage.text) <= largest_words
        self._sentences: list[str] = []
        self._evidence: list[tuple[int, int]] = []
        self._kept: tuple[Question, ...] = passage.questions
        self._before: list[int] = []
        if self._is_whole:
            self.is_usable = bool(passage.questions)
        elif passage.paragraphs and passage.supporting:
            self.is_usable = sum(count_words(passage.paragraphs[i]) for i in passage.supporting) <= largest_words
        else:
            self._find_evidence()
            self.is_usable = bool(self._kept)

    def cut(self, chance: random.Random) -> Cut:
        """Draw a window; the whole context if it is short enough."""
        if self._is_whole:
            return Cut(self._passage.text.strip(), self._passage.questions)
        if self._passage.paragraphs and self._passage.supporting:
            return self._paragraph_window(chance)
        first, last = chance.choice(self._evidence)
        while True:
            room = self._largest - self._words(first, last)
            wider = [
                (start, end)
                for start, end in ((first - 1, last), (first, last + 1))
                if start >= 0
                and end < len(self._sentences)
                and self._words(start, end) - self._words(first, last) <= room
            ]
            if not wider:
                break
            first, last = chance.choice(wider)
        text = "".join(self._sentences[first : last + 1]).strip()
        kept = [
            _as_written(question, text)
            for question, (start, end) in zip(self._kept, self._evidence, strict=True)
            if first <= start and end <= last
        ]
        return Cut(text, tuple(kept))

    def _paragraph_window(self, chance: random.Random) -> Cut:
        """The paragraphs the answers rest on, among as many others as fit, in the context's order."""
        chosen = set(self._passage.supporting)
        words = [count_words(paragraph) for paragraph in self._passage.paragraphs]
        room = self._largest - sum(words[index] for index in chosen)
        for index in chance.sample(range(len(words)), len(words)):
            if index not in chosen and words[index] <= room:
                chosen.add(index)
                room -= words[index]
        text = "\n\n".join(self._passage.paragraphs[index].strip() for index in sorted(chosen))
        kept = tuple(q for q in self._passage.questions if not q.is_verbatim or occurrences(text, q.answer))
        return Cut(text, tuple(_as_written(question, text) for question in kept))

    def _words(self, first: int, last: int) -> int:
        return self._before[last + 1] - self._before[first]

    def _find_evidence(self) -> None:
        text = self._passage.text
        spans = sentence_spans(text)
        self._sentences = [text[span.start : span.end] for span in spans]
        self._before = [0, *accumulate(count_words(sentence) for sentence in self._sentences)]
        content = [_content_words(sentence) for sentence in self._sentences]
        starts = [span.start for span in spans]
        kept: list[Question] = []
        for question in self._passage.questions:
            asked = _content_words(question.text)
            places = (
                [_sentence_range(starts, span.start, span.end) for span in occurrences(text, question.answer)]
                if question.is_verbatim
                else [(index, index) for index in range(len(spans))]
            )
            fitting = [place for place in places if self._words(*place) <= self._largest]
            if fitting:
                kept.append(question)
                self._evidence.append(max(fitting, key=lambda place: _shared(asked, content, place)))
        self._kept = tuple(kept)


def _sentence_range(starts: Sequence[int], start: int, end: int) -> tuple[int, int]:
    first = max(index for index, begin in enumerate(starts) if begin <= start)
    last = max(index for index, begin in enumerate(starts) if begin < end)
    return first, last


def _shared(asked: frozenset[str], content: Sequence[frozenset[str]], place: tuple[int, int]) -> float:
    """Count words the evidence shares with the question; a sentence beside it counts for a quarter."""
    first, last = place
    inside = frozenset[str]().union(*content[first : last + 1])
    beside = frozenset[str]().union(*content[max(0, first - 1) : first], *content[last + 1 : last + 2])
    return len(asked & inside) + len(asked & (beside - inside)) / 4


def _content_words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"\w+", text.lower()) if len(word) > 2) - _COMMON


def _as_written(question: Question, text: str) -> Question:
    """Give the answer in the letters of the window, which may differ from the context's in case."""
    if not question.is_verbatim:
        return question
    span = occurrences(text, question.answer)[0]
    return Question(question.text, text[span.start : span.end], is_verbatim=True)


_COMMON = frozenset(
    listed("the and for was were are what which who whom whose how did does that this with from have has")
)
