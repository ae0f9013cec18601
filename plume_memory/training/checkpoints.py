"""Checkpoints of a run: folders that are either whole or not there. Knows tensors and JSON, no network.

A checkpoint is a folder `step-{number:08d}` with safetensors shards and `state.json`, which names every shard
with its size and sha256 and holds the run's counters. It is written under a name that starts with a dot,
fsynced, and renamed; so whatever has the final name is complete, and the newest is found by looking.
"""

import ctypes
import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from plume_memory.errors import TrainingError

FORMAT = 1
_PREFIX = "step-"
_TEMPORARY = ".tmp"
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


class _Shard(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    bytes: int
    sha256: str


class _StateFile(BaseModel):
    # A mean that is not a number stays one: null would break the sums it continues.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    format: int
    step: int
    shards: dict[str, _Shard]
    counters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run's state after some step."""

    step: int
    """Steps done."""
    tensors: Mapping[str, Tensor]
    """On the CPU."""
    counters: Mapping[str, Any]
    """What else the run continues from, as JSON."""


def save_checkpoint(checkpoint: Checkpoint, folder: Path, *, shard_mb: int, keep: int) -> Path:
    """Write a checkpoint into `folder` and remove all but the newest `keep`.

    Raises:
        TrainingError: the disk refused.
    """

    def fill(temporary: Path) -> None:
        shards = {}
        parts = _split(checkpoint.tensors, shard_mb * 2**20)
        for at, part in enumerate(parts, 1):
            path = temporary / f"state-{at:05d}-of-{len(parts):05d}.safetensors"
            save_file({name: t.detach().cpu().clone(memory_format=torch.contiguous_format) for name, t in part}, path)
            shards[path.name] = _Shard(bytes=path.stat().st_size, sha256=_sha256(path))
        state = _StateFile(format=FORMAT, step=checkpoint.step, shards=shards, counters=dict(checkpoint.counters))
        (temporary / "state.json").write_text(state.model_dump_json(indent=1), encoding="utf-8")

    target = folder / f"{_PREFIX}{checkpoint.step:08d}"
    replace_folder(target, fill)
    for old in _complete(folder)[:-keep]:
        _remove(old)
    return target


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint of a folder, or None where there never was one.

    Raises:
        TrainingError: there are checkpoints and none of them is complete.
    """
    complete, damaged = _complete(folder), damaged_checkpoints(folder)
    if not complete and damaged:
        raise TrainingError(
            f"No checkpoint in {folder} is whole ({', '.join(path.name for path in damaged)} lack files, or parts of "
            "them). Restore one; or, to train from the first step, delete them or use another folder."
        )
    return next(reversed(complete), None)


def damaged_checkpoints(folder: Path) -> list[Path]:
    """Return what has a checkpoint's name and is not whole, oldest first: somebody or a disk cut it short."""
    return [path for path in sorted(folder.glob(f"{_PREFIX}*")) if _read_state(path) is None]


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, every byte verified.

    Raises:
        TrainingError: it is damaged, or was written by a newer release.
    """
    state = _read_state(path)
    if state is None:
        raise TrainingError(f"{path} is no complete checkpoint; delete it to resume from the one before.")
    if state.format != FORMAT:
        raise TrainingError(f"{path} has format {state.format}, this package reads {FORMAT}; upgrade it.")
    tensors: dict[str, Tensor] = {}
    for name, shard in state.shards.items():
        found = _sha256(path / name)
        if found != shard.sha256:
            raise TrainingError(
                f"{path / name} is damaged: its sha256 is {found}, not {shard.sha256}; "
                f"delete {path} to resume from the one before."
            )
        try:
            tensors |= load_file(path / name)
        except (SafetensorError, OSError) as err:
            raise TrainingError(f"Cannot read {path / name}: {err}.") from err
    return Checkpoint(state.step, tensors, state.counters)


def replace_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a new folder, fsync it, and put it in the place of `target` in one step.

    A reader finds the old folder or the new one. (Where the system cannot exchange two names, as macOS and some
    network disks, there is an instant without either.)

    Raises:
        TrainingError: the disk refused.
    """
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}{_TEMPORARY}")
    try:
        temporary.mkdir(parents=True)
        fill(temporary)
        _sync(temporary)
        if not target.exists():
            temporary.rename(target)
        elif not _exchange(temporary, target):
            old = temporary.with_name(f".{target.name}.{uuid.uuid4().hex}{_TEMPORARY}")
            target.rename(old)
            temporary.rename(target)
            shutil.rmtree(old)
        _sync_entry(target.parent)
    except (OSError, SafetensorError) as err:  # safetensors has its own error for a full disk
        raise TrainingError(f"Cannot write {target}: {err}.") from err
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    """Delete what killed runs left half-written in a folder."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _complete(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return [path for path in sorted(folder.glob(f"{_PREFIX}*")) if _read_state(path) is not None]


def _read_state(path: Path) -> _StateFile | None:
    """Read `state.json`; None where it is missing or no such file, or a shard is missing or short."""
    try:
        state = _StateFile.model_validate_json((path / "state.json").read_bytes())
        whole = all((path / name).stat().st_size == shard.bytes for name, shard in state.shards.items())
    except (OSError, ValidationError):
        return None
    return state if whole else None


def _split(tensors: Mapping[str, Tensor], most_bytes: int) -> list[list[tuple[str, Tensor]]]:
    """Group tensors in their order, so that a group has at most so many bytes or one tensor."""
    parts: list[list[tuple[str, Tensor]]] = [[]]
    used = 0
    for name, tensor in tensors.items():
        if parts[-1] and used + tensor.nbytes > most_bytes:
            parts.append([])
            used = 0
        parts[-1].append((name, tensor))
        used += tensor.nbytes
    return parts


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _remove(folder: Path) -> None:
    """Delete a folder so that a kill in between leaves no half of it under its name."""
    doomed = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{_TEMPORARY}")
    folder.rename(doomed)
    shutil.rmtree(doomed)


def _sync(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            path.chmod(0o644)  # safetensors makes files that only their owner may read
        _sync_entry(path)
    _sync_entry(folder)


def _sync_entry(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handle to fsync a folder through
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names atomically (Linux); False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(code, os.strerror(code), str(other))
