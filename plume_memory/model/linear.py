"""A linear layer whose weights lie as the processor multiplies them fastest.

Legend: o outputs, i inputs.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

WeightFormat = Literal["full", "int8"]
"""How linear layers keep their weights: in the model's dtype, or as eight-bit numbers with a scale for each output."""

PACKED_FOR = 2
"""Rows for which oneDNN lays the weights out: the two of a fused step. What is read at once (hundreds of rows) takes
about as long as without (docs/decisions, float32 weights packed)."""

INT8_ROWS = 8
"""Most rows that are multiplied by eight-bit weights as they are: beyond, widening them first costs less."""


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """y = W x + b."""

    weight: Tensor
    """[o, i]; int8 with `scale`; `is_packed`: in oneDNN's own layout."""
    bias: Tensor | None
    outputs: int
    inputs: int
    is_packed: bool = False
    scale: Tensor | None = None
    """[o] bfloat16: what a row of eight-bit weights is multiplied by."""

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None, weight_format: WeightFormat = "full") -> "Linear":
        """Take weights [o, i]; packed for oneDNN in the dtypes of `_NEEDED`, on a CPU that has what they need."""
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        outputs, inputs = weight.shape
        if weight_format == "int8":
            rounded, scale = _rounded(weight)
            return cls(rounded, bias, outputs, inputs, scale=scale)
        if weight.device.type == "cpu" and _can_pack(weight.dtype):
            packed = torch.ops.mkldnn._reorder_linear_weight(weight.clone(), PACKED_FOR)
            return cls(packed, bias, outputs, inputs, is_packed=True)
        return cls(weight, bias, outputs, inputs)

    def __call__(self, x: Tensor) -> Tensor:
        """[..., i] → [..., o]."""
        if self.scale is None and not self.is_packed:
            return F.linear(x, self.weight, self.bias)
        flat = x.reshape(-1, x.shape[-1])
        if self.scale is not None:
            y: Tensor = self._by_int8(flat, self.scale)
        else:
            y = torch.ops.mkldnn._linear_pointwise(flat, self.weight, self.bias, "none", [], "")
        return y.view(*x.shape[:-1], self.outputs)

    def _by_int8(self, x: Tensor, scale: Tensor) -> Tensor:
        if len(x) > INT8_ROWS:
            return F.linear(x, self.weight.to(x.dtype) * scale.to(x.dtype)[:, None], self.bias)
        # in bfloat16: for float32 PyTorch has no fast kernel
        y: Tensor = torch.ops.aten._weight_int8pack_mm(x.bfloat16(), self.weight, scale).to(x.dtype)
        return y if self.bias is None else y + self.bias


def _rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(int8 [o, i], scale bfloat16 [o]) whose product is nearest to the weights, the largest of a row kept."""
    wide = weight.float()
    scale = (wide.abs().amax(dim=1) / 127).clamp_min(torch.finfo(torch.float32).tiny).bfloat16()
    return (wide / scale.float()[:, None]).round().clamp(-127, 127).to(torch.int8).contiguous(), scale


_NEEDED = {torch.float32: "avx2", torch.bfloat16: "avx512_bf16"}
"""Dtypes that are packed, and what the processor needs for each."""


def _can_pack(dtype: torch.dtype) -> bool:
    # Operators without a stability promise: where a PyTorch lacks them, weights stay as they are.
    return (
        dtype in _NEEDED
        and torch.cpu.get_capabilities().get(_NEEDED[dtype], False)
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
