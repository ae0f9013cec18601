"""LoRA factors: a frozen value, independent of any model object.

Legend: L adapted layers, r rank, d_in / d_out widths of the adapted linear module.

    y = W x + scale · Σ_r B_r (A_r · x)          A [L, r, d_in]   B [L, r, d_out]

`scale` is the only scale there is: no alpha, no division by the rank. PEFT's alpha/r is folded in
and out at the file boundary (lora/files.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from plume_memory.errors import FactorsError


class Pair(NamedTuple):
    """The two factors of one module, for all adapted layers: A [L, r, d_in], B [L, r, d_out]."""

    A: Tensor
    B: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class LoraFactors:
    """Factors for one or more linear modules in every adapted layer.

    Laws (tested): delta(concat(x, y)) == delta(x) + delta(y); delta(scaled(x, c)) == c · delta(x);
    delta(padded(x, r)) == delta(x).

    Raises:
        FactorsError: shapes, ranks, dtypes or devices of the parts differ.
    """

    modules: Mapping[str, Pair]
    """Module path inside a decoder layer ("mlp.down_proj") → its factors."""
    layers: tuple[int, ...]
    """Indices of the adapted decoder layers, ascending; their number is L."""
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not self.modules:
            raise FactorsError("LoRA factors need at least one module; got none.")
        if not self.layers or self.layers[0] < 0 or any(b <= a for a, b in pairwise(self.layers)):
            raise FactorsError(f"Adapted layers must be ascending and not empty; got {self.layers}.")
        first = next(iter(self.modules.values())).A
        for name, (A, B) in self.modules.items():
            if A.ndim != 3 or B.ndim != 3 or A.shape[:2] != B.shape[:2]:
                raise FactorsError(
                    f"Factors of {name!r} must be A [L, r, d_in] and B [L, r, d_out]; "
                    f"got {tuple(A.shape)} and {tuple(B.shape)}."
                )
            if A.shape[0] != len(self.layers) or A.shape[1] != first.shape[1]:
                raise FactorsError(
                    f"Factors of {name!r} have {A.shape[0]} layers and rank {A.shape[1]}; "
                    f"expected {len(self.layers)} layers and rank {first.shape[1]}."
                )
            if {A.dtype, B.dtype} != {first.dtype} or {A.device, B.device} != {first.device}:
                raise FactorsError(
                    f"Factors of {name!r} mix dtypes or devices: A {A.dtype} on {A.device}, B {B.dtype} on "
                    f"{B.device}, first module {first.dtype} on {first.device}."
                )
        object.__setattr__(self, "modules", MappingProxyType(dict(self.modules)))

    @property
    def rank(self) -> int:
        """r, the same for every module and layer."""
        return next(iter(self.modules.values())).A.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """The one dtype of all factors."""
        return next(iter(self.modules.values())).A.dtype

    @property
    def device(self) -> torch.device:
        """Device of all factors."""
        return next(iter(self.modules.values())).A.device

    def to(self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "LoraFactors":
        """Return the same factors on another device or in another dtype."""
        moved = {
            name: Pair(A.to(device=device, dtype=dtype), B.to(device=device, dtype=dtype))
            for name, (A, B) in self.modules.items()
        }
        return LoraFactors(moved, self.layers, self.scale)

    def delta(self, module: str, layer: int) -> Tensor:
        """Dense ΔW [d_out, d_in] of one module in one decoder layer; for tests and small models."""
        if module not in self.modules or layer not in self.layers:
            raise FactorsError(
                f"No factors for {module!r} in layer {layer}; have {sorted(self.modules)} in {self.layers}."
            )
        A, B = self.modules[module]
        i = self.layers.index(layer)
        return self.scale * (B[i].T @ A[i])
