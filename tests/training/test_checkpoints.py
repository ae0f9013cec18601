"""Checkpoints are whole or not there, verified, and sharded."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from plume_memory.errors import TrainingError
from plume_memory.training import checkpoints
from plume_memory.training.checkpoints import (
    Checkpoint,
    damaged_checkpoints,
    latest_checkpoint,
    load_checkpoint,
    remove_unfinished,
    replace_folder,
    save_checkpoint,
)

TENSORS = {
    "network/a": torch.arange(300_000, dtype=torch.float32),
    "network/b": torch.ones(200_000, 2, dtype=torch.bfloat16),
    "optimizer/a/step": torch.tensor(3.0),
}
COUNTERS = {"samples": 12, "loss": 0.1 + 0.2, "window": {"parts": {"x": float("inf")}}}


def save(folder: Path, step: int, keep: int = 3) -> Path:
    return save_checkpoint(Checkpoint(step, TENSORS, COUNTERS), folder, shard_mb=1, keep=keep)


def test_tensors_and_counters_come_back_exactly(tmp_path: Path) -> None:
    path = save(tmp_path, 7)
    loaded = load_checkpoint(path)

    assert (loaded.step, loaded.counters) == (7, COUNTERS)
    assert loaded.tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert loaded.tensors[name].dtype == tensor.dtype
        assert torch.equal(loaded.tensors[name], tensor)


def test_shards_are_no_larger_than_asked_and_all_are_listed(tmp_path: Path) -> None:
    path = save(tmp_path, 7)
    files = sorted(p.name for p in path.iterdir())

    assert files == [
        "state-00001-of-00003.safetensors",
        "state-00002-of-00003.safetensors",
        "state-00003-of-00003.safetensors",
        "state.json",
    ] or files == ["state-00001-of-00002.safetensors", "state-00002-of-00002.safetensors", "state.json"]
    listed = json.loads((path / "state.json").read_text())["shards"]
    assert listed.keys() == set(files) - {"state.json"}
    assert all((path / name).stat().st_mode & 0o777 == 0o644 for name in files)


def test_the_newest_complete_one_is_found(tmp_path: Path) -> None:
    """Ignored: a half-written folder, one without its state, one with a short shard."""
    assert latest_checkpoint(tmp_path / "none") is None
    good = save(tmp_path, 9)
    (tmp_path / ".step-00000010.x.tmp").mkdir()
    (tmp_path / "step-00000011").mkdir()
    short = save(tmp_path, 12)
    shard = next(short.glob("*.safetensors"))
    os.truncate(shard, 100)

    assert latest_checkpoint(tmp_path) == good
    with pytest.raises(TrainingError, match="no complete checkpoint"):
        load_checkpoint(short)


def test_a_flipped_byte_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 7)
    shard = next(path.glob("*.safetensors"))
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)

    with pytest.raises(TrainingError, match="is damaged: its sha256 is"):
        load_checkpoint(path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 7)
    state = path / "state.json"
    state.write_text(state.read_text().replace('"format": 1', '"format": 2'))

    with pytest.raises(TrainingError, match="has format 2, this package reads 1"):
        load_checkpoint(path)


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (3, 20, 100):
        save(tmp_path, step, keep=2)

    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000020", "step-00000100"]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "network"
    replace_folder(target, lambda folder: _fill(folder, "old"))

    def fail(folder: Path) -> None:
        _fill(folder, "half")
        raise OSError(28, "No space left on device")

    with pytest.raises(TrainingError, match=r"Cannot write .*network: .*No space left"):
        replace_folder(target, fail)
    assert (target / "config.json").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["network"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool) -> None:
    if not can_exchange:
        monkeypatch.setattr(checkpoints, "_exchange", lambda _one, _other: False)
    target = tmp_path / "deep" / "network"
    replace_folder(target, lambda folder: _fill(folder, "old"))
    (target / "extra").touch()

    replace_folder(target, lambda folder: _fill(folder, "new"))

    assert [(p.name, p.read_text()) for p in target.iterdir()] == [("config.json", "new")]
    assert [p.name for p in target.parent.iterdir()] == ["network"]


def test_what_killed_runs_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".step-00000003.abc.tmp").mkdir()
    (tmp_path / ".step-00000003.abc.tmp" / "half").touch()
    (tmp_path / ".run.json.abc.tmp").touch()
    (tmp_path / "mine.tmp").touch()

    remove_unfinished(tmp_path)

    assert [p.name for p in tmp_path.iterdir()] == ["mine.tmp"]


def _fill(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)


def test_checkpoints_of_which_none_is_whole_are_no_empty_folder(tmp_path: Path) -> None:
    """Taken for one, the run would begin anew and overwrite everything."""
    for step in (7, 9):
        shard = next(save(tmp_path, step).glob("*.safetensors"))
        os.truncate(shard, shard.stat().st_size - 10)

    with pytest.raises(TrainingError, match=r"No checkpoint in .* is whole .step-00000007, step-00000009"):
        latest_checkpoint(tmp_path)
    assert [path.name for path in damaged_checkpoints(tmp_path)] == ["step-00000007", "step-00000009"]


def test_a_disk_that_is_full_for_safetensors_too_is_a_training_error(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with pytest.raises(TrainingError, match=r"Cannot write .*No space left"):
        replace_folder(tmp_path / "network", fill)
