"""Tables: CSV and TSV, and what any table's cells say. A cell is a unit, said with its column and its row's name."""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from plume_memory.segmentation.forms.piece import Piece
from plume_memory.segmentation.forms.saying import is_code, is_naming, said_field, words_of


class Cell(NamedTuple):
    """A cell of a table and where it stands, with its quotes."""

    text: str
    start: int
    end: int


Row = Sequence[Cell]
_DELIMITERS = "\t;,|"
_FIELD = r'"(?:[^"]|"")*"|[^{0}\n"][^{0}\n]*|'
_SNIFFED_LINES = 40
_SNIFFED_CHARS = 20_000
_MOST_HEAD_CHARS = 48
_MOST_NAME_COLUMNS = 3
_MOST_CELLS = 1000
"""A larger table is said row by row: each unit of an update is compared with those before it."""


def table_pieces(text: str) -> list[Piece] | None:
    """Read CSV or TSV, of which the first row is the head; None if it is none."""
    delimiter = delimiter_of(text)
    return None if delimiter is None else _read(text, delimiter)


def delimiter_of(text: str) -> str | None:
    """Return what stands between the cells, if the text is clearly a table: rows of as many cells, under a head."""
    sample = text[:_SNIFFED_CHARS].lstrip("\ufeff")
    for delimiter in _DELIMITERS:
        if delimiter in sample and _is_table(sample, delimiter, is_cut=len(text) > _SNIFFED_CHARS):
            return delimiter
    return None


def _is_table(sample: str, delimiter: str, *, is_cut: bool) -> bool:
    try:
        rows = list(islice(csv.reader(sample.splitlines(keepends=True), delimiter=delimiter), _SNIFFED_LINES))
    except csv.Error:
        return False
    if is_cut and len(rows) < _SNIFFED_LINES:
        rows.pop()  # it may be a part
    rows = [row for row in rows if row]
    if len(rows) < 2 or (delimiter == "|" and any(not row[0].strip() for row in rows)):
        return False
    head, *body = rows
    columns = len(head)
    even = all(len(row) == columns for row in body)
    named = len({cell.strip().lower() for cell in head}) == columns and all(map(_is_column, head))
    if not even or not named or columns < 2:
        return False
    if delimiter in ",;":  # prose has a blank behind a comma, and labels before colons
        cells = [cell for row in rows for cell in row[1:]]
        spaced = sum(cell.startswith(" ") for cell in cells) / len(cells)
        long = columns > 2 or len(rows) > 3 or (len(rows) > 2 and not spaced and all(map(_is_terse, rows)))
        return spaced < 0.5 and long and not any(":" in cell for cell in head)
    ruled = delimiter == "|" and any(cell and not cell.strip(" :-") for cell in body[0])  # a table of Markdown
    return not ruled and (columns > 2 or len(rows) > 2)


def _is_terse(row: Sequence[str]) -> bool:
    """Whether a row is no line of prose, nor one with a number like "3,5": names or numbers, of a few words each."""
    short = all(cell.strip() and len(cell.split()) < 4 and not cell.endswith((".", "!", "?")) for cell in row)
    return short and not any(one[-1:].isdigit() and other[:1].isdigit() for one, other in pairwise(row))


def _is_column(cell: str) -> bool:
    cell = cell.strip()
    letters = any(char.isalpha() for char in cell)
    return letters and len(cell) <= _MOST_HEAD_CHARS and not cell.endswith((".", "!", "?")) and len(cell.split()) < 7


def _read(text: str, delimiter: str) -> list[Piece]:
    rows = list(_rows(text, delimiter))
    columns, *body = [row for row in rows if any(cell.text.strip() for cell in row)]
    return list(cells_said(columns, body))


def _rows(text: str, delimiter: str) -> Iterator[Row]:
    """Yield the rows with their cells' places; quoted cells may hold line breaks and delimiters."""
    field = re.compile(_FIELD.format(re.escape(delimiter)))
    at, row = len(text) - len(text.lstrip("\ufeff")), list[Cell]()
    while at < len(text):
        found = field.match(text, at)
        end = found.end() if found else at
        if end == at and text[at] == '"':  # a quote that nothing closes: the cell is the rest of its line
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
        elif text[at] == '"':  # what stands behind a closing quote is part of the cell
            while end < len(text) and text[end] not in (delimiter, "\n", "\r"):
                end += 1
        raw = text[at:end].rstrip("\r")
        quoted = len(raw) > 1 and raw[0] == raw[-1] == '"'
        row.append(Cell(raw[1:-1].replace('""', '"') if quoted else raw, at, at + len(raw)))
        while end < len(text) and text[end] == "\r":
            end += 1
        if end >= len(text) or text[end] == "\n":
            yield row
            row = []
        at = end + 1
    if row:
        yield row


def cells_said(columns: Row, body: Sequence[Row], headings: tuple[str, ...] = ()) -> Iterator[Piece]:
    """Yield what a table says: how long it is and what its columns are, then cell by cell.

    Args:
        columns: its head.
        body: its rows; a row may have fewer cells, or more.
        headings: what the table stands under.
    """
    heads = [cell.text.strip() for cell in columns]
    listed = ", ".join(words_of(head) for head in heads if head)
    start, end = columns[0].start, columns[-1].end
    yield Piece(start, end, headings, f"Table of {len(body)} {'row' if len(body) == 1 else 'rows'}: {listed}.")
    naming = _naming_of(heads, body)
    by_row = sum(map(len, body)) > _MOST_CELLS
    for number, row in enumerate(body, start=1):
        subject = _subject(row, naming, heads) or f"row {number}"
        cells = list(_cells_said(row, heads, naming, subject, headings))
        if by_row or not cells:
            cells = [Piece(row[0].start, row[-1].end, headings, _row_said(row, heads, naming, subject))]
        if any(cell.text.strip() for cell in row):
            yield from cells


def _cells_said(
    row: Row, heads: Sequence[str], naming: "_Naming", subject: str, headings: tuple[str, ...]
) -> Iterator[Piece]:
    for at, cell in enumerate(row):
        value, head = cell.text.strip(), heads[at] if at < len(heads) else f"column {at + 1}"
        is_code = naming.has_code and at == naming.columns[-1] and len(naming.columns) > 1
        if value and (at not in naming.columns or is_code):  # the row's name is said with every other cell
            whose = _subject(row, _Naming(naming.columns[:1], has_code=True), heads) if is_code else subject
            yield Piece(cell.start, cell.end, headings, said_field(head, whose or subject, [value]))


def _row_said(row: Row, heads: Sequence[str], naming: "_Naming", subject: str) -> str:
    """A row as a whole: "Sealing ring (K-2210): supplier Blomqvist AB, stock 340."."""
    cells = [(words_of(heads[at]) if at < len(heads) else "", " ".join(row[at].text.split())) for at in range(len(row))]
    said = [f"{head} {cell}".strip() for at, (head, cell) in enumerate(cells) if cell and at not in naming.columns]
    return f"{subject}: {', '.join(said)}." if said else _said_alone(row, naming, heads)


class _Naming(NamedTuple):
    """Which columns tell a row from the others, the one that people say first."""

    columns: Sequence[int]
    has_code: bool = False
    """Whether the last of them is a code."""


def _subject(row: Row, naming: _Naming, heads: Sequence[str]) -> str:
    """What a row is about: its name, with its code in brackets; of several columns all of them."""
    found = [(at, " ".join(row[at].text.split())) for at in naming.columns if at < len(row) and row[at].text.strip()]
    told = [
        cell if naming.has_code or at == naming.columns[0] else f"{words_of(heads[at])} {cell}" for at, cell in found
    ]
    first, *more = told or [""]
    return f"{first} ({', '.join(more)})" if more else first


def _said_alone(row: Row, naming: _Naming, heads: Sequence[str]) -> str:
    at = naming.columns[0]
    name = words_of(heads[at]) if at < len(heads) else ""
    said = ", ".join(cell.text.strip() for cell in row if cell.text.strip())
    return f"{name[:1].upper()}{name[1:]}: {said}" if name else said


def _naming_of(heads: Sequence[str], body: Sequence[Row]) -> _Naming:
    """A column of names and one of codes, where there are such; else the first columns that together never repeat."""
    names = [at for at, head in enumerate(heads) if is_naming(head) and _differ(body, [at])]
    codes = [at for at, head in enumerate(heads) if is_code(head) and _differ(body, [at])]
    if codes and not names and codes[0] == 0 and len(heads) > 2 and _differ(body, [1]) and _are_words(body, 1):
        names = [1]  # a code, and behind it what the thing is
    if names or codes:
        return _Naming([*names[:1], *codes[:1]], bool(codes))
    for wanted in range(1, min(_MOST_NAME_COLUMNS, len(heads) - 1) + 1):
        if _differ(body, list(range(wanted))):
            return _Naming(list(range(wanted)))
    return _Naming([0])


def _differ(body: Sequence[Row], columns: list[int]) -> bool:
    seen = [tuple(row[at].text.strip() if at < len(row) else "" for at in columns) for row in body]
    return len(set(seen)) == len(seen) and all(any(cells) for cells in seen)


def _are_words(body: Sequence[Row], column: int) -> bool:
    cells = [row[column].text for row in body if column < len(row)]
    return all(sum(char.isalpha() for char in cell) * 2 > len(cell) for cell in cells)
