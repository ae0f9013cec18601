"""Laws of the LoRA algebra as properties, in float64 against dense ΔW."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from plume_memory.errors import FactorsError
from plume_memory.lora.algebra import (
    compose_global,
    compose_windows,
    concat,
    frobenius_norm,
    padded,
    scaled,
    truncated,
    weighted_sum,
)
from plume_memory.lora.factors import LoraFactors, Pair

LAYERS = (1, 4)
MODULES = {"mlp.down_proj": (7, 5), "self_attn.o_proj": (4, 6)}


def make(seed: int, rank: int, *, scale: float = 1.0) -> LoraFactors:
    generator = torch.Generator().manual_seed(seed)
    modules = {
        name: Pair(
            torch.randn(len(LAYERS), rank, d_in, generator=generator, dtype=torch.float64),
            torch.randn(len(LAYERS), rank, d_out, generator=generator, dtype=torch.float64),
        )
        for name, (d_in, d_out) in MODULES.items()
    }
    return LoraFactors(modules, LAYERS, scale)


def dense(factors: LoraFactors) -> Tensor:
    return torch.cat([factors.delta(name, layer).flatten() for name in MODULES for layer in LAYERS])


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-10)


factors_of = st.builds(
    make, st.integers(0, 10**6), st.integers(1, 6), scale=st.floats(-3, 3).filter(lambda s: abs(s) > 1e-3)
)
weights = st.floats(-2, 2)
quick = settings(deadline=None, max_examples=40)


@quick
@given(factors_of, factors_of, factors_of)
def test_concat_is_associative_and_adds_deltas(x: LoraFactors, y: LoraFactors, z: LoraFactors) -> None:
    same(dense(concat([x, y, z])), dense(x) + dense(y) + dense(z))
    same(dense(concat([concat([x, y]), z])), dense(concat([x, concat([y, z])])))


@quick
@given(factors_of, factors_of, weights, weights)
def test_weighted_sum_is_linear(x: LoraFactors, y: LoraFactors, a: float, b: float) -> None:
    total = weighted_sum([(a, x), (b, y)])

    same(dense(total), a * dense(x) + b * dense(y))
    assert total.rank == x.rank + y.rank


@quick
@given(factors_of, weights)
def test_scaled_scales_the_delta(x: LoraFactors, a: float) -> None:
    same(dense(scaled(x, a)), a * dense(x))


@quick
@given(factors_of, st.integers(0, 5))
def test_padding_changes_the_rank_and_nothing_else(x: LoraFactors, more: int) -> None:
    wide = padded(x, x.rank + more)

    assert wide.rank == x.rank + more
    assert torch.equal(dense(wide), dense(x))


@quick
@given(factors_of, factors_of, factors_of, st.floats(0, 2), st.floats(0, 3))
def test_both_forms_of_the_global_composition_are_the_same_matrix(
    full: LoraFactors, old: LoraFactors, bias: LoraFactors, alpha: float, beta: float
) -> None:
    """With the bias in both context adapters it cancels in full − old; stored, it enters once at α."""
    stored = compose_global(full, old, alpha=alpha, beta=beta, bias=bias)

    full_dense, old_dense = dense(full) + dense(bias), dense(old) + dense(bias)
    naive = weighted_sum([(alpha + beta, concat([full, bias])), (-beta, concat([old, bias]))])
    same(dense(stored), alpha * full_dense + beta * (full_dense - old_dense))
    same(dense(stored), dense(naive))
    assert stored.rank == full.rank + old.rank + bias.rank < naive.rank


@quick
@given(factors_of, st.floats(0, 2))
def test_the_first_version_is_alpha_full(full: LoraFactors, alpha: float) -> None:
    same(dense(compose_global(full, None, alpha=alpha, beta=0.75)), alpha * dense(full))


@quick
@given(st.lists(factors_of, min_size=3, max_size=5), factors_of, st.floats(0.1, 2), st.floats(0.1, 3))
def test_windows_stored_once_equal_the_composition_of_whole_histories(
    parts: list[LoraFactors], bias: LoraFactors, alpha: float, beta: float
) -> None:
    """The first stays, the second was rewritten by the update, the rest are new."""
    full = {str(i): part for i, part in enumerate(parts) if i != 1}
    old = {str(i): part for i, part in enumerate(parts[:2])}

    stored = compose_windows(full, old, alpha=alpha, beta=beta, bias=bias)

    whole = compose_global(
        concat(list(full.values())), concat(list(old.values())), alpha=alpha, beta=beta, bias=bias
    )
    same(dense(stored), dense(whole))
    assert stored.rank == sum(p.rank for p in parts) + bias.rank


@quick
@given(factors_of, st.integers(1, 6))
def test_truncation_states_its_error_and_is_the_best_of_its_rank(x: LoraFactors, rank: int) -> None:
    cut = truncated(x, max_rank=rank)

    for name in MODULES:
        for at, layer in enumerate(LAYERS):
            exact = x.delta(name, layer)
            singular = torch.linalg.svdvals(exact)
            best = singular[cut.factors.rank :].square().sum().sqrt()
            found = torch.linalg.matrix_norm(exact - cut.factors.delta(name, layer))
            torch.testing.assert_close(found, best, atol=1e-8, rtol=1e-6)
            stated = cut.relative_error[name][at] * torch.linalg.matrix_norm(exact)
            torch.testing.assert_close(stated, found, atol=1e-6, rtol=1e-5)


@quick
@given(factors_of, st.floats(0.5, 1.0))
def test_truncation_by_energy_keeps_that_share_in_every_layer(x: LoraFactors, energy: float) -> None:
    cut = truncated(x, energy=energy)

    for errors in cut.relative_error.values():
        assert all(1 - error**2 >= energy - 1e-6 for error in errors)


@quick
@given(factors_of)
def test_the_norm_is_the_dense_norm(x: LoraFactors) -> None:
    for name, norms in frobenius_norm(x).items():
        expected = torch.stack([torch.linalg.matrix_norm(x.delta(name, layer)) for layer in LAYERS])
        torch.testing.assert_close(norms, expected, atol=1e-8, rtol=1e-8)


def test_adapters_for_different_places_cannot_be_added() -> None:
    other = LoraFactors({"mlp.down_proj": make(0, 2).modules["mlp.down_proj"]}, LAYERS)

    with pytest.raises(FactorsError, match="different places"):
        concat([make(0, 2), other])
    with pytest.raises(FactorsError, match="cannot be added"):
        concat([make(0, 2), make(1, 2).to(dtype=torch.float32)])
    with pytest.raises(FactorsError, match="at least one"):
        concat([])


def test_impossible_bounds_are_refused() -> None:
    with pytest.raises(FactorsError, match="truncate them"):
        padded(make(0, 3), 2)
    with pytest.raises(FactorsError, match="got neither"):
        truncated(make(0, 3))
    with pytest.raises(FactorsError, match="max_rank"):
        truncated(make(0, 3), max_rank=0)


def test_factors_check_their_shapes() -> None:
    with pytest.raises(FactorsError, match=r"A \[L, r, d_in\]"):
        LoraFactors({"m": Pair(torch.zeros(2, 3, 4), torch.zeros(2, 2, 4))}, LAYERS)
    with pytest.raises(FactorsError, match="expected 2 layers"):
        LoraFactors({"m": Pair(torch.zeros(1, 3, 4), torch.zeros(1, 3, 4))}, LAYERS)
    with pytest.raises(FactorsError, match="at least one module"):
        LoraFactors({}, LAYERS)
    with pytest.raises(FactorsError, match="mix dtypes"):
        LoraFactors({"m": Pair(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4, dtype=torch.float64))}, LAYERS)
