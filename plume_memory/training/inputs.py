"""What a run reads, as hashes: the same settings over other data or another base model are another run."""

import hashlib
from pathlib import Path

from plume_memory.model.base import BaseModel
from plume_memory.training.settings import JsonlData, JudgeSettings, RerankerSettings, TextData, TrainSettings


def inputs_of(base: BaseModel, settings: TrainSettings) -> dict[str, str]:
    """Return the base model's fingerprint and a sha256 of each data file, text folder and starting network, by name.

    Evaluation data is not among them: a resumed run may be judged on other data.
    """
    root = Path(settings.data_root).expanduser()
    found = {"base": base.fingerprint}
    for one in settings.data:
        if isinstance(one, JsonlData):
            found |= {f"{one.name}/{path}": _file(root / path) for path in one.paths}
        elif isinstance(one, TextData):
            found[f"{one.name}/{one.folder}"] = _folder(root / one.folder)
    found |= {path: _file(Path(path).expanduser()) for path in _written(settings.network)}
    if settings.start is not None:
        found["start"] = _folder(Path(settings.start).expanduser())
    return found


def _written(network: object) -> tuple[str, ...]:
    if isinstance(network, JudgeSettings):
        return (*network.written_pairs, *network.written_claims)
    return network.written_conversations if isinstance(network, RerankerSettings) else ()


def _file(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _folder(folder: Path) -> str:
    """Over the names and contents of all its files."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            whole.update(f"{path.relative_to(folder).as_posix()}\n{_file(path)}\n".encode())
    return whole.hexdigest()
