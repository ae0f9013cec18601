"""The rows of a run: one JSON line per finished item, appended, flushed to disk, never changed.

A run folder holds `run.json` (what was run, on what) and `rows/*.jsonl`, one file per worker. A process that
was killed leaves at most one torn last line, which reading leaves out and appending cuts off.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from eval.journals import cut_torn_line, whole_lines
from eval.metrics.overlap import Overlap, is_stale, overlap
from plume_memory.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Answered:
    """One question of an item, with what came out."""

    question_id: str
    question: str
    references: tuple[str, ...]
    old_references: tuple[str, ...]
    affected: bool
    output: str
    tokens: int
    """New tokens, the end token included."""
    finish_reason: str
    seconds: float
    """Wall time of its batch, divided by the batch's questions; exact with batch 1."""
    peak_bytes: int | None
    """Peak memory of its batch, as an increase."""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def overlap(self) -> Overlap:
        """Scores against the current references."""
        return overlap(self.output, self.references)

    @property
    def stale(self) -> bool:
        """Whether the output still holds a replaced answer and not the current one."""
        replaced = self.old_references != self.references
        return replaced and is_stale(self.output, self.references, self.old_references)


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One finished item."""

    key: str
    method: str
    kind: str
    dataset: str
    transition: str
    step: int
    settings: dict[str, Any]
    seed: int
    probe: str
    batch: int
    fresh: bool
    update_seconds: float
    update_peak_bytes: int | None
    update_derived: int
    """Texts turned into factors for this update; what earlier updates had derived is not derived again."""
    made_on: str
    """Device, dtype, threads and versions."""
    first_in_process: bool
    """Whether this was the process's first item of its method: dropped in steady-state latencies."""
    answers: tuple[Answered, ...]
    error: str = ""
    """Why the method cannot do this item at all, as a history longer than its window; there are no answers then."""

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @classmethod
    def of_line(cls, line: str) -> "ItemRow":
        """Read a line back.

        Raises:
            ValueError: not a row.
        """
        raw = json.loads(line)
        try:
            asked = tuple(
                Answered(
                    **{
                        **answer,
                        "references": tuple(answer["references"]),
                        "old_references": tuple(answer["old_references"]),
                    }
                )
                for answer in raw.pop("answers")
            )
            return cls(**raw, answers=asked)
        except (TypeError, KeyError, AttributeError) as err:
            raise ValueError(f"not a row of an evaluation: {err}") from err


class RowFolder:
    """The `rows/` of a run folder."""

    def __init__(self, run: Path) -> None:
        self._folder = run / "rows"

    def read(self) -> list[ItemRow]:
        """All rows of all workers, by file and line; an item that two workers finished counts once.

        Raises:
            InvalidInput: a line other than a torn last one is not a row.
        """
        rows: dict[str, ItemRow] = {}
        for path in sorted(self._folder.glob("*.jsonl")):
            for row in _rows_of(path):
                rows.setdefault(row.key, row)
        return list(rows.values())

    def named(self, methods: Mapping[str, str]) -> list[ItemRow]:
        """The rows of some keys, in the keys' order.

        Args:
            methods: by key, what its method is called now: a row keeps the name that it was written under.

        Raises:
            InvalidInput: as `read`.
        """
        rows = {row.key: row for row in self.read()}
        return [replace(rows[key], method=name) for key, name in methods.items() if key in rows]

    def writer(self, worker: str) -> "RowWriter":
        """Append to this worker's file, made if it does not exist."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return RowWriter(self._folder / f"{worker}.jsonl")


class RowWriter:
    """Appends rows; a context manager. One process at a time per file.

    Raises:
        InvalidInput: another process is writing this file, perhaps a worker whose parent was killed.
    """

    def __init__(self, path: Path) -> None:
        self._lock = FileLock(path.with_suffix(".lock"))
        try:
            self._lock.acquire(timeout=0)
        except Timeout as err:
            raise InvalidInput(
                f"Another process writes {path}. Wait for it, stop it, or use another --out, --shard or --workers."
            ) from err
        cut_torn_line(path)
        self._file = path.open("a", encoding="utf-8")

    def write(self, row: ItemRow) -> None:
        """Append one row; it is on disk when this returns."""
        self._file.write(row.to_line() + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._lock.release()


def _rows_of(path: Path) -> Iterator[ItemRow]:
    for number, line in whole_lines(path):
        try:
            yield ItemRow.of_line(line.decode("utf-8"))
        except ValueError as err:
            raise InvalidInput(f"{path}:{number} is damaged ({err}); delete that line to run its item again.") from err
