"""Compiled states: a text's key/value states, encoded once per model, that stand in front of a row's prompt.

Legend: L layers, H key/value heads, P tokens, D head width.

Beyond the paper (`evidence="states"` and "both"). Exact: with the states attached, the logits equal those of the
same ids standing in front of the same query. Works with any model, also one without a hypernetwork.
"""

from dataclasses import dataclass

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from plume_memory.errors import FactorsError

_FORMAT = "plume-kv-1"


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """Key/value states of a text at the beginning of a prompt; keys carry rotary positions 0 … P−1."""

    keys: Tensor
    """[L, H, P, D] in the model's dtype."""
    values: Tensor
    """[L, H, P, D] in the model's dtype."""

    @property
    def tokens(self) -> int:
        """P."""
        return self.keys.shape[2]

    def to(self, device: torch.device) -> "States":
        """Return the same states on another device."""
        return States(self.keys.to(device), self.values.to(device))

    def to_bytes(self) -> bytes:
        """Serialise as safetensors."""
        tensors = {"keys": self.keys.cpu().contiguous(), "values": self.values.cpu().contiguous()}
        return bytes(save(tensors, metadata={"format": _FORMAT}))

    @classmethod
    def from_bytes(cls, content: bytes) -> "States":
        """Read what `to_bytes` wrote.

        Raises:
            FactorsError: the bytes are not compiled states.
        """
        try:
            tensors = load(content)
        except (SafetensorError, KeyError, RuntimeError) as err:  # the latter two: a dtype that torch has not
            raise FactorsError(f"Not compiled states: {err}") from err
        if set(tensors) != {"keys", "values"}:
            raise FactorsError(f"Not compiled states: it holds {sorted(tensors)}, expected keys and values.")
        keys, values = tensors["keys"], tensors["values"]
        if keys.ndim != 4 or keys.shape != values.shape or keys.dtype != values.dtype:
            raise FactorsError(
                f"Not compiled states: keys {tuple(keys.shape)} of {keys.dtype} and values {tuple(values.shape)} of "
                f"{values.dtype}, expected both [L, H, P, D] of one dtype."
            )
        return cls(keys, values)
