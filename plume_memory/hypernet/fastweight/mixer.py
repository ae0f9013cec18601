"""A short bidirectional Transformer over a text's states.

The base model reads from left to right; a value that stands before its subject can only be filed
under it by something that sees both. Legend: B texts, T tokens, X width, H heads.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MixerBlock(nn.Module):
    """Pre-norm attention over the whole text with rotary positions, then an MLP."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.RMSNorm(width)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        # start as the identity: the network first learns what the base model's own states allow
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Mix [B, T, X] under a mask [B, T]; the same shape."""
        B, T, X = x.shape
        qkv = self.qkv(self.attention_norm(x.float())).view(B, T, 3, self.heads, X // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = _rotated(q), _rotated(k)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = x + self.out(seen.transpose(1, 2).reshape(B, T, X))
        mlp: Tensor = self.down(F.silu(self.up(self.mlp_norm(x.float()))))
        return x + mlp


def _rotated(x: Tensor) -> Tensor:
    """Rotary position embedding over [B, H, T, d], base 1,000: texts are short."""
    half = x.shape[-1] // 2
    frequencies = 1000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
