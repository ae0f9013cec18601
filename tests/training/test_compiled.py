"""Compiled layers compute what the layers compute, with adapters that change from batch to batch."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from plume_memory.errors import TrainingError
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.adapters import AdapterRows, decoder_layers, shared_rows, stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.testing import random_factors, tiny_base
from plume_memory.training.compiled import compile_layers
from plume_memory.training.items import Item
from plume_memory.training.packing import Packed, pack
from plume_memory.training.student import target_logits, token_losses

CPU = torch.device("cpu")


def _packed(items: int) -> Packed:
    rows = [[Item((40, 41 + i), (90, 91, 2), "answer") for i in range(items)], [Item((70, 71), (72,), "kept")]]
    return pack(rows, [1, 5], device=CPU, dtype=torch.float32)


# PyTorch's compiler imports setuptools; what those two warn of on their first use, after whatever other tests
# have imported, is nobody's error here
@pytest.mark.filterwarnings("ignore")
def test_compiled_layers_give_the_same_logits_and_gradients() -> None:
    base, plain = tiny_base("llama"), tiny_base("llama")
    compile_layers(base.model, ["mlp.down_proj"])
    for seed, items in ((1, 2), (2, 9)):  # other adapters, another width: nothing of the first is kept
        packed = _packed(items)
        factors = [random_factors(base, seed=seed), random_factors(base, seed=seed + 10)]
        found: dict[str, Any] = {}
        for name, model in (("compiled", base), ("plain", plain)):
            rows = stack_rows(factors, device=CPU, dtype=torch.float32)
            assert rows is not None
            leaves = {key: (A.requires_grad_(), B.requires_grad_()) for key, (A, B) in rows.modules.items()}
            logits = target_logits(model, packed, AdapterRows(leaves, rows.rows, rows.rank))
            token_losses(logits, packed).mean().backward()  # type: ignore[no-untyped-call]
            found[name] = (logits.detach(), [B.grad for _, B in leaves.values()])

        torch.testing.assert_close(found["compiled"][0], found["plain"][0], atol=1e-4, rtol=1e-4)
        for ours, theirs in zip(found["compiled"][1], found["plain"][1], strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("modules", [("self_attn.q_proj", "mlp.down_proj"), ("mlp.gate_proj",)])
@pytest.mark.parametrize("learning", [False, True])
def test_adapters_above_a_bare_layer_reach_modules_that_would_be_compiled(
    modules: tuple[str, ...], learning: bool
) -> None:
    """PyTorch guards no hooks: a graph compiled for a layer without adapters would be used for those with them."""
    found = {}
    for compiled in (True, False):
        base = tiny_base("llama")
        if compiled:
            compile_layers(base.model, modules)
        rows = shared_rows(_adapter(base, modules), device=CPU, dtype=torch.float32)
        leaves = [B.requires_grad_(learning) for _, B in rows.modules.values()]
        with torch.set_grad_enabled(learning):
            logits = target_logits(base, _packed(3), rows)
        if learning:
            logits.square().sum().backward()  # type: ignore[no-untyped-call]
        found[compiled] = [logits.detach(), *(B.grad for B in leaves if learning)]

    assert len(found[True]) == 1 + 2 * learning * len(modules)
    for ours, theirs in zip(found[True], found[False], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
        assert theirs is not None
        assert theirs.abs().max() > 0


def _adapter(base: BaseModel, modules: Sequence[str]) -> LoraFactors:
    """Of all layers but the first, large enough to be seen."""
    chance = torch.Generator().manual_seed(5)
    layers = tuple(range(1, base.model.config.num_hidden_layers))
    pairs = {}
    for name in modules:
        linear: Any = decoder_layers(base.model)[0].get_submodule(name)
        A, B = (torch.randn(len(layers), 2, d, generator=chance) for d in (linear.in_features, linear.out_features))
        pairs[name] = Pair(A, B)
    return LoraFactors(pairs, layers)


def test_without_a_compiler_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")

    with pytest.raises(TrainingError, match=r"no-such-compiler.*compile=false"):
        compile_layers(tiny_base("llama").model, ["mlp.down_proj"])
