"""Texts in pieces, for the eye: what two have in common word by word, and parts that are marked. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from plume_memory.records import Span, Transition

PieceKind = Literal["same", "added", "removed", "marked"]
_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS = 4000
"""Longer texts are compared as wholes: comparing takes the square of their length."""
_ALIKE = 0.5
"""Texts with at least this share of words in common are shown as one that changed."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text."""

    kind: PieceKind
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one text between two versions."""

    before: int | None
    """The version that brought the earlier text; None where there is none."""
    after: int | None
    """The same of the later text."""
    pieces: tuple[Piece, ...]

    @property
    def kind(self) -> Literal["same", "added", "removed", "changed"]:
        """How it changed."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        return "same" if all(piece.kind == "same" for piece in self.pieces) else "changed"


def compared(before: str, after: str) -> tuple[Piece, ...]:
    """Return two texts as one: the words they share, and between them those of either."""
    first, second = _WORD.findall(before), _WORD.findall(after)
    if max(len(first), len(second)) > _MOST_WORDS and before != after:
        return (Piece("removed", before), Piece("added", after))
    pieces: list[Piece] = []
    matched = SequenceMatcher(None, first, second, autojunk=False)
    for tag, i, j, k, n in matched.get_opcodes():
        if tag == "equal":
            pieces.append(Piece("same", "".join(first[i:j])))
            continue
        pieces += [Piece("removed", "".join(first[i:j]))] if j > i else []
        pieces += [Piece("added", "".join(second[k:n]))] if n > k else []
    return tuple(pieces)


def marked(text: str, spans: Iterable[Span]) -> tuple[Piece, ...]:
    """Return a text with parts of it marked; parts may touch or overlap."""
    pieces: list[Piece] = []
    at = 0
    for start, end in sorted(spans):
        begin = max(start, at)
        if end <= begin:
            continue
        pieces += [Piece("same", text[at:begin])] if begin > at else []
        pieces.append(Piece("marked", text[begin:end]))
        at = end
    return (*pieces, Piece("same", text[at:])) if at < len(text) else tuple(pieces)


def changes(before: Sequence[Transition], after: Sequence[Transition]) -> list[Change]:
    """Compare the histories of two versions, text by text, in the order of the versions that brought them."""
    held = {one.version: one.text for one in before}
    holds = {one.version: one.text for one in after}
    gone = [one for one in before if one.version not in holds]
    found: list[Change] = []
    for number in sorted(held.keys() & holds.keys()):
        found.append(Change(number, number, compared(held[number], holds[number])))
    for one in after:
        if one.version in held:
            continue
        earlier = _like(one.text, gone)
        if earlier is None:
            found.append(Change(None, one.version, (Piece("added", one.text),)))
        else:
            gone.remove(earlier)
            found.append(Change(earlier.version, one.version, compared(earlier.text, one.text)))
    found += [Change(one.version, None, (Piece("removed", one.text),)) for one in gone]
    return sorted(found, key=lambda change: (change.after or change.before or 0, change.after is None))


def _like(text: str, others: Sequence[Transition]) -> Transition | None:
    """The one of some texts that has most words in common with a text, if that is most of them."""
    words = set(_WORD.findall(text.lower()))
    scored = [(len(words & (own := set(_WORD.findall(one.text.lower())))) / len(words | own), one) for one in others]
    best = max(scored, key=lambda each: each[0], default=None)
    return best[1] if best is not None and best[0] >= _ALIKE else None
