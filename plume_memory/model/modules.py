"""The forward pass by Hugging Face's own modules: the reference, and the path of models of other than plain layers."""

from typing import Any

import torch
from torch import Tensor

from plume_memory.model.adapters import AdapterRows, Place, attached, decoder_layers, module_at
from plume_memory.model.key_values import KeyValues, Watch, visible
from plume_memory.model.weights import head_width, window_of


class Modules:
    """See `Passes`.

    Args:
        model: a Hugging Face causal LM, through PEFT wrappers if there are any.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._config = model.config
        self._weight: Tensor = model.get_input_embeddings().weight

    @property
    def windows(self) -> tuple[int | None, ...]:
        """See `Passes`."""
        return tuple(window_of(self._config, layer) for layer in range(self._config.num_hidden_layers))

    @property
    def device(self) -> torch.device:
        """See `Passes`."""
        return self._weight.device

    def embedded(self, ids: Tensor) -> Tensor:
        """See `Passes`."""
        embedded: Tensor = self._model.get_input_embeddings()(ids)
        return embedded

    def widths(self, place: Place) -> tuple[int, int]:
        """See `Passes`."""
        module: Any = module_at(decoder_layers(self._model), place)
        return module.in_features, module.out_features

    def room(self, rows: int, width: int) -> KeyValues:
        """See `Passes`."""
        config = self._config
        shape = (rows, 2, config.num_key_value_heads, width, head_width(config))
        like = self._weight
        return KeyValues(tuple(torch.zeros(shape, dtype=like.dtype, device=like.device) for _ in self.windows))

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
        """See `Passes`."""
        if cache is None and mask is None and set(self.windows) == {None}:  # no mask runs fastest
            with attached(self._model, adapters, watch=watch):
                bare: Tensor = self._model.model(ids, None, positions, use_cache=False).last_hidden_state
            return bare
        columns = None if cache is None else cache.width
        closed = torch.finfo(self._weight.dtype).min
        masks: dict[int | None, Tensor] = {}
        for window in set(self.windows):
            seen = visible(positions, columns, window, mask)
            masks[window] = torch.zeros(seen.shape, dtype=self._weight.dtype, device=seen.device)
            masks[window].masked_fill_(~seen, closed)
        kinds = getattr(self._config, "layer_types", None) or ["attention"] * len(self.windows)
        by_kind = dict(zip(kinds, (masks[window] for window in self.windows), strict=True))
        held = None if cache is None else _Columns(cache, positions)
        with attached(self._model, adapters, watch=watch):
            hidden: Tensor = self._model.model(
                ids,
                by_kind if getattr(self._config, "layer_types", None) else by_kind["attention"],
                positions,
                held,  # by position: releases of transformers 5 disagree on its name
                use_cache=held is not None,
            ).last_hidden_state
        return hidden

    def normed(self, hidden: Tensor) -> Tensor:
        """See `Passes`."""
        normed: Tensor = self._model.model.norm(hidden)
        return normed

    def logits(self, hidden: Tensor) -> Tensor:
        """See `Passes`.

        On the contiguous states: PyTorch multiplies a strided batch by copying lm_head once per row.
        """
        logits: Tensor = self._model.lm_head(hidden.contiguous())
        cap = getattr(self._config, "final_logit_softcapping", None)
        return cap * torch.tanh(logits / cap) if cap else logits


class _Columns:
    """`KeyValues` as transformers asks a cache."""

    is_compileable = False

    def __init__(self, cache: KeyValues, positions: Tensor) -> None:
        self._cache = cache
        self._where = torch.arange(len(positions), device=positions.device)[:, None], positions

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write keys and values [R, K, T, D] into their columns; return those of all columns."""
        kept = self._cache.layers[layer]
        rows, columns = self._where
        kept[rows, :, :, columns] = torch.stack([keys, values], dim=1).permute(0, 3, 1, 2, 4)
        return kept[:, 0], kept[:, 1]

    def get_seq_length(self, *_: Any) -> int:
        """Tokens before those that are read: nobody needs it, positions and masks are given."""
        return 0
