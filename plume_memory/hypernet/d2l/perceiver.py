"""The perceiver of Doc-to-LoRA: one layer's features to r latents per target module.

Legend: N chunks (× layers, when they are folded into the batch), S tokens, D hidden size, d latent size,
q queries, H attention heads, K key/value heads, h head size, M target modules, r rank.

    features [N, S, D] → modality projection [N, S, d] → encoder [N, q, d] → decoder [N, M·r, d]

Runs in the dtype of its weights (the reference: bfloat16 on CUDA). Knows nothing of layers of the base
model: its weights are shared by all of them.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plume_memory.hypernet.d2l.config import D2LConfig, LayerKind

_EPS = 1e-6


class RMSNorm(nn.Module):
    """x / rms(x) in float32, cast to the input's dtype, then times the weight."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + _EPS)
        return self.weight * normed.to(x.dtype)


class GatedMLP(nn.Module):
    """down(SiLU(gate x) · up x), without biases."""

    def __init__(self, d_in: int, d_hidden: int, d_out: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(d_in, d_hidden, bias=False)
        self.up_proj = nn.Linear(d_in, d_hidden, bias=False)
        self.down_proj = nn.Linear(d_hidden, d_out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[…, d_in] → […, d_out]."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Attention(nn.Module):
    """Grouped-query attention, not causal, scale 1/√h, without biases or positions."""

    def __init__(self, config: D2LConfig) -> None:
        super().__init__()
        self.head_size = config.head_size
        inner, grouped = config.heads * config.head_size, config.kv_heads * config.head_size
        self.q_proj = nn.Linear(config.latent_size, inner, bias=False)
        self.k_proj = nn.Linear(config.latent_size, grouped, bias=False)
        self.v_proj = nn.Linear(config.latent_size, grouped, bias=False)
        self.o_proj = nn.Linear(inner, config.latent_size, bias=False)

    def forward(self, latents: Tensor, context: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from latents [N, q, d] to context [N, S, d]; mask [N, S] is True for tokens to be seen."""
        Q = self._split(self.q_proj(latents))  # [N, H, q, h]
        keys = self._split(self.k_proj(context))  # [N, K, S, h]
        values = self._split(self.v_proj(context))
        seen = None if mask is None else mask[:, None, None, :]  # [N, 1, 1, S]
        mixed = F.scaled_dot_product_attention(Q, keys, values, attn_mask=seen, enable_gqa=True)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], -1, self.head_size).transpose(1, 2)


class ResamplerLayer(nn.Module):
    """Attention and gated MLP, each between two norms, each with a residual.

    x + norm(attention(norm(x), norm(context))), then x + norm(mlp(norm(x))). A "self" layer attends to
    the latents themselves and has no context norm.
    """

    def __init__(self, kind: LayerKind, config: D2LConfig) -> None:
        super().__init__()
        d = config.latent_size
        self.input_latents_layernorm = RMSNorm(d)
        self.input_context_layernorm = RMSNorm(d) if kind == "cross" else None
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(d)
        self.pre_ff_layernorm = RMSNorm(d)
        self.post_ff_layernorm = RMSNorm(d)
        self.mlp = GatedMLP(d, config.mlp_size, d)

    def forward(self, latents: Tensor, context: Tensor, mask: Tensor | None) -> Tensor:
        """[N, q, d] → [N, q, d]."""
        normed = self.input_latents_layernorm(latents)
        if self.input_context_layernorm is None:
            attended = self.self_attn(normed, normed, None)
        else:
            attended = self.self_attn(normed, self.input_context_layernorm(context), mask)
        latents = latents + self.post_attention_layernorm(attended)
        out: Tensor = latents + self.post_ff_layernorm(self.mlp(self.pre_ff_layernorm(latents)))
        return out


class Resampler(nn.Module):
    """Learned queries that read a context through a stack of layers; closing norm.

    `order` says which layer runs when: layers that share their weights are stored once.
    """

    def __init__(self, queries: int, kinds: Sequence[LayerKind], order: Sequence[int], config: D2LConfig) -> None:
        super().__init__()
        self.order = tuple(order)
        self.latents_q = nn.Parameter(torch.randn(queries, config.latent_size))
        self.layers = nn.ModuleList(ResamplerLayer(kind, config) for kind in kinds)
        self.layernorm = RMSNorm(config.latent_size)

    def forward(self, context: Tensor, mask: Tensor | None) -> Tensor:
        """Context [N, S, d], mask [N, S] or None → [N, q, d]."""
        latents = self.latents_q.expand(context.shape[0], -1, -1)
        for index in self.order:
            latents = self.layers[index](latents, context, mask)
        out: Tensor = self.layernorm(latents)
        return out


class Perceiver(nn.Module):
    """Modality projection, encoder resampler, decoder resampler."""

    def __init__(self, config: D2LConfig) -> None:
        super().__init__()
        self.modality_projection = GatedMLP(config.hidden_size, config.projection_size, config.latent_size)
        self.encoder = Resampler(config.latent_queries, config.encoder_layers, config.encoder_order, config)
        outputs = len(config.modules) * config.rank
        self.decoder = Resampler(outputs, config.decoder_layers, config.decoder_order, config)

    @property
    def dtype(self) -> torch.dtype:
        """The weights' dtype, in which everything here runs."""
        return self.encoder.latents_q.dtype

    def forward(self, features: Tensor, mask: Tensor | None) -> Tensor:
        """Features [N, S, D] of any dtype, mask [N, S] bool or None (all tokens) → [N, M·r, d]."""
        projected = self.modality_projection(features.to(self.dtype))
        out: Tensor = self.decoder(self.encoder(projected, mask), None)
        return out
