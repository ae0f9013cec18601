"""Bytes and files of factors: exact, deterministic, and refused when damaged."""

import json
import os

import pytest
import torch
from safetensors.torch import save

from plume_memory.errors import FactorsError
from plume_memory.lora.atomic import write_folder
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.lora.files import export_peft, from_bytes, load_factors, read_fingerprints, save_factors, to_bytes


def same(one, other):
    assert one.layers == other.layers
    assert one.scale == other.scale
    assert one.modules.keys() == other.modules.keys()
    for name in one.modules:
        for a, b in zip(one.modules[name], other.modules[name], strict=True):
            assert a.dtype == b.dtype
            assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_round_trip_is_bit_exact(make, dtype):
    f = make(0, dtype=dtype, scale=45.254833995939045, modules=("mlp.down_proj", "self_attn.q_proj"))
    same(from_bytes(to_bytes(f)), f)


def test_equal_factors_give_equal_bytes(make):
    prints = {"model": "a", "parameterizer": "b"}
    one = to_bytes(make(0), fingerprints=prints)
    assert one == to_bytes(make(0), fingerprints=dict(reversed(prints.items())))
    assert read_fingerprints(one) == prints


def test_tensors_that_share_memory_can_be_written():
    shared = torch.arange(12.0).reshape(1, 3, 4)
    f = LoraFactors({"mlp.down_proj": Pair(shared, shared)}, (0,))
    same(from_bytes(to_bytes(f)), f)


def test_file_round_trip_leaves_no_temporary_file(make, tmp_path):
    save_factors(make(0), tmp_path / "deep" / "f.safetensors")
    same(load_factors(tmp_path / "deep" / "f.safetensors"), make(0))
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["f.safetensors"]


def test_missing_file_is_a_factors_error(tmp_path):
    with pytest.raises(FactorsError, match="Cannot read factors"):
        load_factors(tmp_path / "none")


def test_every_flipped_payload_bit_is_noticed(make):
    content = bytearray(to_bytes(make(0)))
    content[-5] ^= 1
    with pytest.raises(FactorsError, match="damaged"):
        from_bytes(bytes(content))


@pytest.mark.parametrize("keep", [0, 4, 20, 400, -1])
def test_cut_short_bytes_are_refused(make, keep):
    with pytest.raises(FactorsError):
        from_bytes(to_bytes(make(0))[:keep])


def test_foreign_files_are_refused():
    for content in (b"PK\x03\x04 not safetensors", save({"x": torch.zeros(2)}), b"\xff" * 64):
        with pytest.raises(FactorsError):
            from_bytes(content)


def test_newer_format_is_refused(make):
    content = to_bytes(make(0))
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    inner = json.loads(header["__metadata__"]["plume"]) | {"format": 2}
    text = json.dumps(header | {"__metadata__": {"plume": json.dumps(inner)}}).encode()
    with pytest.raises(FactorsError, match="format 2"):
        from_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


def test_a_crash_while_writing_leaves_no_folder_that_looks_whole(tmp_path):
    def crash(path):
        path.write_text("half")
        raise OSError("disk full")

    write_folder(tmp_path, {"w": lambda p: p.write_text("1"), "config": lambda p: p.write_text("1")})
    with pytest.raises(OSError, match="disk full"):
        write_folder(tmp_path, {"w": crash, "config": lambda p: p.write_text("2")})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"w": "1"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_factors_without_a_are_read_back_with_the_a_that_is_given(make, dtype):
    f = make(0, dtype=dtype, modules=("mlp.down_proj", "self_attn.q_proj"))
    shared = {name: pair.A for name, pair in f.modules.items()}
    content = to_bytes(f, without_A=True)
    read = from_bytes(content, A=shared)

    same(read, f)
    assert all(read.modules[name].A is shared[name] for name in shared)
    assert len(content) < len(to_bytes(f))
    assert content == to_bytes(read, without_A=True)


def test_factors_without_a_are_nothing_alone(make):
    content = to_bytes(make(0), without_A=True)
    with pytest.raises(FactorsError, match="no complete pair"):
        from_bytes(content)
    with pytest.raises(FactorsError, match="no complete pair"):
        from_bytes(content, A={"self_attn.q_proj": torch.zeros(2, 3, 7, dtype=torch.float64)})


@pytest.mark.parametrize(
    "A",
    [
        torch.zeros(2, 4, 7, dtype=torch.float64),
        torch.zeros(1, 3, 7, dtype=torch.float64),
        torch.zeros(2, 3, 7, dtype=torch.bfloat16),
    ],
)
def test_an_a_that_does_not_fit_is_refused(make, A):
    with pytest.raises(FactorsError):
        from_bytes(to_bytes(make(0), without_A=True), A={"mlp.down_proj": A})


def test_factors_with_their_own_a_keep_it(make):
    f = make(0)
    same(from_bytes(to_bytes(f), A={"mlp.down_proj": torch.zeros(2, 3, 7, dtype=torch.float64)}), f)


def test_a_flipped_bit_is_noticed_without_a_too(make):
    content = bytearray(to_bytes(make(0), without_A=True))
    content[-5] ^= 1
    with pytest.raises(FactorsError, match="damaged"):
        from_bytes(bytes(content), A={"mlp.down_proj": make(0).modules["mlp.down_proj"].A})


def test_an_adapter_is_its_owners_alone(tmp_path, make):
    """A memory's texts can be asked out of it, as out of its archive."""
    save_factors(make(0), tmp_path / "factors.safetensors")
    export_peft(make(0), tmp_path / "peft", base_model="x", base_fingerprint="y")
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 3
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}


def test_what_a_killed_writer_left_goes_with_the_next_file_of_its_name(tmp_path, make):
    old, young, other = (tmp_path / f".{name}.tmp" for name in ("f.safetensors.1", "f.safetensors.2", "g.1"))
    for path in (old, young, other):
        path.write_text("half")
    for path in (old, other):
        os.utime(path, (0, 0))
    save_factors(make(0), tmp_path / "f.safetensors")
    assert {path.name for path in tmp_path.iterdir()} == {young.name, other.name, "f.safetensors"}
