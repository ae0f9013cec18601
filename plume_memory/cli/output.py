"""What commands print: JSON for programs, tables for people. Knows no command."""

import dataclasses
import json
import re
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)

_CONTROLS = re.compile(r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""All but line breaks and tabs."""


def emit(value: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Print `value` as one JSON document, or call `show` for people."""
    PROGRESS.clear()
    if as_json:
        written = json.dumps(plain(value), ensure_ascii=False)
        sys.stdout.write(_CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", written) + "\n")
    else:
        show()


def say(text: str, *, end: str = "\n") -> None:
    """Print a user's or a model's text as it is: no markup, no emoji codes, no wrapping; to a terminal see `safe`."""
    PROGRESS.clear()
    sys.stdout.write((safe(text) if sys.stdout.isatty() else text) + end)
    sys.stdout.flush()


def safe(text: str) -> str:
    """A text without what a terminal would obey: escape sequences and other control characters are spelled out."""
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def plain(value: Any) -> Any:
    """Turn records into what JSON knows: dataclasses to objects, times to ISO 8601."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value.isoformat() if isinstance(value, datetime) else value


def table(*columns: str) -> Table:
    """A table in the house style."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def add_row(rows: Table, *cells: str) -> None:
    """Add plain cells: a user's brackets are text, not markup, and see `safe`."""
    rows.add_row(*(Text(safe(cell)) for cell in cells))


class ProgressLine:
    """What is being done, in one line of stderr: gone before anything is printed; nothing where that is no terminal."""

    def __init__(self) -> None:
        self._shown: Progress | None = None
        self._task: Any = None
        self._what = ""

    def __call__(self, what: str, done: int = 0, total: int = 1) -> None:
        """See `plume_memory.engine.Progress`. One step alone has no measure; what follows the last reports none."""
        if not sys.stderr.isatty():  # whatever colours are forced
            return
        if self._shown is None:
            columns = (TextColumn("{task.description} ..."), BarColumn(), TimeElapsedColumn())
            self._shown = Progress(*columns, console=ERR, transient=True)
        if done >= total:
            what, done, total = "working", 0, 1
        if what != self._what:
            for task in self._shown.task_ids:
                self._shown.remove_task(task)
            self._task = self._shown.add_task(what, total=None if total == 1 else total)
            self._what = what
        self._shown.update(self._task, completed=done)
        self._shown.start()
        self._shown.refresh()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown is not None:
            self._shown.stop()
        self._shown, self._what = None, ""


PROGRESS = ProgressLine()
