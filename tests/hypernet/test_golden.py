"""Tensors that the reference implementation computed: the converted network gives the same.

Tolerance: 1e-4 of the largest magnitude, float32. Greedy ids must be equal.
"""

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from plume_memory.hypernet.d2l.checkpoint import convert, load
from plume_memory.hypernet.encoder import stream_features
from plume_memory.hypernet.parameterizer import D2LParameterizer
from plume_memory.lora.algebra import concat, padded
from plume_memory.model.modules import Modules

NAME = "mlp.down_proj"


class Loaded(NamedTuple):
    network: torch.nn.Module
    model: torch.nn.Module
    expected: dict
    parameterizer: D2LParameterizer


@pytest.fixture(scope="module")
def loaded(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = convert(golden / "pytorch_model.bin", tmp_path_factory.mktemp("d2l") / golden.name)
    network = load(folder)
    model = AutoModelForCausalLM.from_pretrained(golden / "base", dtype=torch.float32).eval()
    expected = load_file(golden / "expected.safetensors")
    rows = zip(expected["ctx_ids"].tolist(), expected["ctx_attn_mask"].sum(1).tolist(), strict=True)
    chunks = {f"chunk {i}": ids[:n] for i, (ids, n) in enumerate(rows)}
    parameterizer = D2LParameterizer(
        network,
        Modules(model),
        chunks.__getitem__,
        [],
        [],
        chunking="near_equal",
        chunk_tokens=512,
        fingerprint="golden",
    )
    return Loaded(network, model, expected, parameterizer)


def assert_close(found, expected):
    assert found.shape == expected.shape
    error = float((found - expected).abs().max() / expected.abs().max())
    assert error < 1e-4, f"relative error {error:.2e}"


def features_of(loaded):
    layers = []
    e = loaded.expected
    stream_features(Modules(loaded.model), e["ctx_ids"], e["ctx_attn_mask"], lambda _, x: layers.append(x))
    return torch.stack(layers, dim=1)


@torch.no_grad()
def test_batched_mode(loaded):
    pairs = loaded.network(features_of(loaded), loaded.expected["ctx_attn_mask"])
    assert_close(pairs[NAME].A, loaded.expected["batched.A"])
    assert_close(pairs[NAME].B, loaded.expected["batched.B"])


@torch.no_grad()
def test_iterative_mode(loaded):
    e, latents = loaded.expected, []
    stream_features(
        Modules(loaded.model),
        e["ctx_ids"],
        e["ctx_attn_mask"],
        lambda _, x: latents.append(loaded.network.encode_layer(x, e["ctx_attn_mask"])),
    )
    pairs = loaded.network.generate(torch.stack(latents, dim=1))
    assert_close(pairs[NAME].A, e["iterative.A"])
    assert_close(pairs[NAME].B, e["iterative.B"])


def test_each_chunk_through_the_parameterizer(loaded):
    """The public path: right padding, streaming, one LoraFactors per text."""
    made = loaded.parameterizer.parameterize(["chunk 0", "chunk 1", "chunk 2"])
    for row, factors in enumerate(made):
        assert_close(factors.modules[NAME].A, loaded.expected["batched.A"][row])
        assert_close(factors.modules[NAME].B, loaded.expected["batched.B"][row])
        assert factors.scale == pytest.approx(2 * 8**1.5)


def test_combined_groups_carry_the_bias_once(loaded):
    made = loaded.parameterizer.parameterize(["chunk 0", "chunk 1", "chunk 2"])
    bias = loaded.parameterizer.bias
    groups = [concat([*made[:2], bias]), padded(concat([made[2], bias]), 24)]
    for row, group in enumerate(groups):
        assert_close(group.modules[NAME].A, loaded.expected["combined.A"][row])
        assert_close(group.modules[NAME].B, loaded.expected["combined.B"][row])


@contextmanager
def applied(model, factors):
    """Add scale · Bᵀ(A x) to the output of each adapted module."""

    def add(A, B):
        return lambda _, args, out: out + factors.scale * (args[0] @ A.T) @ B

    with ExitStack() as stack:
        for name, (A, B) in factors.modules.items():
            for row, layer in enumerate(factors.layers):
                module = model.get_submodule(f"model.layers.{layer}.{name}")
                handle = module.register_forward_hook(add(A[row], B[row]))
                stack.callback(handle.remove)
        yield


@torch.no_grad()
def test_logits_and_greedy_ids_under_the_adapter(loaded):
    e = loaded.expected
    made = loaded.parameterizer.parameterize(["chunk 0", "chunk 1", "chunk 2"])
    adapter = concat([*made, loaded.parameterizer.bias])
    assert_close(loaded.model(e["prompt_ids"]).logits, e["base_logits"])
    ids = e["prompt_ids"]
    with applied(loaded.model, adapter):
        assert_close(loaded.model(ids).logits, e["logits"])
        for _ in range(16):
            ids = torch.cat([ids, loaded.model(ids).logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(ids, e["greedy_ids"])


def test_base_logits_are_bit_identical_after_parameterizing(loaded):
    prompt = loaded.expected["prompt_ids"]
    before = loaded.model(prompt).logits
    loaded.parameterizer.parameterize(["chunk 1"])
    assert torch.equal(loaded.model(prompt).logits, before)
