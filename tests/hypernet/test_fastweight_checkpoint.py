"""A fast-weight network on disk: what goes in comes out, and nothing else is taken for one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from plume_memory.errors import CheckpointError
from plume_memory.hypernet.fastweight import checkpoint
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.policy import AnswerPolicy

SIZES = FastWeightConfig(
    hidden_size=32, intermediate_size=64, layers=(1, 2), rank=8, value_width=6, taps=3, mixer_width=16, mixer_layer=1
)
INDEX = "model.safetensors.index.json"


def network(**other: Any) -> FastWeightNetwork:
    torch.manual_seed(0)
    return FastWeightNetwork(SIZES.model_copy(update=other))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved network in several shards."""
    checkpoint.save(network(), tmp_path, base_model="tiny", max_tokens=40, shard_bytes=4000)
    return tmp_path


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_what_was_saved_is_loaded_in_bfloat16s_precision(folder: Path) -> None:
    loaded = checkpoint.load(folder)
    manifest = checkpoint.read_manifest(folder)

    assert (manifest.base_model, manifest.max_tokens, manifest.network) == ("tiny", 40, SIZES)
    assert loaded.config == SIZES
    assert not loaded.training
    own = network().state_dict()
    assert loaded.state_dict().keys() == own.keys()
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, own[name].bfloat16().float())
    assert not any(p.requires_grad for p in loaded.parameters())


def test_a_loaded_network_saves_as_the_same_weights(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    saved = checkpoint.save(checkpoint.load(folder), again, base_model="tiny", max_tokens=40, shard_bytes=4000)

    assert saved == checkpoint.read_manifest(folder)


def test_shards_keep_to_their_size_and_the_index_names_every_tensor(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    shards = sorted(folder.glob("*.safetensors"))

    assert len(shards) > 2
    assert [s.name for s in shards] == sorted(set(index["weight_map"].values()))
    assert shards[0].name == f"model-00001-of-{len(shards):05d}.safetensors"
    total = 0
    for shard in shards:
        tensors = load_file(shard)
        size = sum(t.nbytes for t in tensors.values())
        total += size
        assert size <= 4000 or len(tensors) == 1
        assert all(index["weight_map"][name] == shard.name for name in tensors)
    assert index["metadata"]["total_size"] == total


def test_the_policy_travels_with_the_network(tmp_path: Path) -> None:
    policy = AnswerPolicy(alpha=0.9, beta=0.5, lambda_max=3, tau=0.1, delta=0.2, unit_tokens=99)
    checkpoint.save(network(), tmp_path, base_model="tiny", max_tokens=40, policy=policy)

    assert checkpoint.read_manifest(tmp_path).policy == policy
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


def test_only_our_own_manifest_makes_a_fast_weight_folder(folder: Path, tmp_path: Path) -> None:
    assert checkpoint.is_fast_weight(folder)
    for content in (b"", b"[]", b'{"kind": "d2l"}', b"\xff\xfe"):
        (tmp_path / "config.json").write_bytes(content)
        assert not checkpoint.is_fast_weight(tmp_path)
    assert not checkpoint.is_fast_weight(tmp_path / "none")


def _cut(folder: Path) -> None:
    shard = min(folder.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-3])


def _flip(folder: Path) -> None:
    shard = min(folder.glob("*.safetensors"))
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut, "Cannot read the weights|sha256"),
        (_flip, "sha256"),
        (lambda f: min(f.glob("*.safetensors")).unlink(), "Cannot read the weights"),
        (lambda f: (f / INDEX).unlink(), "Cannot read the weights"),
        (lambda f: (f / INDEX).write_text("{"), "Cannot read the weights"),
        (lambda f: (f / INDEX).write_text("[]"), "Cannot read the weights"),
        (lambda f: (f / INDEX).write_text('{"weight_map": {"a": 7}}'), "Cannot read the weights"),
        (lambda f: (f / "config.json").unlink(), "holds no trained hypernetwork"),
        (lambda f: (f / "config.json").write_text("nothing"), "describes no fast-weight network"),
        (lambda f: (f / "config.json").write_text('{"model_type": "llama"}'), "describes no fast-weight network"),
        (lambda f: edit(f / "config.json", lambda c: c["network"].update(rank=9)), "do not fit its config"),
        (lambda f: edit(f / "config.json", lambda c: c["network"].update(layers=[2, 1])), "ascending"),
        (
            lambda f: edit(f / "config.json", lambda c: c.update(format=3, novelty=True)),
            "has format 3, .* reads 1 and 2",
        ),
    ],
)
def test_damaged_incomplete_foreign_and_newer_folders_are_refused(
    folder: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(folder)


@pytest.mark.parametrize("name", ["../stolen.safetensors", "/etc/passwd", "..", "sub/stolen.safetensors"])
def test_an_index_never_leads_out_of_its_folder(folder: Path, name: str) -> None:
    save_file({"x": torch.zeros(1)}, folder.parent / "stolen.safetensors")
    edit(folder / INDEX, lambda c: c["weight_map"].update(read_keys=name))

    with pytest.raises(CheckpointError, match=r"outside its folder|Cannot read the weights"):
        checkpoint.load(folder)


def test_a_missing_folder_is_a_checkpoint_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file"):
        checkpoint.load(tmp_path / "none")


def test_weights_that_are_no_numbers_are_not_saved(tmp_path: Path) -> None:
    broken = network()
    with torch.no_grad():
        broken.get_parameter("out").fill_(float("nan"))

    with pytest.raises(CheckpointError, match=r"1 of .* the first is out"):
        checkpoint.save(broken, tmp_path, base_model="tiny", max_tokens=40)
    assert list(tmp_path.iterdir()) == []
