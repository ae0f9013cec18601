"""Figures that pages say, taken from results by the marks that stand beside them. Knows no model and runs nothing.

A mark is a comment, so that a reader sees the number alone. It stands behind a number and names its cell:

    **44.6 %**<!-- =main | ROUGE-L recall after the update, % | plume | average -->
    an answer takes 1.0 s<!-- =ask-cpu.jsonl | what=later questions | whole -->

The first is of a page of `figures.json`, or of a page beside it that these rows do not make; the second of the one line
of a bench's rows that has such values. A field inside a field is `answer_s.p50`. A last part ` | %` makes a share a
percentage, ` | ×1e-9` bytes gigabytes; ` | mean`, ` | min` and ` | max` are of all such lines, ` | #` counts them and
names no field. Behind a number with its interval, or with its p in brackets, a mark names all of it; a number that has
a sign keeps one.

Or a mark stands before a table, and names its columns after the first, which names the row (up to a colon); a row that
the results do not have is the page's own:

    <!-- =columns main | ROUGE-L recall after the update, % | average; main | Stale, % | stale -->

A page chooses the decimals, and whether an interval is said; the figures are the results'.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import fmean
from typing import Any

from eval.report.view import View
from plume_memory.errors import InvalidInput

Cells = Mapping[str, str]
Pages = Mapping[str, Mapping[str, Mapping[str, Cells]]]
"""By page, title of the table, row and column: the cell as the page shows it."""

_COLUMNS = re.compile(r"<!-- =columns (.+?) -->")
_MARK = re.compile(r"<!-- =(?!columns )")
_NUMBER = re.compile(r"(?:(?<![\d.])[-−+])?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)")
_MARKED = re.compile(
    rf"(?P<number>{_NUMBER.pattern})(?P<bold>\*\*)?(?P<more> \[[-−\d., ]+\]| \(p [\d.]+\))?"
    r"(?P<between>[^\d<]*)(?P<mark><!-- =(?!columns )(?P<path>.+?) -->)"
)

_OVER: dict[str, Callable[[Iterable[float]], float]] = {"mean": fmean, "min": min, "max": max}


def cells_of(view: View) -> dict[str, dict[str, dict[str, str]]]:
    """What an experiment shows, by title, row and column.

    Rows of one name are told apart by their second cell, columns of one name by which of them it is: `steady (2)`.
    """
    made: dict[str, dict[str, dict[str, str]]] = {}
    for table in view.tables:
        names = [row[0] for row in table.rows]
        before = [table.header[:place].count(name) for place, name in enumerate(table.header)]
        header = [f"{name} ({n + 1})" if n else name for name, n in zip(table.header, before, strict=True)]
        made[table.title] = {
            row[0] if names.count(row[0]) == 1 else f"{row[0]}, {row[1]}": dict(zip(header[1:], row[1:], strict=True))
            for row in table.rows
        }
    return made


@dataclass(frozen=True, slots=True)
class Figures:
    """Where marks find their figures.

    Args:
        pages: of `figures.json`.
        rows: folder of what benches wrote.
    """

    pages: Pages
    rows: Path

    @classmethod
    def read(cls, results: Path, rows: Path) -> "Figures":
        """Read `figures.json` of a folder of results.

        Raises:
            InvalidInput: it cannot be read.
        """
        path = results / "figures.json"
        try:
            pages = json.loads(path.read_text(encoding="utf-8"))
            others = {page.parent.name: _tables(page.read_text("utf-8")) for page in results.glob("*/README.md")}
            return cls({**others, **pages}, rows)
        except (OSError, ValueError) as err:
            raise InvalidInput(f"{path} cannot be read ({err}); make it with `python -m eval pages`.") from err

    def taken(self, text: str) -> str:
        """Return a page with the figure that each of its marks names.

        Raises:
            InvalidInput: a mark names nothing, or stands behind no number.
        """
        made: list[str] = []
        columns, rows = "", 0
        for line in [*text.split("\n"), ""]:
            if columns and not line.startswith("|"):
                if not rows:
                    raise InvalidInput(f"Behind the mark {columns!r} stands no table with a row that the results have.")
                columns = ""
            filled = self._filled(line, columns) if columns else line
            rows += filled is not line
            if table := _COLUMNS.search(line):
                columns, rows = table[1], 0
            said = _MARKED.sub(lambda mark: _rounded(mark, self._cell(_parts(mark["path"], 4))), filled)
            if len(_MARKED.findall(filled)) != len(_MARK.findall(filled)):
                raise InvalidInput(f"A mark of {line!r} stands behind no number.")
            made.append(said)
        return "\n".join(made[:-1])

    def _filled(self, line: str, columns: str) -> str:
        """A line of a table with the results' cells, if they have such a row."""
        first, *said = line.strip().strip("|").split("|")
        row = first.replace("*", "").split(":")[0].strip()
        asked = [_parts(column, 3) for column in columns.split(";")]
        for *table, column in asked:
            if not any(column in cells for cells in self._of_pages(table).values()):
                raise InvalidInput(f"No column {column!r} in {' | '.join(table)}.")
        found = [self._of_pages(path[:2]).get(row, {}).get(path[2]) for path in asked]
        if not any(found):
            return line
        if len(said) != len(asked):
            raise InvalidInput(f"{line!r} has {len(said)} figures; its mark names {len(asked)} columns.")
        cells = [old if new is None else _in_place_of(old, new) for old, new in zip(said, found, strict=True)]
        return "|" + "|".join([first, *cells]) + "|"

    def _cell(self, path: Sequence[str]) -> list[float]:
        """A figure, and the ends of its interval if it has one."""
        if path[0] not in self.pages:
            return self._of_bench(path)
        cells = self._of_pages(path[:2]).get(path[2], {})
        cell = cells.get(path[-1], "")
        if _NUMBER.match(cell) is None:
            raise InvalidInput(f"No figure {' | '.join(path)!r}; that row has: {', '.join(cells) or 'nothing'}.")
        return [float(one.replace(",", "")) for one in _NUMBER.findall(cell)]

    def _of_pages(self, path: Sequence[str]) -> Mapping[str, Cells]:
        page, title = path
        if page not in self.pages:
            raise InvalidInput(f"No page {page!r}; there are: {', '.join(self.pages)}.")
        if title not in self.pages[page]:
            raise InvalidInput(f"No table {title!r} of {page}; there are: {'; '.join(self.pages[page])}.")
        return self.pages[page][title]

    def _of_bench(self, path: Sequence[str]) -> list[float]:
        file, *parts = path
        way = parts.pop() if parts[-1][0] in "%×#" or parts[-1] in _OVER else ""
        field = "" if way == "#" else parts.pop()
        wanted = dict(part.split("=", maxsplit=1) for part in parts)
        try:
            lines = [json.loads(line) for line in (self.rows / file).read_text(encoding="utf-8").splitlines() if line]
        except (OSError, ValueError) as err:
            raise InvalidInput(f"No rows for the figure {' | '.join(path)!r}: {err}") from err
        lines = [line for line in lines if all(str(_at(line, key)) == own for key, own in wanted.items())]
        if way == "#" and lines:
            return [len(lines)]
        lines = [line for line in lines if isinstance(_at(line, field), int | float)]
        if len(lines) != 1 and not (way in _OVER and lines):
            raise InvalidInput(f"{file} has {len(lines)} lines with {wanted} and a number {field!r}; a mark names one.")
        scale = 100 if way == "%" else float(way[1:]) if way.startswith("×") else 1
        interval = lines[0].get(f"{field}_interval", lines[0].get("interval", ())) if way not in _OVER else ()
        return [scale * one for one in (_OVER.get(way, fmean)(_at(line, field) for line in lines), *interval)]


def _at(line: Any, field: str) -> Any:
    """A field of a line, or by a path with dots one inside another, or one of a list."""
    if isinstance(line, list):
        line = {str(place): one for place, one in enumerate(line)}
    if not isinstance(line, Mapping) or field in line:
        return line[field] if isinstance(line, Mapping) else None
    first, _, rest = field.partition(".")
    return _at(line.get(first), rest) if rest else None


def _tables(text: str) -> dict[str, dict[str, Cells]]:
    """The tables of a page that was made and committed, by the heading each stands under."""
    found: dict[str, dict[str, Cells]] = {}
    title, header = "", list[str]()
    for line in text.split("\n"):
        first, *rest = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("## "):
            title, header = line[3:], []
        elif line.startswith("|") and not header:
            header = rest
        elif line.startswith("|") and first != "---":
            found.setdefault(title, {})[first] = dict(zip(header, rest, strict=True))
    return found


def _parts(path: str, most: int) -> list[str]:
    """The parts of a mark; of a bench's there are at least two, of a page's as many as it takes."""
    parts = [part.strip() for part in path.split(" | ")]
    if len(parts) != most and not (parts[0].endswith(".jsonl") and len(parts) > 1):
        raise InvalidInput(f"The mark {path!r} has {len(parts)} parts; a page's figure takes {most}.")
    return parts


def _rounded(mark: re.Match[str], found: Sequence[float]) -> str:
    """A number, what stands in brackets behind it, and its mark, with as many decimals as the page had."""
    first, *others = found
    more = mark["more"] or ""
    if more and len(_NUMBER.findall(more)) != len(others):
        raise InvalidInput(f"The figure {mark['path']!r} has no {more.strip()}.")
    rest = iter(others)
    more = _NUMBER.sub(lambda old: _like(old[0], next(rest)), more)
    return f"{_like(mark['number'], first)}{mark['bold'] or ''}{more}{mark['between']}{mark['mark']}"


def _like(old: str, value: float) -> str:
    """A number as the page writes this one: its decimals, its sign, a point that begins it."""
    digits = len(old.partition(".")[2])
    whole = Decimal(str(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    whole = whole or abs(whole)  # no −0
    new = f"{whole:+,}".replace("-", "−") if old[0] in "−+" else f"{whole:,}"
    return new.replace("0.", ".", 1) if old.lstrip("-−+")[0] == "." and abs(value) < 1 else new


def _in_place_of(old: str, new: str) -> str:
    """A cell of the page with the results' figure; with its interval and in bold where the page had these."""
    whole = new.replace("\\", "")
    mean, _, rest = whole.partition(" ")
    mean = f"**{mean}**" if "**" in old else mean
    return f" {mean} {rest} " if "[" in old and rest else f" {mean} "
