"""Holds an answer to the values it copies: an IBAN, a version, a path, once begun, goes on as the evidence has it.

A small model begins a long value rightly and then slips: a digit too many, a group said twice, cents left out. A value
here is a word of the evidence with a digit or a sign inside. It is begun where the answer's last word is the beginning
of one with a digit or a sign of it: two characters, or one behind the word that stands before it in the evidence. From
there on a token that no such value goes on with is passed over for the likeliest that one does. Words of letters alone
are the model's own.
"""

import re
from collections.abc import Callable, Iterable, Sequence

_OPENING = "\"'([{<\u201c\u2018\u00ab"
_CLOSING = "\"')]}>.,;:!?\u201d\u2019\u00bb"
_LETTERS_ALONE = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


class Copying:
    """The values of some texts, and how an answer that has begun one may go on.

    Args:
        texts: what the answer is made from.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._values: list[tuple[str, str]] = []  # (the word before, the value)
        for text in texts:
            words = text.split()
            for before, word in zip(["", *words], words, strict=False):
                value = _trimmed(word)
                if value and not _LETTERS_ALONE.fullmatch(value):
                    self._values.append((_trimmed(before).casefold(), value))

    def begun(self, said: str) -> list[str]:
        """Return the values that the last word of an answer may be the beginning of; itself, where it is whole."""
        if not said or said[-1].isspace():
            return []
        *before, last = said.rsplit(maxsplit=2)[-2:]
        word = last.lstrip(_OPENING)
        previous = _trimmed(before[0]).casefold() if before else ""
        return [
            value
            for behind, value in self._values
            if word and value.startswith(word) and (len(word) > 1 or (previous and behind == previous))
            if not _LETTERS_ALONE.fullmatch(word)
        ]

    def choose(self, said: str, token: int, ranked: Callable[[], Sequence[int]], decode: Callable[[int], str]) -> int:
        """Return the next token of an answer: the one given, or the likeliest that goes on with a value it has begun.

        Args:
            said: the answer so far.
            token: the likeliest.
            ranked: gives the likeliest tokens, best first; called only if `token` breaks a value off.
            decode: a token's text; empty for one that ends the answer.

        Returns:
            `token` too where none of the ranked goes on with a value.
        """
        values = self.begun(said)
        if not values:
            return token
        word = said.rsplit(maxsplit=1)[-1].lstrip(_OPENING)
        if any(not value[len(word) :][:1].isascii() for value in values):  # a letter of several tokens
            return token

        def goes_on(one: int) -> bool:
            return any(_goes_on(word, value, decode(one)) for value in values)

        return token if goes_on(token) else next((one for one in ranked() if goes_on(one)), token)


def _goes_on(word: str, value: str, piece: str) -> bool:
    """Whether a word and the piece behind it are the beginning of a value, or the whole of it and then no more."""
    longer = word + piece
    if len(longer) <= len(value):
        return value.startswith(longer) and (bool(piece) or word == value)
    return longer.startswith(value) and not longer[len(value)].isalnum()


def _trimmed(word: str) -> str:
    return word.lstrip(_OPENING).rstrip(_CLOSING)
