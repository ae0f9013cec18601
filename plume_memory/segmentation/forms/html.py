"""HTML pages and mails: what a reader sees of them, block by block, under their headings; tables cell by cell.

The standard library's parser reads the marks and says where they stand. Scripts, styles and what is hidden are none
of what is seen.
"""

import re
from bisect import bisect_right
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

from plume_memory.segmentation.forms.piece import Piece
from plume_memory.segmentation.forms.table import Cell, cells_said
from plume_memory.segmentation.sentences import sentence_spans

_BLOCK_LIST = """
    address article aside blockquote body br caption center dd div dl dt fieldset figcaption figure footer form h1 h2 h3
    h4 h5 h6 header hr html legend li main nav ol option p pre section summary table tbody td tfoot th thead title tr ul
"""
_BLOCKS = frozenset(_BLOCK_LIST.split())
_UNSEEN = frozenset(["script", "style", "template", "noscript", "svg", "math", "object"])
_HEADINGS = {"title": 0, **{f"h{depth}": depth for depth in range(1, 7)}}
_LOOKS = re.compile(
    r"<(?:!doctype html|html|head|body|div|p|table|h[1-6]|ul|ol|span|section|article|main)\b", re.IGNORECASE
)
_CLOSES = re.compile(r"</(?:html|body|div|p|table|h[1-6]|ul|ol|section|article|main)\s*>", re.IGNORECASE)
_UNCLOSED = re.compile(r"<(?!!--)(?=[^<>]*(?:<|$))")
"""Begins no mark: another begins before it ends. The parser would look for its end again and again."""
_MOST_HEADINGS = 4


def is_html(text: str) -> bool:
    """Whether a text is clearly a page: it begins with a mark of one, and closes some."""
    begun = text.lstrip("\ufeff \t\r\n")
    while begun.startswith(("<!--", "<?xml")):
        end = begun.find(">")
        begun = begun[end + 1 :].lstrip() if end >= 0 else ""
    return _LOOKS.match(begun) is not None and _CLOSES.search(text) is not None


def html_pieces(text: str) -> list[Piece] | None:
    """Read a page; None if nothing of it is seen."""
    reader = _Page(text)
    reader.feed(_UNCLOSED.sub(" ", text))
    reader.close()
    reader.end_block()
    return reader.pieces or None


def html_text(text: str) -> str:
    """Return what a reader sees of a page, line by line; what is quoted is marked as mails mark it."""
    pieces = html_pieces(text) or []
    return "\n".join(f"{'> ' if 'Quoted' in piece.headings else ''}{piece.said or ''}" for piece in pieces)


class _Page(HTMLParser):
    """Gathers what is seen between the marks of blocks."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.pieces: list[Piece] = []
        self._starts = [0]
        for match in re.finditer("\n", text):
            self._starts.append(match.end())
        self._runs: list[tuple[str, int, int]] = []  # words and where they begin and end
        self._outline: dict[int, str] = {}
        self._hidden = 0
        self._kind = ""
        self._quotes = 0
        self._tables: list[_Table] = []

    def _at(self) -> int:
        line, offset = self.getpos()
        return self._starts[line - 1] + offset

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Pass over `<![...`; the base class fails on those it does not know, which browsers read as comments."""
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            return self.parse_bogus_comment(i)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a block, a table, a row or a cell."""
        if tag in _UNSEEN:
            self._hidden += 1
        if tag in _BLOCKS:
            self.end_block()
            self._kind = tag if tag != "br" else self._kind
        if tag == "table":
            self._tables.append(_Table())
        elif tag == "tr" and self._tables:
            self._tables[-1].rows.append([])
            self._tables[-1].heads.append(0)
        elif tag == "th" and self._tables and self._tables[-1].heads:
            self._tables[-1].heads[-1] += 1
        elif tag == "img":
            alt = dict(attrs).get("alt")
            if alt:
                self._say(alt, len(self.get_starttag_text() or ""))
        if tag == "blockquote":
            self._quotes += 1

    def handle_endtag(self, tag: str) -> None:
        """End a block; of a table, say its cells."""
        if tag in _UNSEEN:
            self._hidden = max(0, self._hidden - 1)
        if tag in _BLOCKS:
            self.end_block()
            self._kind = ""
        if tag == "blockquote":
            self._quotes = max(0, self._quotes - 1)
        if tag == "table" and self._tables:
            cells = self._tables.pop().pieces(self._headings())
            self.pieces += [replace(cell, depth=self._quotes) for cell in cells]

    def handle_data(self, data: str) -> None:
        """Words between marks."""
        self._say(data, len(data))

    def handle_entityref(self, name: str) -> None:
        """A sign by its name."""
        self._say(unescape(f"&{name};"), len(name) + 2)

    def handle_charref(self, name: str) -> None:
        """A sign by its number."""
        self._say(unescape(f"&#{name};"), len(name) + 3)

    def _say(self, words: str, length: int) -> None:
        if not self._hidden and words:
            at = self._at()
            self._runs.append((words, at, at + length))

    def end_block(self) -> None:
        """Make of what was gathered a heading, a cell, or what it is."""
        runs, self._runs = self._runs, []
        while runs and not runs[0][0].strip():
            runs.pop(0)
        while runs and not runs[-1][0].strip():
            runs.pop()
        if not runs:
            return
        words = "".join(run[0] for run in runs)
        start, end = _inside(runs[0], from_end=False), _inside(runs[-1], from_end=True)
        if self._kind in _HEADINGS:
            depth = _HEADINGS[self._kind]
            said = " ".join(words.split())
            kept = {at: one for at, one in self._outline.items() if at < depth and one != said}
            self._outline = {**kept, depth: said}
            self.pieces.append(Piece(start, end, self._headings()[:-1], said, is_heading=True, depth=self._quotes))
        elif self._kind in ("td", "th") and self._tables and self._tables[-1].rows:
            self._tables[-1].rows[-1].append(Cell(" ".join(words.split()), start, end))
        elif self._kind == "pre":
            self.pieces.append(Piece(start, end, self._headings(), words, depth=self._quotes))
        else:
            self._sentences(words, runs)

    def _sentences(self, words: str, runs: list[tuple[str, int, int]]) -> None:
        offsets, at = [0], 0
        for run in runs:
            at += len(run[0])
            offsets.append(at)

        def place(offset: int) -> int:
            number = min(bisect_right(offsets, offset) - 1, len(runs) - 1)
            return min(runs[number][1] + offset - offsets[number], runs[number][2])

        for first, stop in sentence_spans(words):
            said = words[first:stop]
            if said.strip():
                lead, tail = len(said) - len(said.lstrip()), len(said.rstrip())
                begun, end = place(first + lead), max(place(first + tail - 1) + 1, place(first + lead) + 1)
                quoted = ("Quoted",) if self._quotes else ()
                headings = (*self._headings(), *quoted)
                self.pieces.append(Piece(begun, end, headings, " ".join(said.split()), depth=self._quotes))

    def _headings(self) -> tuple[str, ...]:
        return tuple(self._outline[depth] for depth in sorted(self._outline))[-_MOST_HEADINGS:]


class _Table:
    """The cells of a table; only one with a row of heads is a table of records."""

    def __init__(self) -> None:
        self.rows: list[list[Cell]] = []
        self.heads: list[int] = []
        """How many cells of each row are heads."""

    def pieces(self, headings: tuple[str, ...]) -> list[Piece]:
        """Say its cells with their columns; of a table that lays out a page, or of pairs, row by row."""
        rows = [row for row in self.rows if row]
        if len(rows) > 1 and len(rows[0]) > 1 and self.heads[self.rows.index(rows[0])] == len(rows[0]):
            return list(cells_said(rows[0], rows[1:], headings))
        found = []
        for row in rows:
            if any(self.heads) and len(row) == 2:
                said = f"{row[0].text.rstrip(':')}: {row[1].text}"
                found.append(Piece(row[0].start, row[-1].end, headings, said))
            else:
                found += [Piece(cell.start, cell.end, headings, cell.text) for cell in row]
        return found


def _inside(run: tuple[str, int, int], *, from_end: bool) -> int:
    """Where the words of a run begin or end, white space apart."""
    words, start, end = run
    if len(words) != end - start:
        return end if from_end else start
    return end - (len(words) - len(words.rstrip())) if from_end else start + len(words) - len(words.lstrip())
