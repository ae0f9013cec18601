"""The Doc-to-LoRA hypernetwork: features of a frozen model's layers in, LoRA factors out.

Legend: B chunks, L layers, S tokens, D hidden size, M target modules, r rank, d latent size.

Two ways to run it, the same result: `forward` takes the features of all layers at once; `encode_layer`
takes one layer at a time, so that they never all exist (hypernet/encoder.py), and `generate` turns the
collected latents into factors. Knows nothing of tokens, texts or the base model.
"""

import torch
from torch import Tensor, nn

from plume_memory.hypernet.d2l.config import D2LConfig
from plume_memory.hypernet.d2l.heads import Heads
from plume_memory.hypernet.d2l.perceiver import Perceiver
from plume_memory.lora.factors import LoraFactors, Pair


class D2LNetwork(nn.Module):
    """Perceiver and heads; see D2L: architecture.

    `network.perceiver.to(torch.bfloat16)` runs the perceiver as the reference does on CUDA; leave the
    heads in float32.
    """

    def __init__(self, config: D2LConfig) -> None:
        super().__init__()
        self.config = config
        self.perceiver = Perceiver(config)
        self.heads = Heads(config)
        L, r = len(config.layers), config.rank
        shapes = config.modules if config.use_bias else ()
        self.bias_A = nn.ParameterDict({s.name: nn.Parameter(torch.zeros(L, r, s.d_in)) for s in shapes})
        self.bias_B = nn.ParameterDict({s.name: nn.Parameter(torch.zeros(L, r, s.d_out)) for s in shapes})

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.heads.head.device

    def forward(self, features: Tensor, mask: Tensor | None = None) -> dict[str, Pair]:
        """Turn the features of all layers into factors, the layers folded into the batch.

        Args:
            features: [B, L, S, D], any floating dtype.
            mask: [B, S], non-zero for tokens; None when nothing is padding.

        Returns:
            Module path → A [B, L, r, d_in], B [B, L, r, d_out], float32, one chunk per row.
        """
        chunks, layers = features.shape[:2]
        folded = None if mask is None else mask.repeat_interleave(layers, dim=0)
        latents = self.encode_layer(features.flatten(0, 1), folded)  # [B·L, M, r, d]
        return self.generate(latents.reshape(chunks, layers, *latents.shape[1:]))

    def encode_layer(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Turn the features [B, S, D] of one layer into latents [B, M, r, d] (the perceiver's dtype)."""
        seen = None if mask is None else mask.bool()
        latents: Tensor = self.perceiver(features, seen)
        return latents.reshape(features.shape[0], len(self.config.modules), self.config.rank, -1)

    def generate(self, latents: Tensor) -> dict[str, Pair]:
        """Turn the latents [B, L, M, r, d] of all layers into factors, as `forward` returns them."""
        pairs: dict[str, Pair] = self.heads(latents)
        return pairs

    def bias(self) -> LoraFactors | None:
        """Return the learned bias block in float32, which each context adapter carries once; None without."""
        if not self.config.use_bias:
            return None
        pairs = {
            s.path: Pair(self.bias_A[s.name].detach().float(), self.bias_B[s.name].detach().float())
            for s in self.config.modules
        }
        return LoraFactors(pairs, self.config.layers, self.config.lora_alpha)
