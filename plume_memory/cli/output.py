"""What commands print: JSON for programs, tables for people. Knows no command."""

import dataclasses
import json
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)


def emit(value: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Print `value` as one JSON document, or call `show` for people."""
    if as_json:
        sys.stdout.write(json.dumps(plain(value), ensure_ascii=False) + "\n")
    else:
        show()


def say(text: str, *, end: str = "\n") -> None:
    """Print a user's or a model's text as it is: no markup, no emoji codes, no wrapping."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


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
    """Add plain cells: a user's brackets are text, not markup."""
    rows.add_row(*(Text(cell) for cell in cells))


class ProgressBar:
    """A bar on stderr for the library's progress callback; nothing when stderr is not a terminal."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=ERR, transient=True
        )
        self._task: Any = None

    def __call__(self, what: str, done: int, total: int) -> None:
        """See `plume_memory.engine.Progress`."""
        if not ERR.is_terminal:
            return
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task(what, total=total)
        self._bar.update(self._task, description=what, completed=done, total=total)
        if done >= total:
            self._bar.stop()
            self._bar.remove_task(self._task)
            self._task = None
