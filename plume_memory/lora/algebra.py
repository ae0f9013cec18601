"""Pure functions on LoRA factors. No model, no file, no randomness; inputs are never changed.

Legend: L adapted layers, r rank, d_in / d_out widths, Δ(f) = scale · Bᵀ A the dense update of one module.

Laws (tested):
    Δ(concat([x, y]))          == Δ(x) + Δ(y)              and concat is associative
    Δ(scaled(x, c))            == c · Δ(x)
    Δ(padded(x, r))            == Δ(x)
    Δ(weighted_sum([(c, x)…])) == Σ c · Δ(x)
    ‖Δ(x) − Δ(truncated(x))‖   == the stated error · ‖Δ(x)‖, the least any factors of that rank can have
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from plume_memory.errors import FactorsError
from plume_memory.lora.factors import LoraFactors, Pair


class KeyedChunk(NamedTuple):
    """Factors of one chunk of a history under the key (content hash) that says which chunk it is."""

    key: str
    factors: LoraFactors


@dataclass(frozen=True, slots=True, eq=False)
class Truncation:
    """Factors of a lower rank, and what the lower rank cost."""

    factors: LoraFactors
    relative_error: Mapping[str, Tensor]
    """Module path → [L] float64: ‖Δ − Δ'‖_F / ‖Δ‖_F of each layer, before the cast to the factors' dtype."""


def concat(parts: Sequence[LoraFactors]) -> LoraFactors:
    """Concatenate along the rank: the deltas add up exactly.

    A = [A_1; A_2; …], B = [w_1 B_1; w_2 B_2; …]. Parts of one scale are joined as they are (w = 1).
    Otherwise the scale largest in magnitude stays the scale of the result and the ratio
    w_i = scale_i / scale, at most 1 in magnitude, is folded into B_i, so nothing can overflow.

    Parts that share their A, the very same tensors, add up in B instead and the rank does not grow:
    Σ w_i B_iᵀ A = (Σ w_i B_i)ᵀ A, summed in float32 (float64 stays float64), rounded once to the factors' dtype.

    Raises:
        FactorsError: no parts, or parts that differ in layers, modules, widths, dtype or device.
    """
    if not parts:
        raise FactorsError("Nothing to concatenate; pass at least one LoraFactors.")
    first = parts[0]
    for other in parts[1:]:
        _require_alike(first, other)
    if len(parts) == 1:
        return first
    scale = max((part.scale for part in parts), key=abs)
    if all(_same_a(first, other) for other in parts[1:]):
        added = {name: Pair(pair.A, _added(parts, name, scale)) for name, pair in first.modules.items()}
        return LoraFactors(added, first.layers, scale)
    joined = {
        name: Pair(
            torch.cat([part.modules[name].A for part in parts], dim=1),  # [L, Σr, d_in]
            torch.cat([_refolded(part, name, scale) for part in parts], dim=1),  # [L, Σr, d_out]
        )
        for name in first.modules
    }
    return LoraFactors(joined, first.layers, scale)


def scaled(factors: LoraFactors, c: float) -> LoraFactors:
    """Multiply the delta by `c`; only the scale changes, the tensors are shared.

    Raises:
        FactorsError: c is not finite.
    """
    if not math.isfinite(c):
        raise FactorsError(f"Factors cannot be scaled by {c}; pass a finite number.")
    return LoraFactors(factors.modules, factors.layers, factors.scale * c)


def padded(factors: LoraFactors, rank: int) -> LoraFactors:
    """Append zero rows up to `rank`; the delta is exactly the same.

    Raises:
        FactorsError: `rank` is less than the factors' rank.
    """
    missing = rank - factors.rank
    if missing < 0:
        raise FactorsError(f"Factors of rank {factors.rank} do not fit rank {rank}; truncate them first.")
    rows = (0, 0, 0, missing)  # none along the width, `missing` at the end of the rank
    wider = {name: Pair(pad(A, rows), pad(B, rows)) for name, (A, B) in factors.modules.items()}
    return LoraFactors(wider, factors.layers, factors.scale)


def weighted_sum(terms: Sequence[tuple[float, LoraFactors]]) -> LoraFactors:
    """Σ c_i · f_i as one rank concatenation, in the order given.

    Raises:
        FactorsError: no terms, a weight that is not finite, or terms that do not fit together.
    """
    return concat([scaled(factors, c) for c, factors in terms])


def compose_global(
    full: LoraFactors,
    old: LoraFactors | None,
    *,
    alpha: float,
    beta: float,
    bias: LoraFactors | None = None,
) -> LoraFactors:
    """Compose ΔW_g = α ΔW_full + β (ΔW_full − ΔW_old), exactly (METHOD: global update representation).

    With c_full = α + β and c_old = −β: A_g = [A_full; A_old], B_g = [c_full B_full; c_old B_old]. The
    parameterizer's bias block is part of ΔW_full and of ΔW_old and cancels in the difference, so it
    enters once, at weight α: width r_full + r_old + r_bias.

    Args:
        full: H(C(t)) without the bias block.
        old: H(C(t−1)) without the bias block; None for the first version, where ΔW_g = α ΔW_full.
        alpha: weight of ΔW_full.
        beta: weight of ΔW_full − ΔW_old.
        bias: the parameterizer's bias block, if it has one.

    Raises:
        FactorsError: the factors do not fit together.
    """
    terms = [(alpha, full)] if old is None else [(alpha + beta, full), (-beta, old)]
    if bias is not None:
        terms.append((alpha, bias))
    return weighted_sum(terms)


def compose_chunks(
    full: Sequence[KeyedChunk],
    old: Sequence[KeyedChunk],
    *,
    alpha: float,
    beta: float,
    bias: LoraFactors | None = None,
) -> LoraFactors:
    """Compose the same matrix as `compose_global` from chunk factors, each chunk stored once.

    A chunk in both histories weighs (α + β) − β = α, one of the full history alone α + β, one of the
    old alone −β. A chunk that occurs several times is stored once at the sum of its weights; one whose
    weight is zero is left out. For n_full chunks of which the old history shares all but the new ones,
    the width is n_full · r (+ the bias), instead of (n_full + n_old) · r.

    Args:
        full: chunks of C(t) in order, without bias blocks.
        old: chunks of C(t−1) in order; empty for the first version, where ΔW_g = α ΔW_full.
        alpha: weight of ΔW_full.
        beta: weight of ΔW_full − ΔW_old.
        bias: the parameterizer's bias block, if it has one; enters once at α.

    Raises:
        FactorsError: no chunks of the full history, or factors that do not fit together.
    """
    if not full:
        raise FactorsError("A global adapter needs at least one chunk of the full history; got none.")
    seen, dropped = (alpha + beta, -beta) if old else (alpha, 0.0)
    n_full, n_old = (Counter(chunk.key for chunk in listed) for listed in (full, old))
    terms: list[tuple[float, LoraFactors]] = []
    for key, factors in {chunk.key: chunk.factors for chunk in [*full, *old]}.items():
        more = n_full[key] - n_old[key]
        # n_full · (α + β) − n_old · β, written so that a chunk that both share gets α itself, unrounded
        weight = min(n_full[key], n_old[key]) * alpha + max(more, 0) * seen + max(-more, 0) * dropped
        if weight != 0.0:
            terms.append((weight, factors))
    if bias is not None:
        terms.append((alpha, bias))
    return weighted_sum(terms or [(0.0, full[0].factors)])


def frobenius_norm(factors: LoraFactors) -> dict[str, Tensor]:
    """‖Δ‖_F of each module and layer, module path → [L] float64, without building Δ."""
    return {
        name: abs(factors.scale) * torch.linalg.matrix_norm(_orthogonal_core(pair).core)
        for name, pair in factors.modules.items()
    }


def truncated(factors: LoraFactors, *, max_rank: int | None = None, energy: float | None = None) -> Truncation:
    """Recompress to the best factors of a lower rank, and say what was lost.

    QR of both factors leaves an SVD of an [r, r] core: Δ = Q_B (R_B R_Aᵀ) Q_Aᵀ = Q_B U S Vᵀ Q_Aᵀ. The
    k largest singular values are kept in every layer and module (Eckart-Young), √S to each factor.

    Args:
        factors: what to recompress.
        max_rank: keep at most this rank.
        energy: keep the smallest rank at which every layer of every module keeps this share of ‖Δ‖_F².

    Returns:
        Factors of scale 1 in the dtype of the input (of the input's sign and scale in total), and the
        relative error of each layer.

    Raises:
        FactorsError: neither limit is given, or one is out of range.
    """
    if max_rank is None and energy is None:
        raise FactorsError("Say how far to truncate: max_rank, energy, or both.")
    if max_rank is not None and max_rank < 1:
        raise FactorsError(f"max_rank must be at least 1; got {max_rank}.")
    if energy is not None and not 0.0 < energy <= 1.0:
        raise FactorsError(f"energy must lie in (0, 1]; got {energy}.")
    decomposed = {name: _decompose(pair, factors.scale) for name, pair in factors.modules.items()}
    rank = max(_needed_rank(d.S, energy) for d in decomposed.values())
    rank = rank if max_rank is None else min(rank, max_rank)
    kept = {name: _kept(d, rank, factors) for name, d in decomposed.items()}
    errors = {name: _relative_error(d.S, rank) for name, d in decomposed.items()}
    return Truncation(LoraFactors(kept, factors.layers, 1.0), errors)


class _Core(NamedTuple):
    Q_A: Tensor  # [L, d_in, k_A]
    core: Tensor  # [L, k_B, k_A]
    Q_B: Tensor  # [L, d_out, k_B]


class _Decomposed(NamedTuple):
    left: Tensor  # [L, d_out, k]
    S: Tensor  # [L, k]
    right: Tensor  # [L, k, d_in]


def _orthogonal_core(pair: Pair) -> _Core:
    # float64: the composed adapter subtracts nearly equal matrices, and the error is to be exact
    Q_A, R_A = torch.linalg.qr(pair.A.double().mT)
    Q_B, R_B = torch.linalg.qr(pair.B.double().mT)
    return _Core(Q_A, R_B @ R_A.mT, Q_B)


def _decompose(pair: Pair, scale: float) -> _Decomposed:
    Q_A, core, Q_B = _orthogonal_core(pair)
    U, S, Vh = torch.linalg.svd(core, full_matrices=False)
    return _Decomposed(Q_B @ U, S * abs(scale), Vh @ Q_A.mT)


def _needed_rank(S: Tensor, energy: float | None) -> int:
    """Smallest rank at which every layer keeps `energy`; the full rank without one."""
    if energy is None:
        return S.shape[1]
    tail = _tail_energy(S)  # [L, k + 1]
    enough = tail <= (1.0 - energy) * tail[:, :1]
    return max(1, int(enough.int().argmax(dim=1).max()))


def _tail_energy(S: Tensor) -> Tensor:
    """Σ_{i ≥ k} S_i² for k = 0 … rank, shape [L, rank + 1]; summed from the smallest up."""
    return pad(S.square().flip(1).cumsum(1).flip(1), (0, 1))


def _relative_error(S: Tensor, rank: int) -> Tensor:
    tail = _tail_energy(S)
    lost, whole = tail[:, min(rank, S.shape[1])], tail[:, 0]
    return torch.where(whole > 0, lost / whole.where(whole > 0, 1.0), 0.0).sqrt()


def _kept(decomposed: _Decomposed, rank: int, factors: LoraFactors) -> Pair:
    left, S, right = decomposed
    root = S[:, :rank].sqrt().unsqueeze(2)  # [L, k, 1]
    A = root * right[:, :rank]
    B = math.copysign(1.0, factors.scale) * root * left[:, :, :rank].mT
    missing = (0, 0, 0, max(0, rank - S.shape[1]))  # a narrow module cannot reach the rank of a wide one
    return Pair(pad(A, missing).to(factors.dtype), pad(B, missing).to(factors.dtype))


def _refolded(part: LoraFactors, name: str, scale: float) -> Tensor:
    B = part.modules[name].B
    return B if part.scale == scale else B * (part.scale / scale)


def _same_a(first: LoraFactors, other: LoraFactors) -> bool:
    return all(pair.A is other.modules[name].A for name, pair in first.modules.items())


def _added(parts: Sequence[LoraFactors], name: str, scale: float) -> Tensor:
    weights = [part.scale / scale if scale else 0.0 for part in parts]
    wide = torch.promote_types(parts[0].dtype, torch.float32)
    total = sum(w * part.modules[name].B.to(wide) for w, part in zip(weights, parts, strict=True))
    return torch.as_tensor(total).to(parts[0].dtype)


def _require_alike(first: LoraFactors, other: LoraFactors) -> None:
    """Say what differs when two factors cannot be concatenated."""
    for what, ours, theirs in (
        ("layers", first.layers, other.layers),
        ("modules", sorted(first.modules), sorted(other.modules)),
        ("dtype", first.dtype, other.dtype),
        ("device", first.device, other.device),
    ):
        if ours != theirs:
            raise FactorsError(f"Factors to be concatenated differ in {what}: {ours} and {theirs}.")
    for name, (A, B) in first.modules.items():
        ours_at, theirs_at = (A.shape[2], B.shape[2]), tuple(t.shape[2] for t in other.modules[name])
        if ours_at != theirs_at:
            raise FactorsError(f"Factors of {name!r} differ in (d_in, d_out): {ours_at} and {theirs_at}.")
