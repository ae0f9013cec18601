"""A run's folder: who may start or go on in it. Knows settings as JSON only.

`run.json` holds what the run was started with; a resumed run must agree with it, except on what
`CHANGEABLE` names and on how the network is evaluated.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from plume_memory.errors import TrainingError
from plume_memory.lora.atomic import write_file
from plume_memory.training.checkpoints import latest_checkpoint, remove_unfinished
from plume_memory.training.run_settings import CHANGEABLE, RunSettings

FORMAT = 1
RECORD = "run.json"
CHECKPOINTS = "checkpoints"
EVALUATION = "evaluation"
"""The part of the configuration that says how a network is judged; a resumed run may change it."""
LABELS = ("licence", "language")
"""What the configuration says for the model card only."""
INPUTS = "inputs"
"""The part that says what the run reads: hashes of the base model, the data and the network it starts from."""
_SHOWN = 5


def run_record(settings: RunSettings, described: Mapping[str, Any], processes: int) -> dict[str, Any]:
    """Return what `run.json` says: the settings, the rest of the configuration, how many processes."""
    record = {
        "format": FORMAT,
        "version": version("plume-memory"),
        "processes": processes,
        "run": settings.model_dump(mode="json"),
        "described": dict(described),
    }
    plain: dict[str, Any] = json.loads(json.dumps(record))
    return plain


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """Make the folder, and keep other runs out of it; a killed process lets go.

    Raises:
        TrainingError: another process trains in it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        lock.acquire(timeout=0)
    except Timeout as err:
        raise TrainingError(f"Another process is training in {folder}; wait for it, or use another folder.") from err
    except OSError as err:
        raise TrainingError(f"Cannot train in {folder}: {err}.") from err
    try:
        yield folder
    finally:
        lock.release()


def require_run(folder: Path, record: Mapping[str, Any], *, resume: bool) -> None:
    """Check, without a change to it, that a run may begin or go on in a folder.

    Raises:
        TrainingError: it is not resumed and the folder is not empty; or it is, and the folder holds no run, or
            one with other settings or inputs.
    """
    visible = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    if visible and not resume:
        raise TrainingError(
            f"{folder} is not empty (it holds {', '.join(visible[:_SHOWN])}); "
            "resume the run that is there, or use another folder."
        )
    if visible:
        _compare(_read(folder), record, folder)


def open_run(folder: Path, record: Mapping[str, Any], *, resume: bool) -> Path | None:
    """Check that a run may begin or go on here, write `run.json`, and return the checkpoint to go on from.

    None: there is none, the run begins at its first step. A run that was killed before it wrote anything is
    resumed from there too.

    Raises:
        TrainingError: as `require_run`; or there are checkpoints, and none is whole.
    """
    require_run(folder, record, resume=resume)
    for place in (folder, folder / CHECKPOINTS):
        remove_unfinished(place)
    text = json.dumps(record, indent=2, sort_keys=True) + "\n"
    write_file(folder / RECORD, lambda path: _write(path, text))
    return latest_checkpoint(folder / CHECKPOINTS)


def _read(folder: Path) -> dict[str, Any]:
    try:
        record = json.loads((folder / RECORD).read_bytes())
    except FileNotFoundError as err:
        raise TrainingError(f"{folder} holds no run to resume: it has no {RECORD}.") from err
    except ValueError as err:
        raise TrainingError(f"{folder / RECORD} is damaged ({err}); restore it.") from err
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise TrainingError(f"{folder / RECORD} is not of format {FORMAT}; resume it with the release that made it.")
    return record


def _compare(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    described = _bound(before), _bound(now)
    if not all(INPUTS in one for one in described):  # not known yet, or not recorded by an earlier release
        for one in described:
            one.pop(INPUTS, None)
    was, is_now = map(_flat, described)
    names = [name for name in sorted(was.keys() | is_now.keys()) if was.get(name) != is_now.get(name)]
    if names:
        shown = "; ".join(f"{n} was {was.get(n)!r}, now {is_now.get(n)!r}" for n in names[:_SHOWN])
        more = f"; and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise TrainingError(
            f"The run in {folder} was started with other settings or other data: {shown}{more}. "
            "Resume it with its own, or start another in a new folder."
        )


def _bound(record: Mapping[str, Any]) -> dict[str, Any]:
    """What must stay: of accumulation and processes only the product, the micro-batches of a step."""
    run = {f"run.{k}": v for k, v in record["run"].items() if k not in CHANGEABLE | {"accumulation"}}
    micro_batches = record["run"]["accumulation"] * record["processes"]
    described = {k: v for k, v in record["described"].items() if k not in {EVALUATION, *LABELS}}
    return {**described, **run, "run.accumulation × processes": micro_batches}


def _flat(value: Mapping[str, Any], stem: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            found |= _flat(inner, f"{stem}{name}.")
        else:
            found[f"{stem}{name}"] = inner
    return found


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
