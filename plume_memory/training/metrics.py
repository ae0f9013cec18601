"""The run's numbers: `metrics.jsonl`, one object a line, and TensorBoard beside it. Knows no network.

Every row has `kind` and `step` (steps done). Kinds: `train` (means over the steps since the row before),
`evaluation` (`figures` by name), `skip` (an update that was left out, and `reason`). Rows are in order of
steps; what is not a finite number is null.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from plume_memory.errors import MissingExtra, TrainingError

FILE = "metrics.jsonl"


@dataclass(slots=True)
class Window:
    """Sums over the steps since the last `train` row; part of a checkpoint, so that the next row is the same."""

    steps: int = 0
    loss: float = 0.0
    grad_norm: float = 0.0
    seconds: float = 0.0
    text_tokens: int = 0
    student_tokens: int = 0
    parts: dict[str, float] = field(default_factory=dict)
    """Sums by name."""
    counts: dict[str, int] = field(default_factory=dict)
    """Micro-batches that had the name."""

    def add_step(self, loss: float, grad_norm: float, text_tokens: int, student_tokens: int) -> None:
        """Take in one step's figures, summed over the processes."""
        self.steps += 1
        self.loss += loss
        self.grad_norm += grad_norm
        self.text_tokens += text_tokens
        self.student_tokens += student_tokens

    def add_parts(self, parts: Mapping[str, float]) -> None:
        """Take in one micro-batch's named figures."""
        for name, value in parts.items():
            self.parts[name] = self.parts.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0) + 1

    def take_parts(self, other: "Window") -> None:
        """Take in another process's named figures; the rest is summed before it gets here."""
        for name, value in other.parts.items():
            self.parts[name] = self.parts.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0) + other.counts[name]

    def drop_parts(self) -> None:
        """Forget the named figures: another process has them now."""
        self.parts, self.counts = {}, {}

    def row(self) -> dict[str, Any]:
        """Return the means; at least one step must be in."""
        return {
            "loss": self.loss / self.steps,
            "parts": {name: value / self.counts[name] for name, value in self.parts.items()},
            "grad_norm": self.grad_norm / self.steps,
            "text_tokens_per_s": self.text_tokens / self.seconds,
            "student_tokens_per_s": self.student_tokens / self.seconds,
        }


class Metrics:
    """Appends rows to a run's files; nothing to none, in a process that is not the run's first."""

    def __init__(self, handle: TextIO | None, board: Any = None) -> None:
        self._handle = handle
        self._board = board

    @classmethod
    def resume(cls, folder: Path | None, *, step: int | None, tensorboard: bool | None) -> "Metrics":
        """Open a run's metrics as they were after `step`; None: before anything was written.

        Args:
            folder: the run's; None in a process that writes nothing.
            step: rows of later steps are cut off; they will be written again.
            tensorboard: whether to write TensorBoard events too; if installed when None.

        Raises:
            MissingExtra: TensorBoard was asked for and is not installed.
            TrainingError: `metrics.jsonl` is damaged before that step.
        """
        if folder is None:
            return cls(None)
        done = -1 if step is None else step
        _cut(folder / FILE, done)
        board = _board(folder / "tensorboard", done, tensorboard)
        return cls((folder / FILE).open("a", encoding="utf-8"), board)

    def write(self, kind: str, step: int, row: Mapping[str, Any]) -> None:
        """Append one row."""
        if self._handle is None:
            return
        cleaned = _finite({"kind": kind, "step": step, **row})
        self._handle.write(json.dumps(cleaned, allow_nan=False) + "\n")
        self._handle.flush()
        if self._board is not None:
            for name, value in _scalars(cleaned, kind):
                self._board.add_scalar(name, value, step)

    def sync(self) -> None:
        """Make what was written survive a power cut; done before a checkpoint counts on it."""
        if self._handle is not None:
            os.fsync(self._handle.fileno())
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        """Close the files."""
        if self._handle is not None:
            self._handle.close()
        if self._board is not None:
            self._board.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a `metrics.jsonl`; an unfinished last line, which a kill leaves, is left out.

    Raises:
        TrainingError: a line is no JSON object with a step.
    """
    return [row for row, _end in _rows(path)]


def _rows(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield each complete row with the offset of its end."""
    end = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True) if path.exists() else (), 1):
        if not line.endswith(b"\n"):
            return
        end += len(line)
        try:
            row = json.loads(line)
            int(row["step"])
        except (ValueError, KeyError, TypeError) as err:
            raise TrainingError(f"{path}, line {number} is no row of metrics ({err}); restore or delete it.") from err
        yield row, end


def _cut(path: Path, step: int) -> None:
    """Truncate the file after the last row of `step`; rows are in order of steps, so one call does it."""
    if not path.exists():
        return
    kept = 0
    for row, end in _rows(path):
        if row["step"] > step:
            break
        kept = end
    os.truncate(path, kept)


def _board(folder: Path, done: int, asked: bool | None) -> Any:
    if asked is False:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 — optional
    except ImportError as err:
        if asked:
            raise MissingExtra("run.tensorboard needs TensorBoard: pip install 'plume-memory[train]'.") from err
        return None
    # purge_step hides what a killed run wrote after its last checkpoint.
    return SummaryWriter(str(folder), purge_step=done + 1)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _scalars(row: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{prefix}/{name}")
        elif isinstance(value, int | float) and not isinstance(value, bool) and name != "step":
            yield f"{prefix}/{name}", value
