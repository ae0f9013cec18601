"""Factors as bytes, and the PEFT export judged by PEFT itself."""

import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.errors import FactorsError
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.lora.files import export_peft, from_bytes, load_factors, save_factors, to_bytes
from plume_memory.model.adapters import attached, stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.testing import random_factors


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([torch.float32, torch.bfloat16]), st.floats(0.01, 50))
def test_bytes_give_back_the_same_bits(seed: int, dtype: torch.dtype, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    A, B = torch.randn(2, 3, 5, generator=generator), torch.randn(2, 3, 4, generator=generator)
    factors = LoraFactors({"mlp.down_proj": Pair(A.to(dtype), B.to(dtype))}, (0, 3), scale)

    again = from_bytes(to_bytes(factors))

    assert again.layers == factors.layers
    assert again.scale == factors.scale
    for side in (0, 1):
        assert torch.equal(again.modules["mlp.down_proj"][side], factors.modules["mlp.down_proj"][side])


def test_a_file_round_trip_and_what_is_no_file(tmp_path: Path, tiny_llama: BaseModel) -> None:
    factors = random_factors(tiny_llama)
    save_factors(factors, tmp_path / "f.safetensors")

    assert to_bytes(load_factors(tmp_path / "f.safetensors")) == to_bytes(factors)
    with pytest.raises(FactorsError, match="Cannot read"):
        load_factors(tmp_path / "missing.safetensors")
    (tmp_path / "bad").write_bytes(to_bytes(factors)[:-7])
    with pytest.raises(FactorsError, match="Cannot read"):
        load_factors(tmp_path / "bad")


@pytest.mark.parametrize("content", [b"", b"nonsense", to_bytes(LoraFactors({"m": Pair(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))}, (0,)))[:40]])
def test_foreign_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(FactorsError, match="Not LoRA factors"):
        from_bytes(content)


def some_layers(base: BaseModel) -> LoraFactors:
    whole = random_factors(base, rank=3, seed=5)
    A, B = whole.modules["mlp.down_proj"]
    return LoraFactors({"mlp.down_proj": Pair(A[1:], B[1:])}, whole.layers[1:], 1.7)


@pytest.mark.parametrize("which", ["all layers", "some layers"])
def test_peft_loads_the_export_and_gives_our_logits(tmp_path: Path, tiny: BaseModel, which: str) -> None:
    """Float32, 1e-4; PEFT reads the folder by itself."""
    from peft import PeftModel

    factors = some_layers(tiny) if which == "some layers" else random_factors(tiny, rank=5, seed=4)
    ids = torch.tensor([[3, 17, 99, 120, 45]])
    rows = stack_rows([factors], device=torch.device("cpu"), dtype=torch.float32)
    with torch.no_grad(), attached(tiny.model, rows):
        ours = tiny.model(input_ids=ids).logits

    folder = export_peft(factors, tmp_path / "adapter", base_model=tiny.name, base_fingerprint=tiny.fingerprint)
    theirs_model = PeftModel.from_pretrained(copy.deepcopy(tiny.model), folder).eval()
    with torch.no_grad():
        theirs = theirs_model(input_ids=ids).logits

    torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=1e-4)
    adapted = {i for i, layer in enumerate(theirs_model.base_model.model.model.layers) if hasattr(layer.mlp.down_proj, "lora_A")}
    assert adapted == set(factors.layers)
