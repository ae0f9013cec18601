"""Figures that pages say, taken from results by the marks that stand beside them. Knows no model and runs nothing.

A mark is a comment, so that a reader sees the number alone. It stands behind a number and names its cell:

    **44.6 %**<!-- =main | ROUGE-L recall after the update, % | plume | average -->
    an answer takes 1.0 s<!-- =ask-cpu.jsonl | what=later questions | whole -->

The first is of a page of `figures.json`, the second of the one line of a bench's rows that has such values; a last part
` | %` makes a share a percentage. Or it stands before a table, and names its columns after the first, which names the
row (up to a colon); a row that the results do not have is the page's own:

    <!-- =columns main | ROUGE-L recall after the update, % | average; main | Stale, % | stale -->

A page chooses the decimals, and whether an interval is said; the figures are the results'.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.report.view import View
from plume_memory.errors import InvalidInput

Cells = Mapping[str, str]
Pages = Mapping[str, Mapping[str, Mapping[str, Cells]]]
"""By page, title of the table, row and column: the cell as the page shows it."""

_COLUMNS = re.compile(r"<!-- =columns (.+?) -->")
_MARK = re.compile(r"<!-- =(?!columns )")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_MARKED = re.compile(
    r"-?\d[\d,]*(?:\.(?P<decimals>\d+))?(?P<between>[^\d<]*)(?P<mark><!-- =(?!columns )(?P<path>.+?) -->)"
)


def cells_of(view: View) -> dict[str, dict[str, dict[str, str]]]:
    """What an experiment shows, by title, row and column."""
    return {
        table.title: {row[0]: dict(zip(table.header[1:], row[1:], strict=True)) for row in table.rows}
        for table in view.tables
    }


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
            return cls(json.loads(path.read_text(encoding="utf-8")), rows)
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

    def _cell(self, path: Sequence[str]) -> float:
        if path[0] not in self.pages:
            return self._of_bench(path)
        cells = self._of_pages(path[:2]).get(path[2], {})
        found = _NUMBER.match(cells.get(path[-1], ""))
        if found is None:
            raise InvalidInput(f"No figure {' | '.join(path)!r}; that row has: {', '.join(cells) or 'nothing'}.")
        return float(found[0].replace(",", ""))

    def _of_pages(self, path: Sequence[str]) -> Mapping[str, Cells]:
        page, title = path
        if page not in self.pages:
            raise InvalidInput(f"No page {page!r}; there are: {', '.join(self.pages)}.")
        if title not in self.pages[page]:
            raise InvalidInput(f"No table {title!r} of {page}; there are: {'; '.join(self.pages[page])}.")
        return self.pages[page][title]

    def _of_bench(self, path: Sequence[str]) -> float:
        file, *parts = path
        scale = 100 if parts[-1:] == ["%"] else 1
        *asked, field = parts[:-1] if scale == 100 else parts
        wanted = dict(part.split("=", maxsplit=1) for part in asked)
        try:
            lines = [json.loads(line) for line in (self.rows / file).read_text(encoding="utf-8").splitlines() if line]
        except (OSError, ValueError) as err:
            raise InvalidInput(f"No rows for the figure {' | '.join(path)!r}: {err}") from err
        found = [
            line[field]
            for line in lines
            if isinstance(line.get(field), int | float)
            and all(str(line.get(key)) == own for key, own in wanted.items())
        ]
        if len(found) != 1:
            raise InvalidInput(f"{file} has {len(found)} lines with {wanted} and a number {field!r}; a mark names one.")
        return scale * float(found[0])


def _parts(path: str, most: int) -> list[str]:
    """The parts of a mark; of a bench's there are at least two, of a page's as many as it takes."""
    parts = [part.strip() for part in path.split(" | ")]
    if len(parts) != most and not (parts[0].endswith(".jsonl") and len(parts) > 1):
        raise InvalidInput(f"The mark {path!r} has {len(parts)} parts; a page's figure takes {most}.")
    return parts


def _rounded(mark: re.Match[str], value: float) -> str:
    """A number and its mark, with as many decimals as the number had."""
    return f"{value:,.{len(mark['decimals'] or '')}f}{mark['between']}{mark['mark']}"


def _in_place_of(old: str, new: str) -> str:
    """A cell of the page with the results' figure; with its interval and in bold where the page had these."""
    whole = new.replace("\\", "")
    mean, _, rest = whole.partition(" ")
    mean = f"**{mean}**" if "**" in old else mean
    return f" {mean} {rest} " if "[" in old and rest else f" {mean} "
