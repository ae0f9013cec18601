"""The value that every form gives: a whole thing of a text, where it stands, and what is said of it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of characters that is one thing: a message, a cell, a sentence."""

    start: int
    end: int
    """One past the last character."""
    headings: tuple[str, ...] = ()
    """What it stands under, outermost first."""
    said: str | None = None
    """What it says in words; None: its own text."""
    speaker: str | None = None
    time: datetime | None = None
    """When it was said; without a zone where the text names none."""
    days_earlier: int = 0
    """Of a piece without a time: how many days before the text itself it was said."""
    depth: int = 0
    """How deep it is quoted: 0 is what the text itself says, 1 what it quotes, …"""
    is_of_others: bool = False
    """Whether it is older than the text, and who said it or when is not known: it is not the text's speaker's, and no
    day is counted from its time."""
    cut: Literal["never", "forms", "statements"] = "never"
    """`forms`: what has a form of its own is read by it; `statements`: and what has none is cut into sentences."""
    body: int = 0
    """First character of its own words, if headings stand before them within the range."""
    is_heading: bool = False
    """Whether it only says what others stand under."""
    is_stamped: bool = False
    """Whether what stands before its own words is no heading, but says whose they are and when."""


def shifted(pieces: Iterator[Piece] | list[Piece], by: int, outer: Piece) -> Iterator[Piece]:
    """Yield pieces of a part of a text at their place in the whole, under what the part itself stands under."""
    for piece in pieces:
        yield replace(
            piece,
            start=piece.start + by,
            end=piece.end + by,
            body=piece.body + by if piece.body else 0,
            headings=(*outer.headings, *piece.headings),
            speaker=piece.speaker or outer.speaker,
            time=piece.time or outer.time,
            days_earlier=piece.days_earlier or outer.days_earlier,
            is_of_others=piece.is_of_others or outer.is_of_others,
        )


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with where it begins, without its line break."""
    start = 0
    for line in text.split("\n"):
        yield start, line.rstrip("\r")
        start += len(line) + 1
