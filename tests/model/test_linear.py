"""Linear layers with packed and with eight-bit weights."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from plume_memory.engine import Engine
from plume_memory.errors import InvalidInput, ModelError
from plume_memory.model.base import BaseModel
from plume_memory.model.linear import INT8_ROWS, Linear
from plume_memory.testing import tiny_base


def weights(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(48, 64, generator=generator), torch.randn(48, generator=generator)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base, path = tiny_base("llama"), tmp_path_factory.mktemp("tiny")
    base.model.save_pretrained(path)
    base.tokenizer.save_pretrained(path)
    return path


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1, 64), (2, 1, 64), (INT8_ROWS, 1, 64), (3, 40, 64)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_eight_bit_weights_multiply_as_the_full_ones_but_for_rounding(
    shape: tuple[int, ...], dtype: torch.dtype, has_bias: bool
) -> None:
    weight, bias = weights()
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    kept = bias.to(dtype) if has_bias else None
    rounded, full = Linear.of(weight.to(dtype), kept, "int8"), Linear.of(weight, bias if has_bias else None)
    assert rounded.weight.dtype == torch.int8
    own, wanted = rounded(x), full(x.float())
    assert (own.shape, own.dtype) == (wanted.shape, dtype)
    assert ((own.float() - wanted).norm() / wanted.norm()).item() < 0.02


@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("rows", [1, 2, 8, 300])
@pytest.mark.parametrize("has_bias", [False, True])
def test_packed_weights_multiply_as_plain_ones(dtype: torch.dtype, within: float, rows: int, has_bias: bool) -> None:
    weight, bias = weights()
    x = torch.randn(rows, 1, 64, generator=torch.Generator().manual_seed(1)).to(dtype)
    layer = Linear.of(weight.to(dtype), bias.to(dtype) if has_bias else None)
    needs = {torch.float32: "avx2", torch.bfloat16: "avx512_bf16"}[dtype]
    assert layer.is_packed == torch.cpu.get_capabilities().get(needs, False)
    wanted = F.linear(x.float(), weight.to(dtype).float(), bias.to(dtype).float() if has_bias else None)
    assert ((layer(x).float() - wanted).norm() / wanted.norm()).item() < within


def test_of_a_row_of_zeros_nothing_comes() -> None:
    weight, _ = weights()
    weight[3] = 0.0
    y = Linear.of(weight, None, "int8")(torch.ones(2, 64))
    assert torch.isfinite(y).all()
    assert (y[:, 3] == 0.0).all()


def test_a_model_in_eight_bits_says_nearly_the_same_and_is_another_model_to_what_is_derived(folder: Path) -> None:
    full = BaseModel.load(str(folder), dtype="float32")
    rounded = BaseModel.load(str(folder), dtype="float32", weights="int8")
    assert full.fingerprint != rounded.fingerprint
    ids = torch.randint(3, 200, (1, 30), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(30)[None]
    with torch.inference_mode():
        own, wanted = (one.passes.logits(one.passes.run(ids, positions)) for one in (rounded, full))
    assert 0 < ((own - wanted).norm() / wanted.norm()).item() < 0.05


def test_what_cannot_be_kept_in_eight_bits_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="Unknown weights 'int3'; write one of full, int8"):
        Engine.load(str(folder), hypernetwork="none", weights="int3")  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(InvalidInput, match="weights='int8' is for CPUs, the device is cuda"):
        BaseModel.load(str(folder), device="cuda", weights="int8")
    monkeypatch.undo()
    monkeypatch.setattr("plume_memory.model.base.has_fixed_turns", lambda _: False)
    with pytest.raises(ModelError, match="not of a kind that can be kept in int8"):
        BaseModel.load(str(folder), device="cpu", weights="int8")
