"""Keys and values that a model keeps of what it has read, and who sees which of them.

A token stands in the column of its position, so a sliding window measured by column is measured by position.

Legend: L layers, R rows, T tokens, K key/value heads, W columns, D width of a head, E hidden width, F MLP width.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from plume_memory.model.adapters import AdapterRows, Place

Watch = Mapping[Place, Callable[[Tensor], None]]
"""(layer, "") → called with what enters the layer [R, T, E]; (layer, "mlp.down_proj") → with what enters that module
[R, T, F]. What one raises ends the pass."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyValues:
    """Preallocated keys and values."""

    layers: tuple[Tensor, ...]
    """Per layer [R, 2, K, W, D] in the model's dtype."""

    @property
    def rows(self) -> int:
        """R."""
        return self.layers[0].shape[0]

    @property
    def width(self) -> int:
        """W."""
        return self.layers[0].shape[3]

    @property
    def nbytes(self) -> int:
        """Bytes it takes."""
        return sum(layer.nbytes for layer in self.layers)

    def view(self, rows: slice, width: int) -> "KeyValues":
        """Some rows and the first columns, not copied."""
        return KeyValues(tuple(layer[rows, :, :, :width] for layer in self.layers))

    def write(self, row: int, keys: Tensor, values: Tensor) -> None:
        """Put keys and values [L, K, tokens, D] into the first columns of a row."""
        for at, layer in enumerate(self.layers):
            layer[row, 0, :, : keys.shape[2]] = keys[at]
            layer[row, 1, :, : keys.shape[2]] = values[at]

    def clear(self, rows: slice) -> None:
        """Forget what rows hold."""
        for layer in self.layers:
            layer[rows].zero_()

    def move(self, source: int, target: int) -> None:
        """Copy a row over another."""
        for layer in self.layers:
            layer[target] = layer[source]


class Passes(Protocol):
    """The forward pass of one model. Whoever runs one holds the base model's lock."""

    @property
    def windows(self) -> tuple[int | None, ...]:
        """By layer, the tokens that one sees, itself included; None: all."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""

    def embedded(self, ids: Tensor) -> Tensor:
        """What enters the first layer [..., E] of token ids [...]."""

    def widths(self, place: Place) -> tuple[int, int]:
        """Inputs and outputs of a linear module.

        Raises:
            FactorsError: the model has none there.
        """

    def room(self, rows: int, width: int) -> KeyValues:
        """Keys and values of nothing yet; zeros, so that no column is a NaN under a mask."""

    def run(
        self,
        ids: Tensor,
        positions: Tensor,
        cache: KeyValues | None = None,
        *,
        mask: Tensor | None = None,
        adapters: AdapterRows | None = None,
        watch: Watch | None = None,
    ) -> Tensor:
        """Read tokens and return their final hidden states [R, T, E].

        Args:
            ids: [R, T] int64.
            positions: [R, T] int64; with a cache also the columns that are written. Columns beyond a row's tokens are
                free: what padding writes there is overwritten before it is seen.
            cache: R rows that are read and written; None: the tokens see each other alone.
            mask: bool [R or 1, 1, T, T], without a cache: who sees whom; None: each what is not behind it.
            adapters: of each row, or of all.
            watch: see `Watch`.
        """

    def normed(self, hidden: Tensor) -> Tensor:
        """The last norm of hidden states [..., E]; `run` ends with it."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits [..., vocabulary] of final hidden states [..., E]."""


def visible(positions: Tensor, columns: int | None, window: int | None, mask: Tensor | None = None) -> Tensor:
    """Who sees which column: bool [R, 1, T, W].

    Args:
        positions: [R, T] of who looks.
        columns: W; None: the tokens themselves are the columns.
        window: tokens that one sees, itself included; None: all.
        mask: bool [R or 1, 1, T, W] instead of "all that is not behind".
    """
    places = positions if columns is None else torch.arange(columns, device=positions.device)[None]
    here, there = positions[:, None, :, None], places[:, None, None, :]
    seen = here >= there if mask is None else mask
    return seen if window is None else seen & (here - there < window)
