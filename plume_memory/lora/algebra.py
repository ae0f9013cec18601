"""Algebra of LoRA factors: exact, without ever forming ΔW.

Legend: L adapted layers, r rank, R summed rank, d_in / d_out widths.

    ΔW_g = α ΔW_full + β (ΔW_full − ΔW_old)
    A_g = [A_full; A_old]        B_g = [(α+β)·B_full, −β·B_old]        B_g A_g is exactly ΔW_g
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plume_memory.errors import FactorsError
from plume_memory.lora.factors import LoraFactors, Pair


def weighted_sum(terms: Sequence[tuple[float, LoraFactors]]) -> LoraFactors:
    """Return factors whose delta is Σ weight · delta(factors), by concatenation along the rank.

    Weights and scales are folded into B; the result's scale is 1. One term keeps its rank.

    Raises:
        FactorsError: no terms, or terms for different modules, layers, widths, dtypes or devices.
    """
    if not terms:
        raise FactorsError("A weighted sum needs at least one adapter; got none.")
    first = terms[0][1]
    for _, other in terms[1:]:
        _check_alike(first, other)
    modules = {
        name: Pair(
            torch.cat([f.modules[name].A for _, f in terms], dim=1),
            torch.cat([(weight * f.scale) * f.modules[name].B for weight, f in terms], dim=1),
        )
        for name in first.modules
    }
    return LoraFactors(modules, first.layers)


def concat(parts: Sequence[LoraFactors]) -> LoraFactors:
    """Return factors whose delta is the sum of the parts' deltas. See `weighted_sum`."""
    return weighted_sum([(1.0, part) for part in parts])


def scaled(factors: LoraFactors, weight: float) -> LoraFactors:
    """Return factors with `weight` times the delta; the tensors are shared, only the scale changes."""
    return LoraFactors(factors.modules, factors.layers, factors.scale * weight)


def padded(factors: LoraFactors, rank: int) -> LoraFactors:
    """Return the same delta at a higher rank, with zero rows.

    Raises:
        FactorsError: `rank` is below the factors' own.
    """
    missing = rank - factors.rank
    if missing < 0:
        raise FactorsError(f"Factors of rank {factors.rank} cannot be padded to rank {rank}; truncate them instead.")
    pad = (0, 0, 0, missing)
    modules = {
        name: Pair(torch.nn.functional.pad(p.A, pad), torch.nn.functional.pad(p.B, pad))
        for name, p in factors.modules.items()
    }
    return LoraFactors(modules, factors.layers, factors.scale)


def compose_global(
    full: LoraFactors,
    old: LoraFactors | None,
    *,
    alpha: float,
    beta: float,
    bias: LoraFactors | None = None,
) -> LoraFactors:
    """Return ΔW_g of one update, exact.

    Args:
        full: H(C_full) without the bias block.
        old: H(C_old) without the bias block; None for the first version, then ΔW_g = α ΔW_full.
        alpha: weight of the full history.
        beta: weight of what the update changed.
        bias: the hypernetwork's bias block. It cancels in full − old, so it enters once, at α:
            rank r_full + r_old + r_bias, the same matrix as with the bias in both adapters.
    """
    if old is None:
        terms = [(alpha, full)]
    else:
        terms = [(alpha + beta, full), (-beta, old)]
    if bias is not None:
        terms.append((alpha, bias))
    return weighted_sum(terms)


def compose_windows(
    full: Mapping[str, LoraFactors],
    old: Mapping[str, LoraFactors],
    *,
    alpha: float,
    beta: float,
    bias: LoraFactors | None = None,
) -> LoraFactors:
    """Return ΔW_g of histories cut into windows, each window stored once.

    Args:
        full: windows of the full history, keyed by what they were made from.
        old: windows of the old one; empty for the first version. A key in both is the same window.
        alpha: weight of a window that both hold.
        beta: added for a window of the full history alone, subtracted for one of the old alone.
        bias: enters once, at α.
    """
    if not old:
        beta = 0.0
    windows = {**old, **full}
    weights = {key: (alpha + beta) * (key in full) - beta * (key in old) for key in windows}
    terms = [(weight, windows[key]) for key, weight in weights.items() if weight != 0.0]
    if bias is not None:
        terms.append((alpha, bias))
    return weighted_sum(terms)


@dataclass(frozen=True, slots=True, eq=False)
class Truncation:
    """A truncated adapter and what the truncation lost."""

    factors: LoraFactors
    relative_error: Mapping[str, tuple[float, ...]]
    """Module → per layer ‖ΔW − ΔW_truncated‖_F / ‖ΔW‖_F; 0 where ΔW is 0."""


def truncated(factors: LoraFactors, *, max_rank: int | None = None, energy: float | None = None) -> Truncation:
    """Return the best approximation of lower rank (Eckart-Young) and its error, per layer.

    QR of both factors, SVD of the small core: O((d_in + d_out) R²), ΔW is never formed.

    Args:
        factors: of rank R.
        max_rank: keep at most this rank.
        energy: keep the fewest directions that hold this share of ‖ΔW‖²_F in every layer.

    Raises:
        FactorsError: neither or an impossible bound was given.
    """
    if max_rank is None and energy is None:
        raise FactorsError("Give max_rank, energy or both; got neither.")
    if (max_rank is not None and max_rank < 1) or (energy is not None and not 0 < energy <= 1):
        raise FactorsError(f"max_rank must be at least 1 and energy in (0, 1]; got {max_rank} and {energy}.")
    cores = {name: _core(pair) for name, pair in factors.modules.items()}
    rank = min(max_rank or factors.rank, max(S.shape[1] for _, S, _ in cores.values()))
    if energy is not None:
        rank = min(rank, max(_rank_for(S, energy) for _, S, _ in cores.values()))
    modules, errors = {}, {}
    for name, (A_rows, S, B_rows) in cores.items():
        root = S[:, :rank, None].sqrt()
        dtype = factors.dtype
        pad = (0, 0, 0, rank - root.shape[1])  # a module narrower than the rank has no more directions
        modules[name] = Pair(
            torch.nn.functional.pad(root * A_rows[:, :rank], pad).to(dtype),
            torch.nn.functional.pad(root * B_rows[:, :rank], pad).to(dtype),
        )
        total = S.square().sum(-1)
        lost = S[:, rank:].square().sum(-1)
        errors[name] = tuple((lost / total.clamp_min(torch.finfo(S.dtype).tiny)).sqrt().tolist())
    return Truncation(LoraFactors(modules, factors.layers, factors.scale), errors)


def frobenius_norm(factors: LoraFactors) -> dict[str, Tensor]:
    """Return ‖ΔW‖_F per module: float64 [L]; from the Gram matrices, ΔW is never formed."""
    norms = {}
    for name, (A, B) in factors.modules.items():
        gram_a = A.double() @ A.double().transpose(1, 2)
        gram_b = B.double() @ B.double().transpose(1, 2)
        norms[name] = abs(factors.scale) * (gram_a * gram_b).sum((1, 2)).clamp_min(0).sqrt()
    return norms


def _core(pair: Pair) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of A [L, k, d_in], singular values [L, k] and rows of B [L, k, d_out], float64; scale left out."""
    q_a, r_a = torch.linalg.qr(pair.A.double().transpose(1, 2))  # [L, d_in, k], [L, k, R]
    q_b, r_b = torch.linalg.qr(pair.B.double().transpose(1, 2))
    U, S, Vh = torch.linalg.svd(r_b @ r_a.transpose(1, 2), full_matrices=False)
    return Vh @ q_a.transpose(1, 2), S, (q_b @ U).transpose(1, 2)


def _rank_for(S: Tensor, energy: float) -> int:
    """Fewest directions that hold `energy` of ‖ΔW‖² in every layer; at least 1."""
    squares = S.square()
    share = squares.cumsum(-1) / squares.sum(-1, keepdim=True).clamp_min(torch.finfo(S.dtype).tiny)
    reached = (share >= energy - 1e-12).int().argmax(-1) + 1
    return int(reached.max())


def _check_alike(first: LoraFactors, other: LoraFactors) -> None:
    if set(first.modules) != set(other.modules) or first.layers != other.layers:
        raise FactorsError(
            f"Adapters for different places cannot be added: {sorted(first.modules)} in layers {first.layers} "
            f"and {sorted(other.modules)} in layers {other.layers}."
        )
    for name, (A, B) in first.modules.items():
        widths, others = (A.shape[2], B.shape[2]), (other.modules[name].A.shape[2], other.modules[name].B.shape[2])
        if widths != others:
            raise FactorsError(f"Adapters of different width cannot be added: {name!r} is {widths} and {others}.")
    if first.dtype != other.dtype or first.device != other.device:
        raise FactorsError(
            f"Adapters on {first.device} in {first.dtype} and on {other.device} in {other.dtype} cannot be added; "
            "move them with .to() first."
        )
