"""Parts of a text: what is left when some of them are taken out, and where a part lies once others were erased.

Pure functions on strings; no SQL. A forget leaves the text in the log and takes a span out of every history from
there on; an erasure takes the span out of the log's text itself, which shifts what lies behind it. A span is always
recorded in the text as the log held it at that moment, so the spans of one text are read in the order of the
versions that hold them (`current_cuts`).

White space at a cut, defined: where white space stands on both sides, the piece with more line breaks stays, the
first of equals; a piece before one of `.,;:!?` goes; a cut with nothing else before it, or behind it, leaves none.
Nothing else of the text changes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple
from unicodedata import is_normalized, normalize

import regex

from plume_memory.records import Span

_CLOSING = ".,;:!?"
_LETTER = regex.compile(r"[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?|\P{M}\p{M}*|\p{M}")
"""A letter with its accents, or the parts of a Korean syllable: what NFC composes."""


class Cut(NamedTuple):
    """A part that a version took out of an update's text."""

    number: int
    """The forget or erase."""
    span: Span
    is_erased: bool
    """Whether the log's text lacks it since."""


def current_cuts(cuts: Iterable[Cut]) -> list[Span]:
    """Return where the cuts lie in the text as the log holds it now; an erased one is a span of no characters."""
    found: list[Span] = []
    for cut in sorted(cuts):
        if cut.is_erased:
            found = [shifted(span, cut.span) for span in found]
            found.append(Span(cut.span.start, cut.span.start))
        else:
            found.append(cut.span)
    return sorted(found)


def shifted(span: Span, erased: Span) -> Span:
    """Return where a span lies after another was erased; of what both cover nothing is left."""

    def place(at: int) -> int:
        return at if at <= erased.start else max(erased.start, at - (erased.end - erased.start))

    return Span(place(span.start), place(span.end))


def original(span: Span, erased: Sequence[Span]) -> Span:
    """Return where a span lay in the text as it was written, before the erasures, given in their order."""
    start, end = span
    for gone in reversed(erased):
        length = gone.end - gone.start
        start = start if start < gone.start else start + length
        end = end if end <= gone.start else end + length
    return Span(start, end)


def without(text: str, span: Span | None) -> str:
    """Return the text without a part, or without anything: what an erasure leaves."""
    return "" if span is None else text[: span.start] + text[span.end :]


def held_slices(text: str, cuts: Sequence[Span]) -> list[Span]:
    """Return the parts of a text that hold, ascending: what the cuts leave, white space as this module says."""
    pieces = list(_pieces(text, cuts))
    is_cut = {edge for cut in cuts for edge in cut}
    found: list[Span] = []
    gaps: list[Span] = []
    for piece in pieces:
        said = text[piece.start : piece.end]
        start, end = piece.end - len(said.lstrip()), piece.start + len(said.rstrip())
        if start >= end:  # white space alone
            gaps.append(piece)
            continue
        before = Span(piece.start, start)
        if found:
            gaps = [gap for gap in (*gaps, before) if gap.start < gap.end]
            if gaps and not (before.start == before.end and text[start] in _CLOSING):
                found.append(max(gaps, key=lambda gap: text.count("\n", *gap)))
        elif piece.start == 0 and 0 not in is_cut:
            found.append(before)
        found.append(Span(start, end))
        gaps = [Span(end, piece.end)]
    if found and pieces[-1].end == len(text) and len(text) not in is_cut:
        # White space at the text's own end is its own; behind a cut it is the cut's.
        found.extend(gap for gap in gaps if gap.end == len(text) and gap.start == found[-1].end)
    return [each for each in found if each.start < each.end]


def held_text(text: str, cuts: Sequence[Span]) -> str:
    """Return what holds of a text; empty when nothing but white space is left."""
    return said(text, held_slices(text, cuts))


def said(text: str, slices: Sequence[Span]) -> str:
    """Join parts of a text."""
    return "".join(text[start:end] for start, end in slices)


def occurrences(words: str, text: str, slices: Sequence[Span] | None = None) -> list[Span]:
    """Return where words stand in a text, overlapping ones too, in the text's own characters.

    An accent may be written with its letter or behind it (NFC or NFD): "Café" is found either way, "Cafe" is not.

    Args:
        words: not empty.
        text: the text as the log holds it.
        slices: search only what holds of it; words may then reach across a cut, and their span covers it.
    """
    parts = [Span(0, len(text))] if slices is None else slices
    joined, words = said(text, parts), normalize("NFC", words)
    written: Mapping[int, int] | None = None  # where a place in the composed text is in the text as it is written
    if not is_normalized("NFC", joined):
        joined, written = _composed(joined)
    found: list[Span] = []
    at = joined.find(words)
    while at >= 0:
        start, end = at, at + len(words)
        if written is None or (start in written and end in written):  # no half letter
            start, end = (start, end) if written is None else (written[start], written[end])
            found.append(Span(_place(parts, start), _place(parts, end - 1) + 1))
        at = joined.find(words, at + 1)
    return found


def spellings(words: str) -> tuple[str, ...]:
    """Return the words as they are given, and with each accent in its letter and behind it."""
    return tuple(dict.fromkeys((words, normalize("NFC", words), normalize("NFD", words))))


def _composed(text: str) -> tuple[str, dict[int, int]]:
    """Return a text in NFC, and for each place in it where a letter begins, or the text ends, the place in `text`."""
    letters = _LETTER.findall(text)
    composed = [normalize("NFC", letter) for letter in letters]
    places = zip(accumulate(map(len, composed), initial=0), accumulate(map(len, letters), initial=0), strict=True)
    return "".join(composed), dict(places)


def _place(slices: Sequence[Span], at: int) -> int:
    """Return the place in the text of a character of its joined slices."""
    for start, end in slices:
        if at < end - start:
            return start + at
        at -= end - start
    raise IndexError(at)


def _pieces(text: str, cuts: Sequence[Span]) -> Iterator[Span]:
    """Yield what lies between the cuts, ascending, none empty."""
    at = 0
    for start, end in sorted(cuts):
        if start > at:
            yield Span(at, start)
        at = max(at, end)
    if at < len(text):
        yield Span(at, len(text))
