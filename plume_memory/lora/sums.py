"""ΔW_full of a history as one running sum, for parameterizers that give every text the same A. No model, no store.

Legend: L adapted layers, r rank, d_out widths. Factors of one A add up in B, so a history is one B whatever its length:

    total = Σ_windows scale · B        last = Σ_windows of the newest text        ΔW_old = total − last

Sums are kept in the next wider dtype than the factors': of bfloat16 in float32, of float32 in float64. Thousands of
texts added stay within 1e-6 of a sum made anew, and within 1e-5 where all but a few are taken away again (tested).

Format 1 is one safetensors file: tensors `{module path}.total` and `{module path}.last` [L, r, d_out], and one metadata
entry `plume_sum` of JSON. It is as whole as the artifact that holds it, so it carries no hash of its own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor

from plume_memory.errors import FactorsError
from plume_memory.lora.factors import LoraFactors, Pair

FORMAT = 1
_WIDER = {torch.bfloat16: torch.float32, torch.float16: torch.float32}


class _Header(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    layers: tuple[int, ...]
    version: int
    windows: int
    last_windows: int


@dataclass(frozen=True, slots=True, eq=False)
class RunningSum:
    """The summed factors of one history."""

    total: Mapping[str, Tensor]
    """Module path → Σ scale · B over all windows, [L, r, d_out], wider than the factors'."""
    last: Mapping[str, Tensor]
    """The same over the windows of the newest text alone; zeros where it has none."""
    layers: tuple[int, ...]
    """Indices of the adapted decoder layers."""
    version: int
    """Of the memory that the history is of."""
    windows: int
    """Windows in `total`."""
    last_windows: int
    """Windows in `last`."""
    is_kept: bool = False
    """Whether it is kept beyond this process; never written."""

    @property
    def nbytes(self) -> int:
        """Size of the tensors, in bytes."""
        return sum(tensor.nbytes for part in (self.total, self.last) for tensor in part.values())

    def composed(
        self, A: Mapping[str, Tensor], *, alpha: float, beta: float, mean: bool, dtype: torch.dtype
    ) -> LoraFactors:
        """ΔW_g = α total + β last without the bias block: β (ΔW_full − ΔW_old) is β times what the newest text brought.

        Args:
            A: module path → the A [L, r, d_in] of all texts.
            alpha: weight of ΔW_full.
            beta: weight of ΔW_full − ΔW_old; a history whose older texts have no window has no ΔW_old, and takes none.
            mean: divide by the number of windows.
            dtype: of the factors; rounded once.
        """
        share = 1 / self.windows if mean else 1.0
        beta = beta if self.windows > self.last_windows else 0.0
        modules = {
            name: Pair(A[name], (share * (alpha * total + beta * self.last[name])).to(dtype))
            for name, total in self.total.items()
        }
        return LoraFactors(modules, self.layers)


class Adder:
    """Adds factors up, each at a whole number of times; what it was begun with is not changed."""

    def __init__(self, total: Mapping[str, Tensor] | None = None) -> None:
        self._total = {name: tensor.clone() for name, tensor in (total or {}).items()}
        self._layers: tuple[int, ...] = ()

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of what was added; empty if nothing was."""
        return self._layers

    def add(self, factors: LoraFactors, times: int) -> None:
        """Add `times` · Δ(factors); a negative number takes it away."""
        self._layers = factors.layers
        for name, (_, B) in factors.modules.items():
            wide = B.to(_WIDER.get(B.dtype, torch.float64))
            if name not in self._total:
                self._total[name] = torch.zeros_like(wide)
            self._total[name].add_(wide, alpha=times * factors.scale)

    def subtract(self, part: Mapping[str, Tensor]) -> None:
        """Take a sum away."""
        for name, tensor in part.items():
            self._total[name].sub_(tensor)

    def total(self) -> dict[str, Tensor]:
        """Return the sum; it is added to no more."""
        return self._total


def relative_gap(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """‖one − other‖ / ‖other‖ over all modules, in float64."""
    gap = sum(float((one[name].double() - tensor.double()).square().sum()) for name, tensor in other.items())
    whole = sum(float(tensor.double().square().sum()) for tensor in other.values())
    return float((gap / max(whole, 1e-30)) ** 0.5)


def to_bytes(made: RunningSum, *, narrow: torch.dtype) -> bytes:
    """Serialise a sum; equal sums give equal bytes.

    Args:
        made: the sum.
        narrow: the factors' dtype: what the newest text brought is written in it where that is exact, as of one window.
    """
    tensors = {f"{name}.total": tensor.contiguous() for name, tensor in made.total.items()}
    for name, tensor in made.last.items():
        small = tensor.to(narrow)
        tensors[f"{name}.last"] = (small if torch.equal(small.to(tensor.dtype), tensor) else tensor).contiguous()
    header = _Header(
        format=FORMAT,
        layers=made.layers,
        version=made.version,
        windows=made.windows,
        last_windows=made.last_windows,
    )
    content: bytes = safetensors.save(tensors, {"plume_sum": header.model_dump_json()})
    return content


def from_bytes(content: bytes) -> RunningSum:
    """Read what `to_bytes` wrote, onto the CPU.

    Raises:
        FactorsError: the bytes are no running sum, or have a newer format.
    """
    size = int.from_bytes(content[:8], "little")
    try:
        header = _Header.model_validate_json(json.loads(content[8 : 8 + size])["__metadata__"]["plume_sum"])
        tensors: dict[str, Tensor] = safetensors.load(content)
        if header.format != FORMAT:
            raise FactorsError(f"The running sum has format {header.format}, this package reads {FORMAT}; upgrade it.")
        names = sorted(key.removesuffix(".total") for key in tensors if key.endswith(".total"))
        total = {name: tensors[f"{name}.total"] for name in names}
        last = {name: tensors[f"{name}.last"].to(total[name].dtype) for name in names}
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError, RuntimeError) as err:
        if isinstance(err, FactorsError):
            raise
        what = "bad entries" if isinstance(err, ValidationError) else f"{type(err).__name__}: {err}"
        raise FactorsError(f"The bytes ({len(content)}) are no running sum ({what}); delete the artifact.") from err
    return RunningSum(total, last, header.layers, header.version, header.windows, header.last_windows, is_kept=True)
