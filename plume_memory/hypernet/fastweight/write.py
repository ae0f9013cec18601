"""How a text is stored under keys: the memory that returns every value at its key.

Legend: N memories, T tokens, r rank, V value width.

With keys K [T, r] of unit length, values V [T, V] and strengths g [T] in (0, 1):

    M = argmin_M Σ_t g_t ‖Mᵀ k_t − v_t‖² + λ ‖M‖² = (Kᵀ G K + λ)⁻¹ Kᵀ G V,   G = diag(g)

A plain sum Σ g k vᵀ grows with the text and returns a blend of all values filed under like keys; the
solution does neither. In the search that chose it (bench/results/architecture_search.md) it learnt
faster than the sum and than the delta rule. Padding has strength 0 and leaves no trace.
"""

import torch
from torch import Tensor


def write(keys: Tensor, values: Tensor, strength: Tensor, ridge: Tensor) -> tuple[Tensor | None, Tensor]:
    """Store values under keys; returns (W, X), of which the memory is M = W X; without W it is X.

    Of the two forms of the solution the one with the smaller system is solved: that of r unknowns
    above, or, of a text with fewer tokens than r, that of T unknowns: W = Kᵀ and X = (G K Kᵀ + λ)⁻¹ G V, the same M.

    Args:
        keys: [N, T, r] float32, of unit length.
        values: [N, T, V] float32.
        strength: [N, T] float32 in [0, 1].
        ridge: [N] float32, λ > 0.

    Returns:
        W [N, r, T] or None, and X [N, T, V] or [N, r, V]; float32.
    """
    weighted = strength.unsqueeze(-1)
    tokens, rank = keys.shape[1:]
    eye = torch.eye(min(tokens, rank), device=keys.device, dtype=keys.dtype)
    if tokens < rank:
        gram = (weighted * keys) @ keys.mT
        return keys.mT, torch.linalg.solve(gram + ridge[:, None, None] * eye, weighted * values)
    gram = keys.mT @ (weighted * keys)
    solved: Tensor = torch.linalg.solve(gram + ridge[:, None, None] * eye, keys.mT @ (weighted * values))
    return None, solved
