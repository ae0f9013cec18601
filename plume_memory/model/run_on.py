"""Ends an answer that runs on: one that has said what its evidence says, and goes on without a word of it.

A small model that has given a value often goes on in the same form ("… 40 in November and my size in December and my
size in January …"). What it says behind the last word of its evidence is held back, and given only if the answer goes
on with another one, or comes to its own end.
"""

import re

from plume_memory.terms import FUNCTION_WORDS, terms_of

LONGEST = 12
"""Words in a row that add nothing of the evidence; with the next one the answer ends."""

_WHOLE_WORD = re.compile(r"\s*\S+(?=\s)")


class RunOn:
    """Watches one answer, piece by piece; how it is cut into pieces does not matter.

    Args:
        words: terms of the evidence and of the question.
    """

    def __init__(self, words: frozenset[str]) -> None:
        self._unsaid = set(words) - FUNCTION_WORDS
        self._begun = False
        self._text = ""
        self._given = 0  # characters
        self._read = 0  # characters: whole words
        self._sure = 0  # characters up to the last word of the evidence
        self._idle = 0  # words since then
        self.ended = False

    def add(self, piece: str) -> str:
        """Take text that is certain; return what may be given now: up to the last word of the evidence.

        Before the first one nothing can be cut, and all may be given.
        """
        self._text += piece
        while not self.ended and (word := _WHOLE_WORD.match(self._text, self._read)):
            self._read = word.end()
            new = self._unsaid.intersection(terms_of(word.group()))
            if new:
                self._unsaid -= new
                self._begun, self._sure, self._idle = True, self._read, 0
            elif self._begun:
                self._idle += 1
                self.ended = self._idle > LONGEST
        return self._give(self._sure if self._begun else len(self._text))

    def finish(self) -> str:
        """Return what is still held: the answer came to its own end, or to its budget's."""
        return self._give(self._sure if self.ended else len(self._text))

    def _give(self, end: int) -> str:
        given, self._given = self._text[self._given : end], max(self._given, end)
        return given
