"""The laws of plume_memory.lora.algebra, against dense matrices in float64."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.errors import FactorsError
from plume_memory.lora.algebra import (
    KeyedChunk,
    compose_chunks,
    compose_global,
    concat,
    frobenius_norm,
    padded,
    scaled,
    truncated,
    weighted_sum,
)
from plume_memory.lora.factors import LoraFactors, Pair

NAME = "mlp.down_proj"
LAW = settings(max_examples=25)
finite = st.floats(-10, 10).filter(lambda c: c == 0 or abs(c) > 1e-3)


@st.composite
def shapes(draw):
    return tuple(draw(st.integers(1, 5)) for _ in range(3))  # L, d_in, d_out


@st.composite
def factors_of(draw, shape):
    L, d_in, d_out = shape
    gen = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    r = draw(st.integers(1, 6))
    A = torch.randn(L, r, d_in, generator=gen, dtype=torch.float64)
    B = torch.randn(L, r, d_out, generator=gen, dtype=torch.float64)
    return LoraFactors({NAME: Pair(A, B)}, tuple(range(L)), draw(finite))


several = shapes().flatmap(lambda shape: st.lists(factors_of(shape), min_size=3, max_size=3))
pairs = shapes().flatmap(lambda shape: st.tuples(factors_of(shape), factors_of(shape)))
ones = shapes().flatmap(factors_of)


def dense(f, name=NAME):
    return torch.stack([f.delta(name, layer) for layer in f.layers])


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-9)


@LAW
@given(several)
def test_concat_adds_deltas(parts):
    close(dense(concat(parts)), sum(dense(p) for p in parts))
    assert concat(parts).rank == sum(p.rank for p in parts)


@LAW
@given(several)
def test_concat_is_associative(parts):
    a, b, c = parts
    close(dense(concat([concat([a, b]), c])), dense(concat([a, concat([b, c])])))


def test_concat_of_one_scale_is_bit_exact(make):
    a, b = make(0, scale=45.25), make(1, scale=45.25)
    joined = concat([a, b])
    assert joined.scale == 45.25
    assert torch.equal(joined.modules[NAME].B, torch.cat([a.modules[NAME].B, b.modules[NAME].B], dim=1))


@LAW
@given(ones, finite)
def test_scaled_scales_the_delta(f, c):
    close(dense(scaled(f, c)), c * dense(f))


@LAW
@given(ones, st.integers(0, 5))
def test_padding_changes_nothing(f, more):
    wider = padded(f, f.rank + more)
    assert wider.rank == f.rank + more
    assert torch.equal(wider.modules[NAME].A[:, : f.rank], f.modules[NAME].A)
    close(dense(wider), dense(f))


@LAW
@given(several, finite, finite)
def test_weighted_sum_is_linear(parts, c, d):
    a, b, _ = parts
    close(dense(weighted_sum([(c, a), (d, b)])), c * dense(a) + d * dense(b))


@LAW
@given(several, st.floats(0, 2), st.floats(0, 2))
def test_global_composition_is_exact_and_the_bias_enters_once(parts, alpha, beta):
    """The stored form equals the method's formula with the bias inside both adapters."""
    full, old, bias = parts
    naive_full, naive_old = concat([full, bias]), concat([old, bias])
    expected = alpha * dense(naive_full) + beta * (dense(naive_full) - dense(naive_old))
    stored = compose_global(full, old, alpha=alpha, beta=beta, bias=bias)
    close(dense(stored), expected)
    assert stored.rank == full.rank + old.rank + bias.rank


@LAW
@given(pairs)
def test_first_version_is_alpha_times_full(parts):
    full, bias = parts
    first = compose_global(full, None, alpha=0.5, beta=0.75, bias=bias)
    close(dense(first), 0.5 * (dense(full) + dense(bias)))


def test_global_composition_stacks_full_above_old(make):
    full, old = make(0), make(1)
    stored = compose_global(full, old, alpha=1.0, beta=0.75)
    assert torch.equal(stored.modules[NAME].A, torch.cat([full.modules[NAME].A, old.modules[NAME].A], dim=1))
    close(stored.scale * stored.modules[NAME].B[:, 3:], -0.75 * old.modules[NAME].B)


@LAW
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=5), st.lists(st.sampled_from("abcd"), max_size=5))
def test_shared_chunks_are_stored_once_and_give_the_same_matrix(full_keys, old_keys):
    chunk_of = {key: _factors(i) for i, key in enumerate("abcd")}
    full, old = ([KeyedChunk(k, chunk_of[k]) for k in keys] for keys in (full_keys, old_keys))
    bias = _factors(9)
    expected = compose_global(
        concat([chunk.factors for chunk in full]),
        concat([chunk.factors for chunk in old]) if old else None,
        alpha=1.0,
        beta=0.75,
        bias=bias,
    )
    stored = compose_chunks(full, old, alpha=1.0, beta=0.75, bias=bias)
    close(dense(stored), dense(expected))
    assert stored.rank <= (len({*full_keys, *old_keys}) + 1) * 2


def test_append_only_growth_costs_one_block_per_chunk(make):
    chunks = [KeyedChunk(str(i), make(i, rank=8)) for i in range(4)]
    stored = compose_chunks(chunks, chunks[:3], alpha=1.0, beta=0.75, bias=make(9, rank=8))
    weights = Counter(round(w, 6) for w in _block_weights(stored, [c.factors for c in chunks]))
    assert stored.rank == (4 + 1) * 8
    assert weights == {1.0: 3, 1.75: 1}


def test_a_changed_window_weighs_minus_beta(make):
    kept, before, after = (KeyedChunk(key, make(i, rank=2)) for i, key in enumerate("abc"))
    stored = compose_chunks([kept, after], [kept, before], alpha=1.0, beta=0.75)
    expected = dense(kept.factors) + 1.75 * dense(after.factors) - 0.75 * dense(before.factors)
    close(dense(stored), expected)
    assert stored.rank == 6


@LAW
@given(ones)
def test_frobenius_norm_without_densifying(f):
    torch.testing.assert_close(frobenius_norm(f)[NAME], torch.linalg.matrix_norm(dense(f)), rtol=1e-9, atol=1e-9)


@LAW
@given(ones, st.integers(1, 6))
def test_truncation_error_is_what_is_stated_and_the_least_possible(f, max_rank):
    cut = truncated(f, max_rank=max_rank)
    whole = dense(f)
    S = torch.linalg.svdvals(whole)  # [L, k]
    norm = torch.linalg.matrix_norm(whole)
    divisor = norm.where(norm > 0, 1.0)
    best = S[:, max_rank:].square().sum(1).sqrt() / divisor
    error = torch.linalg.matrix_norm(whole - dense(cut.factors)) / divisor
    torch.testing.assert_close(cut.relative_error[NAME], best, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(error, best, rtol=1e-6, atol=1e-7)
    assert cut.factors.rank <= max_rank


@LAW
@given(ones, st.floats(0.1, 1.0))
def test_energy_is_kept_in_every_layer(f, energy):
    cut = truncated(f, energy=energy)
    assert bool((cut.relative_error[NAME].square() <= 1 - energy + 1e-9).all())


def test_truncating_a_recomposition_finds_its_true_rank(make):
    f = make(0, rank=2)
    doubled = weighted_sum([(1.75, f), (-0.75, f)])  # width 4, rank 2
    cut = truncated(doubled, max_rank=2)
    close(dense(cut.factors), dense(f))
    assert float(cut.relative_error[NAME].max()) < 1e-12


def test_truncation_of_zero_has_no_error(make):
    cut = truncated(scaled(make(0), 0.0), max_rank=1)
    assert cut.relative_error[NAME].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("other", [{"layers": (0, 1)}, {"widths": (7, 6)}, {"dtype": torch.float32}])
def test_concat_refuses_what_does_not_fit(make, other):
    with pytest.raises(FactorsError, match="differ in"):
        concat([make(0), make(1, **other)])


@pytest.mark.parametrize(
    "call",
    [
        lambda f: concat([]),
        lambda f: scaled(f, float("nan")),
        lambda f: padded(f, 1),
        lambda f: truncated(f),
        lambda f: truncated(f, max_rank=0),
        lambda f: truncated(f, energy=1.5),
        lambda f: compose_chunks([], [], alpha=1.0, beta=1.0),
    ],
)
def test_senseless_arguments_are_refused(make, call):
    with pytest.raises(FactorsError):
        call(make(0))


@pytest.mark.parametrize("layers", [(2, 0), (1, 1), (-1, 0), ()])
def test_layers_must_ascend(layers):
    n = max(len(layers), 1)
    with pytest.raises(FactorsError, match="ascending"):
        LoraFactors({NAME: Pair(torch.zeros(n, 1, 2), torch.zeros(n, 1, 2))}, layers)


def _factors(seed):
    gen = torch.Generator().manual_seed(seed)
    A, B = (torch.randn(2, 2, d, generator=gen, dtype=torch.float64) for d in (7, 5))
    return LoraFactors({NAME: Pair(A, B)}, (0, 1), 2.0)


def _block_weights(stored, parts):
    """The weight of each part's block in a composition, read off its B."""
    start = 0
    for part in parts:
        B = stored.modules[NAME].B[:, start : start + part.rank]
        yield float((stored.scale * B / part.modules[NAME].B).mean())
        start += part.rank


def test_parts_of_one_a_add_up_in_b_and_the_rank_stays(make):
    """float64: the sum is as exact as the concatenation it replaces."""
    first = make(0)
    shared = first.modules[NAME].A
    parts = [
        LoraFactors({NAME: Pair(shared, make(i).modules[NAME].B)}, first.layers, s) for i, s in enumerate((1, -3, 0.5))
    ]
    apart = [LoraFactors({NAME: Pair(shared.clone(), p.modules[NAME].B)}, p.layers, p.scale) for p in parts]

    together = concat(parts)
    assert together.rank == first.rank
    assert together.modules[NAME].A is shared
    assert concat(apart).rank == 3 * first.rank
    close(dense(together), dense(concat(apart)))
    close(dense(concat([concat(parts[:2]), parts[2]])), dense(together))


def test_parts_of_one_a_are_summed_wide_and_rounded_once(make):
    """bfloat16 would lose the small parts one by one; all of them together count."""
    A = make(0, dtype=torch.bfloat16).modules[NAME].A
    ones = [
        LoraFactors({NAME: Pair(A, torch.full((2, 3, 5), size, dtype=torch.bfloat16))}, (0, 2))
        for size in [1.0] + [2**-9] * 8
    ]

    assert concat(ones).modules[NAME].B.unique().tolist() == [1 + 2**-6]
    assert concat(ones).dtype == torch.bfloat16


def test_parts_of_one_a_at_weight_zero_are_nothing(make):
    f = make(0)
    nothing = weighted_sum([(0.0, f), (0.0, f)])
    assert nothing.rank == f.rank
    assert dense(nothing).abs().max() == 0


def test_shared_a_keeps_the_rank_of_a_whole_history(make):
    shared = make(0).modules[NAME].A
    chunks = [KeyedChunk(str(i), LoraFactors({NAME: Pair(shared, make(i).modules[NAME].B)}, (0, 2))) for i in range(5)]
    stored = compose_chunks(chunks[:4], [*chunks[:3], chunks[4]], alpha=1.0, beta=0.75)
    expected = (
        sum(dense(c.factors) for c in chunks[:3]) + 1.75 * dense(chunks[3].factors) - 0.75 * dense(chunks[4].factors)
    )

    assert stored.rank == 3
    close(dense(stored), expected)
