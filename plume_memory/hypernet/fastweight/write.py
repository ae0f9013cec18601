"""The three ways a text is stored under keys.

Legend: N memories, T tokens, r rank, V value width.

With keys K [T, r] of unit length, values V [T, V] and strengths g [T] in (0, 1):

    linear  M = Σ_t g_t k_t v_tᵀ · s(Σ g)                      adds up; kept in size by s
    delta   M_t = M_{t−1} + g_t k_t (v_t − M_{t−1}ᵀ k_t)ᵀ       replaces what the key held (DeltaNet, arXiv 2406.06484)
    ridge   M = argmin_M Σ_t g_t ‖Mᵀ k_t − v_t‖² + λ ‖M‖²       returns every value at its key

Padding has strength 0 and leaves no trace in any of them.
"""

import torch
from torch import Tensor

from plume_memory.hypernet.fastweight.config import WriteRule

_LINEAR_TOKENS = 30.0


def write(rule: WriteRule, keys: Tensor, values: Tensor, strength: Tensor, ridge: Tensor) -> Tensor:
    """Store values under keys.

    Args:
        rule: see the module.
        keys: [N, T, r] float32, of unit length.
        values: [N, T, V] float32.
        strength: [N, T] float32 in [0, 1].
        ridge: [N] float32, λ > 0; read by `ridge` alone.

    Returns:
        M [N, r, V] float32.
    """
    weighted = strength.unsqueeze(-1) * values
    if rule == "linear":
        shrink = _LINEAR_TOKENS / (_LINEAR_TOKENS + strength.sum(-1))
        return shrink[:, None, None] * (keys.mT @ weighted)
    if rule == "delta":
        # unrolled over one block: U solves (I + tril(g K Kᵀ, −1)) U = g V, and M = Kᵀ U
        overlap = torch.tril(strength.unsqueeze(-1) * (keys @ keys.mT), diagonal=-1)
        stored: Tensor = torch.linalg.solve_triangular(overlap, weighted, upper=False, unitriangular=True)
        return torch.bmm(keys.mT, stored)
    gram = keys.mT @ (strength.unsqueeze(-1) * keys)
    eye = torch.eye(keys.shape[-1], device=keys.device, dtype=keys.dtype)
    memory: Tensor = torch.linalg.solve(gram + ridge[:, None, None] * eye, keys.mT @ weighted)
    return memory
