"""Markdown: every piece under its headings; the cells of a table said, code whole, quotes as what they are.

The blocks are those of `blocks_of`, the items of its lists those of `list_items`.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from plume_memory.segmentation.blocks import Block, blocks_of
from plume_memory.segmentation.forms.piece import Piece
from plume_memory.segmentation.forms.table import Cell, Row, cells_said
from plume_memory.segmentation.statements import statements

_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_TITLE = re.compile(r"#{1,6}[ \t]+\S")
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_QUOTE = re.compile(r"[ \t]{0,3}>[ ]?")
_CELL = re.compile(r"(?:\\.|`[^`]*`|[^|\\])+|\\")
_EMPHASIS = re.compile(r"(\*\*|__|`)(.+?)\1|\[([^\]]*)\]\([^)]*\)")
_FRONT = re.compile(r"\ufeff?---[ \t]*\n")


def is_markdown(text: str) -> bool:
    """Whether a text is clearly Markdown: a table, code between fences, or more than one title with words below."""
    lines = text.split("\n")
    titles = fences = 0
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            fences += 1
        elif fences % 2 == 0:
            titles += _TITLE.match(line) is not None
            if number and "|" in line and "|" in lines[number - 1] and len(line) < 2000 and _RULE.match(line):
                return True
    return fences > 1 or titles > 1


def markdown_pieces(text: str) -> list[Piece] | None:
    """Read Markdown; any text is some."""
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    starts[-1] = len(text)
    return list(_pieces(text, lines, starts))


def _pieces(text: str, lines: Sequence[str], starts: Sequence[int]) -> Iterator[Piece]:
    outline: dict[int, str] = {}
    told, begun = 0, 0  # lines up to here are told; the run of blocks that is not told yet begins there
    for block in blocks_of([line.rstrip() for line in lines]):
        headings = tuple(outline[depth] for depth in sorted(outline))
        table = _table_of(block, lines)
        quoted = block.kind == "lines" and _QUOTE.match(lines[block.first]) is not None
        if block.kind not in ("title", "other") and table is None and not quoted:
            continue
        if begun < block.first:
            yield from _plain(text, starts[begun], starts[block.first], headings)
        first = starts[block.first]
        end = first + len(text[first : starts[block.end]].rstrip())
        if block.kind == "title":
            outline = {depth: one for depth, one in outline.items() if depth < block.depth}
            title = lines[block.first].strip()
            if title.strip("# "):
                yield Piece(first, end, tuple(outline[depth] for depth in sorted(outline)), title, is_heading=True)
                outline[block.depth] = title
        elif table is not None:
            yield from cells_said(*_rows(table, lines, starts), headings)
        elif quoted:
            words = " ".join(_QUOTE.sub("", line).strip(" >\t\r") for line in lines[block.first : block.end])
            yield Piece(first, end, (*headings, "Quoted"), words)
        elif text[first:end].strip("-*_= \t\r\n"):
            yield Piece(first, end, headings)
        told = begun = block.end
    headings = tuple(outline[depth] for depth in sorted(outline))
    if starts[told] < len(text):
        yield from _plain(text, starts[told], len(text), headings)


def _plain(text: str, start: int, end: int, headings: tuple[str, ...]) -> Iterator[Piece]:
    """Lists and prose, as they are told anywhere, under the titles."""
    for one in statements(text[start:end]):
        if text[start + one.start : start + one.end].strip():
            own = tuple(one.heading.split("\n")) if one.heading else ()
            body = start + one.body if one.start < one.body < one.end else 0
            yield Piece(start + one.start, start + one.end, (*headings, *own), body=body)


def _table_of(block: Block, lines: Sequence[str]) -> range | None:
    """The lines of a block that is a table, its head first."""
    if block.kind == "list" and block.end - block.first > 2 and _is_rule(lines, block.first + 1):
        return range(block.first, block.end)
    return None


def _is_rule(lines: Sequence[str], at: int) -> bool:
    return "|" in lines[at - 1] and "-" in lines[at] and _RULE.match(lines[at]) is not None


def _rows(table: range, lines: Sequence[str], starts: Sequence[int]) -> tuple[Row, list[Row]]:
    rows = [_cells(lines[at], starts[at]) for at in table if at != table.start + 1]
    return rows[0], [row for row in rows[1:] if row]


def _cells(line: str, start: int) -> Row:
    """The cells of a row, without what emphasises them; empty ones too."""
    row: list[Cell] = []
    at = len(line) - len(line.lstrip())
    at += line.startswith("|", at)
    end = len(line.rstrip())
    while at < end:
        found = _CELL.match(line, at, end)
        stop = found.end() if found else at
        raw = line[at:stop]
        lead = len(raw) - len(raw.lstrip())
        words = _EMPHASIS.sub(lambda mark: mark.group(2) or mark.group(3) or "", raw.strip()).replace("\\|", "|")
        row.append(Cell(words, start + at + lead, start + at + max(lead, len(raw.rstrip()))))
        at = stop + 1
    return row
