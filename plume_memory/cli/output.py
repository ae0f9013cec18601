"""What commands print: JSON for programs, tables for people. Knows no command."""

import dataclasses
import json
import re
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

_CONTROLS = re.compile(r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""All but line breaks and tabs."""


def emit(value: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Print `value` as one JSON document, or call `show` for people."""
    if as_json:
        written = json.dumps(plain(value), ensure_ascii=False)
        sys.stdout.write(_CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", written) + "\n")
    else:
        show()


def say(text: str, *, end: str = "\n") -> None:
    """Print a user's or a model's text as it is: no markup, no emoji codes, no wrapping; to a terminal see `safe`."""
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
