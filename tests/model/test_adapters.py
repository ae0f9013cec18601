"""Adapters per row."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from plume_memory.errors import FactorsError
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model import adapters
from plume_memory.model.adapters import AdapterRows, attached, stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.testing import random_factors, tiny_base

CPU = torch.device("cpu")


def test_rows_of_different_rank_and_none_equal_merged_weights(tiny: BaseModel) -> None:
    ids = torch.tensor([[5, 9, 7, 30]]).expand(3, -1)
    adapters: list[LoraFactors | None] = [
        random_factors(tiny, rank=2, seed=1),
        None,
        random_factors(tiny, rank=7, seed=2),
    ]
    rows = stack_rows(adapters, device=CPU, dtype=torch.float32)
    with torch.no_grad(), attached(tiny.model, rows):
        found = tiny.model(input_ids=ids).logits

    for row, factors in enumerate(adapters):
        with torch.no_grad():
            for layer in factors.layers if factors else ():
                tiny.model.model.layers[layer].mlp.down_proj.weight += factors.delta("mlp.down_proj", layer)
            expected = tiny.model(input_ids=ids[:1]).logits[0]
            for layer in factors.layers if factors else ():
                tiny.model.model.layers[layer].mlp.down_proj.weight -= factors.delta("mlp.down_proj", layer)
        torch.testing.assert_close(found[row], expected, atol=2e-4, rtol=1e-4)


def test_no_adapter_at_all_attaches_nothing(tiny_llama: BaseModel) -> None:
    assert stack_rows([None, None], device=CPU, dtype=torch.float32) is None
    bare = probe(tiny_llama)
    with attached(tiny_llama.model, None):
        assert torch.equal(probe(tiny_llama), bare)


def probe(base: BaseModel) -> torch.Tensor:
    with torch.no_grad():
        return base.model(input_ids=torch.tensor([[5, 9, 7, 30]])).logits  # type: ignore[no-any-return]


def test_an_adapter_is_for_one_pass(tiny_llama: BaseModel) -> None:
    bare, rows = probe(tiny_llama), stack_rows([random_factors(tiny_llama)], device=CPU, dtype=torch.float32)
    with attached(tiny_llama.model, rows):
        first, second = probe(tiny_llama), probe(tiny_llama)
    assert not torch.equal(first, bare)
    assert torch.equal(second, bare)
    assert torch.equal(probe(tiny_llama), bare)


def test_what_an_exception_leaves_behind_is_in_nobodys_pass(tiny_llama: BaseModel) -> None:
    bare, rows = probe(tiny_llama), stack_rows([random_factors(tiny_llama)], device=CPU, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="midway"), attached(tiny_llama.model, rows):
        raise RuntimeError("midway")
    assert torch.equal(probe(tiny_llama), bare)


class Interrupt(BaseException):
    """As KeyboardInterrupt, which a debugger would stop at."""


def interrupted(line: int, act: Callable[[], object]) -> bool:
    """Act, with an interrupt before the n-th line of adapters.py that runs; whether there were that many."""
    seen = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != adapters.__file__:
            return None
        if event == "line":
            seen += 1
            if seen == line:
                raise Interrupt
        return trace

    sys.settrace(trace)
    try:
        act()
    except Interrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_an_interrupt_at_any_line_leaves_every_other_pass_as_it_was(name: str) -> None:
    """Of attaching, of the pass and of detaching; for the bare model, and for another owner's adapter."""
    whole = tiny_base(name)
    mine, hers = (stack_rows([random_factors(whole, seed=seed)], device=CPU, dtype=torch.float32) for seed in (1, 2))

    def adapted(base: BaseModel, rows: AdapterRows | None) -> torch.Tensor:
        with attached(base.model, rows):
            return probe(base)

    bare, expected, own = probe(whole), adapted(whole, hers), adapted(whole, mine)
    line = 1
    while True:
        base = tiny_base(name)  # never hooked before: the interrupt may strike while it is
        if not interrupted(line, lambda base=base: adapted(base, mine)):  # type: ignore[misc]
            break
        assert torch.equal(probe(base), bare), f"line {line}"
        assert torch.equal(adapted(base, hers), expected), f"line {line}"
        assert torch.equal(adapted(base, mine), own), f"line {line}"
        assert torch.equal(probe(base), bare), f"line {line}"
        line += 1
    assert line > 60


def test_factors_of_another_width_are_refused_with_both_widths(tiny_llama: BaseModel) -> None:
    foreign = LoraFactors({"mlp.down_proj": Pair(torch.zeros(1, 2, 65), torch.zeros(1, 2, 32))}, (0,))
    rows = stack_rows([foreign], device=CPU, dtype=torch.float32)
    with pytest.raises(FactorsError, match=r"65→32 wide, the loaded model's layer is 64→32"):
        with attached(tiny_llama.model, rows):
            pass


def test_factors_of_an_unknown_module_are_refused(tiny_llama: BaseModel) -> None:
    foreign = LoraFactors({"mlp.w2": Pair(torch.zeros(1, 2, 64), torch.zeros(1, 2, 32))}, (0,))
    rows = stack_rows([foreign], device=CPU, dtype=torch.float32)
    with pytest.raises(FactorsError, match=r"no 'mlp\.w2'"):
        with attached(tiny_llama.model, rows):
            pass


def test_an_adapter_wider_than_the_fixed_rank_is_refused(tiny_llama: BaseModel) -> None:
    with pytest.raises(FactorsError, match="rank 5 does not fit rows of rank 4"):
        stack_rows([random_factors(tiny_llama, rank=5)], device=CPU, dtype=torch.float32, rank=4)


def test_a_that_all_rows_share_equals_a_repeated_for_each(tiny_llama: BaseModel) -> None:
    """A [d_in, r] without rows beside B [R, r, d_out], as training passes them; bit for bit the same."""
    chance = torch.Generator().manual_seed(0)
    A, B = torch.randn(64, 4, generator=chance), 0.1 * torch.randn(3, 4, 32, generator=chance)
    ids = torch.tensor([[5, 9, 7, 30]]).expand(3, -1)
    found = []
    for each in (A, A.expand(3, -1, -1)):
        with torch.no_grad(), attached(tiny_llama.model, AdapterRows({(1, "mlp.down_proj"): (each, B)}, 3, 4)):
            found.append(tiny_llama.model(input_ids=ids).logits)

    torch.testing.assert_close(found[0], found[1], atol=1e-6, rtol=1e-5)
    assert (found[0][0] - found[0][1]).abs().max() > 1e-3, "the rows differ in B"


def test_selecting_rows_keeps_what_all_rows_share(tiny_llama: BaseModel) -> None:
    A, B = torch.randn(64, 4), torch.randn(3, 4, 32)
    rows = AdapterRows({(1, "mlp.down_proj"): (A, B), (2, "mlp.down_proj"): (A.expand(3, -1, -1), B[0])}, 3, 4)
    kept = rows.select(torch.tensor([2, 0]))

    assert (kept.rows, kept.rank) == (2, 4)
    assert kept.modules[1, "mlp.down_proj"][0] is A
    assert torch.equal(kept.modules[1, "mlp.down_proj"][1], B[[2, 0]])
    assert kept.modules[2, "mlp.down_proj"][0].shape == (2, 64, 4)
    assert kept.modules[2, "mlp.down_proj"][1] is rows.modules[2, "mlp.down_proj"][1]


def test_a_shared_a_of_another_width_is_refused(tiny_llama: BaseModel) -> None:
    rows = AdapterRows({(0, "mlp.down_proj"): (torch.zeros(65, 2), torch.zeros(3, 2, 32))}, 3, 2)
    with pytest.raises(FactorsError, match=r"65→32 wide"):
        with attached(tiny_llama.model, rows):
            pass


def test_behind_a_gate_the_adapter_acts_and_before_it_the_model_is_bare(tiny: BaseModel) -> None:
    """Against two passes: the bare model's over what the gate closes, kept in a cache, and the adapted one's."""
    ids, starts = torch.tensor([[5, 9, 7, 30, 11]]), (2, 4, 0)
    rows = stack_rows([random_factors(tiny, seed=seed) for seed in starts], device=CPU, dtype=torch.float32)
    assert rows is not None
    gate = (torch.arange(5) >= torch.tensor(starts)[:, None]).float()[..., None]
    with torch.no_grad(), attached(tiny.model, replace(rows, gate=gate)):
        found = tiny.model(input_ids=ids.expand(3, -1)).logits

    for row, start in enumerate(starts):
        cache, expected = DynamicCache(), []
        with torch.no_grad():
            if start:
                expected.append(tiny.model(input_ids=ids[:, :start], past_key_values=cache, use_cache=True).logits)
            with attached(tiny.model, rows.select(torch.tensor([row]))):
                expected.append(tiny.model(input_ids=ids[:, start:], past_key_values=cache, use_cache=True).logits)
        torch.testing.assert_close(found[row], torch.cat(expected, 1)[0], atol=1e-4, rtol=1e-4)


def test_selecting_rows_keeps_their_gates(tiny_llama: BaseModel) -> None:
    rows = stack_rows([random_factors(tiny_llama, seed=seed) for seed in range(3)], device=CPU, dtype=torch.float32)
    assert rows is not None
    gate = torch.rand(3, 5, 1)

    kept = replace(rows, gate=gate).select(torch.tensor([2, 0]))
    assert kept.gate is not None
    assert torch.equal(kept.gate, gate[[2, 0]])
    assert rows.select(torch.tensor([2, 0])).gate is None
