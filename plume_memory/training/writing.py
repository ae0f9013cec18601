"""Texts to factors with gradients, and rows that read weighted sums of them.

Legend: C written texts, R rows, L adapted layers, r rank, F input width, D output width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from plume_memory.hypernet.d2l.network import D2LNetwork
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.reading import read_texts
from plume_memory.model.adapters import AdapterRows
from plume_memory.model.base import BaseModel
from plume_memory.model.modules import Modules

MODULE = "mlp.down_proj"


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Factors of a batch of texts."""

    A: Tensor
    """[L, r, F] for every text alike, or [L, C, r, F]."""
    B: Tensor
    """[L, C, r, D]."""


class TextWriter(Protocol):
    """A network in training, with the base model that reads for it."""

    @property
    def network(self) -> nn.Module:
        """The trained part."""

    @property
    def layers(self) -> tuple[int, ...]:
        """Adapted decoder layers."""

    def write(self, texts: Sequence[Sequence[int]]) -> Written:
        """Write texts, given as token ids, with gradients into the network."""


class FastWeightWriter:
    """Texts through our own network."""

    def __init__(self, network: FastWeightNetwork, base: BaseModel) -> None:
        self.network = network
        self.layers = network.config.layers
        self._base, self._head = base, base.chat.prefix_ids()

    def write(self, texts: Sequence[Sequence[int]]) -> Written:
        """Write texts; A is the network's read keys."""
        config = self.network.config
        reading = read_texts(
            Modules(self._base.model),
            texts,
            self._head,
            config.layers,
            config.mixer_layer,
            first_token=config.first_token,
        )
        return Written(self.network.read_keys, self.network(reading))


class D2LWriter:
    """Texts through the reference architecture."""

    def __init__(self, network: D2LNetwork, base: BaseModel) -> None:
        self.network = network
        self.layers = network.config.layers
        self._base = base
        self._head, self._tail = base.chat.prefix_ids(), base.chat.suffix_ids()

    def write(self, texts: Sequence[Sequence[int]]) -> Written:
        """Write texts, each behind and before its chat frame, as D2LParameterizer does."""
        framed = [[*self._head, *text, *self._tail] for text in texts]
        width = -(-max(map(len, framed)) // 16) * 16
        ids = torch.tensor([one + [0] * (width - len(one)) for one in framed], device=self._base.device)
        mask = torch.tensor([[1] * len(one) + [0] * (width - len(one)) for one in framed], device=ids.device)
        with torch.no_grad():
            states = self._base.model.model(
                input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False
            ).hidden_states
        decoder = self._base.model.model
        last = decoder.norm(states[len(self.layers) - 1]) if len(states) > len(self.layers) else states[-1]
        features = torch.stack([*states[: len(self.layers) - 1], last], dim=1)  # [C, L, S, D]
        pairs = self.network(features.float(), mask)[MODULE]
        return Written(pairs.A.transpose(0, 1), pairs.B.transpose(0, 1) * self.network.config.lora_alpha)


def rows_of(
    written: Written, reads: Sequence[Sequence[tuple[int, float]]], layers: Sequence[int], dtype: torch.dtype
) -> AdapterRows:
    """Adapters of rows that each read a weighted sum of the written texts.

    With one A for all, the sum is a sum of B; otherwise the factors are concatenated along the rank.

    Args:
        written: by a `TextWriter`.
        reads: per row (text, weight); a row that reads nothing gets an adapter of zeros.
        layers: that the factors adapt.
        dtype: in which the model adds the delta.
    """
    L, C, r, D = written.B.shape
    device = written.B.device
    if written.A.ndim == 3:
        weights = torch.zeros(len(reads), C, device=device)
        for row, pairs in enumerate(reads):
            for text, weight in pairs:
                weights[row, text] += weight
        summed = (weights @ written.B.permute(1, 0, 2, 3).reshape(C, -1)).view(len(reads), L, r, D)
        # unbind, not an index per layer: an index's gradient is a whole tensor of zeros, twenty times over
        each = zip(layers, written.A.mT.to(dtype).unbind(0), summed.to(dtype).unbind(1), strict=True)
        return AdapterRows({(layer, MODULE): (A, B) for layer, A, B in each}, len(reads), r)
    most = max(1, *(len(pairs) for pairs in reads))
    index = torch.tensor([[*(t for t, _ in pairs), *[0] * (most - len(pairs))] for pairs in reads], device=device)
    scales = torch.tensor([[*(w for _, w in pairs), *[0.0] * (most - len(pairs))] for pairs in reads], device=device)
    modules = {}
    for i, layer in enumerate(layers):
        A = written.A[i][index].flatten(1, 2).mT  # [R, F, most · r]
        B = (scales[:, :, None, None] * written.B[i][index]).flatten(1, 2)  # [R, most · r, D]
        modules[layer, MODULE] = (A.to(dtype), B.to(dtype))
    return AdapterRows(modules, len(reads), most * r)
