"""From latents to factors: residual blocks, L2 normalisation, one linear head per layer, scalers.

Legend: B chunks, L layers, M target modules, r rank, d latent size, p inner width, k = max(d_in + d_out).

Runs in float32 whatever the perceiver ran in: the head's outputs are the factors themselves.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plume_memory.hypernet.d2l.config import D2LConfig
from plume_memory.lora.factors import Pair


class PreHeadBlock(nn.Module):
    """x + LN(W2 SiLU(W1 LN(x))), with W1, W2 and their biases per layer or shared by all layers.

    Weights are [L, d_in, d_out], or [1, d_in, d_out] when shared.
    """

    def __init__(self, config: D2LConfig) -> None:
        super().__init__()
        d, p = config.latent_size, config.pre_head_size
        rows = len(config.layers) if config.per_layer_pre_head else 1
        self.norm_in = nn.LayerNorm(d)
        self.weight_in = nn.Parameter(torch.randn(rows, d, p) * d**-0.5)
        self.bias_in = nn.Parameter(torch.zeros(rows, p))
        self.weight_out = nn.Parameter(torch.randn(rows, p, d) * p**-0.5)
        self.bias_out = nn.Parameter(torch.zeros(rows, d))
        self.norm_out = nn.LayerNorm(d)

    def forward(self, x: Tensor) -> Tensor:
        """[B, L, M, r, d] → the same shape."""
        inner = F.silu(_per_layer_linear(self.norm_in(x), self.weight_in, self.bias_in))
        out: Tensor = x + self.norm_out(_per_layer_linear(inner, self.weight_out, self.bias_out))
        return out


class Heads(nn.Module):
    """Latents of all layers → A [B, L, r, d_in] and B [B, L, r, d_out] of every module, float32."""

    def __init__(self, config: D2LConfig) -> None:
        super().__init__()
        self.shapes = config.modules
        L, r = len(config.layers), config.rank
        width = max(shape.d_in + shape.d_out for shape in config.modules)
        self.pre_head = nn.ModuleList(PreHeadBlock(config) for _ in range(config.pre_head_blocks))
        d = config.latent_size
        self.head = nn.Parameter(torch.randn(L, len(config.modules), d, width) * d**-0.5)
        names = [shape.name for shape in config.modules]
        self.scaler_A = nn.ParameterDict({name: nn.Parameter(torch.ones(1, L, r, 1)) for name in names})
        # zero, as the reference starts: an untrained network changes nothing
        self.scaler_B = nn.ParameterDict({name: nn.Parameter(torch.zeros(1, L, r, 1)) for name in names})

    def forward(self, latents: Tensor) -> dict[str, Pair]:
        """Latents [B, L, M, r, d] → module path → Pair."""
        x = latents.to(self.head.dtype)
        for block in self.pre_head:
            x = block(x)
        x = x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        # einsum, not matmul: matmul would copy the head once per chunk to broadcast it
        flat = torch.einsum("blmrd,lmdk->blmrk", x, self.head)
        pairs: dict[str, Pair] = {}
        for m, shape in enumerate(self.shapes):
            A, B, _ = flat[:, :, m].split_with_sizes(
                [shape.d_in, shape.d_out, flat.shape[-1] - shape.d_in - shape.d_out], dim=-1
            )
            A, B = A * self.scaler_A[shape.name], B * self.scaler_B[shape.name]
            pairs[shape.path] = Pair(A.float(), B.float())
        return pairs


def _per_layer_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[B, L, M, r, i] by [L | 1, i, o] + [L | 1, o] → [B, L, M, r, o]."""
    if weight.shape[0] == 1:
        return x @ weight[0] + bias[0]
    return torch.einsum("blmri,lio->blmro", x, weight) + bias[:, None, None, :]
