"""A linear layer whose weights lie as the processor multiplies them fastest.

Legend: o outputs, i inputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

PACKED_FOR = 2
"""Rows for which oneDNN lays the weights out: the two of a fused step. What is read at once (hundreds of rows) is as
fast as without (docs/decisions, step)."""


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """y = W x + b."""

    weight: Tensor
    """[o, i], or the same in oneDNN's own layout."""
    bias: Tensor | None
    outputs: int
    inputs: int
    is_packed: bool

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None) -> "Linear":
        """Take weights; packed in bfloat16 on a processor that multiplies it and a PyTorch that packs."""
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        if weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and _can_pack():
            packed = torch.ops.mkldnn._reorder_linear_weight(weight.clone(), PACKED_FOR)
            return cls(packed, bias, weight.shape[0], weight.shape[1], True)
        return cls(weight, bias, weight.shape[0], weight.shape[1], False)

    def __call__(self, x: Tensor) -> Tensor:
        """[..., i] → [..., o]."""
        if not self.is_packed:
            return F.linear(x, self.weight, self.bias)
        flat = x.reshape(-1, x.shape[-1])
        y: Tensor = torch.ops.mkldnn._linear_pointwise(flat, self.weight, self.bias, "none", [], "")
        return y.view(*x.shape[:-1], self.outputs)


def _can_pack() -> bool:
    # Operators without a stability promise: where a PyTorch lacks them, weights stay as they are.
    return (
        torch.cpu.get_capabilities().get("avx512_bf16", False)
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
