"""Rows of a decode batch: prefill, and one token further for all rows at once.

Legend: R rows, T cached tokens, V vocabulary, L layers, H key/value heads, D head width.

A row is a prompt with an adapter or a compiled prefix. Every row's cached tokens stand right-aligned
and without holes ([padding … real]), so a sliding window measured by index is measured by position.
Two ways to take a step: `GrowingRows` (a cache that grows; CPU) and `FixedRows` (a cache of fixed
shape whose step is captured as a CUDA graph). Both give the same tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from plume_memory.lora.factors import LoraFactors
from plume_memory.model.adapters import AdapterRows, attached, stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.states import States


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One stream of a query."""

    prompt_ids: tuple[int, ...]
    factors: LoraFactors | None = None
    prefix: States | None = None
    """Stands in front of `prompt_ids`; then the ids carry no beginning of their own."""

    @property
    def tokens(self) -> int:
        """Cached tokens after the prefill."""
        return len(self.prompt_ids) + (self.prefix.tokens if self.prefix else 0)


@dataclass(frozen=True, slots=True, eq=False)
class Prefilled:
    """A batch after its prompts were read."""

    logits: Tensor
    """Next-token logits [R, V]."""
    cache: list[tuple[Tensor, Tensor]]
    """Per layer: keys and values [R, H, T, D], right-aligned."""
    mask: Tensor
    """Which cached tokens are real, bool [R, T]."""
    adapters: AdapterRows | None


class Rows(Protocol):
    """A batch that can take one more token per row."""

    present: list[int]
    """Original indices of the rows that are still computed."""

    def step(self, tokens: list[int]) -> Tensor:
        """Append one token to each present row and return next-token logits [len(present), V]."""

    def drop(self, finished: set[int]) -> None:
        """Rows that need no more tokens; they may leave `present`, or be computed in vain."""


def prefill(base: BaseModel, rows: Sequence[Row], *, rank: int | None = None) -> Prefilled:
    """Read all prompts. Rows without a prefix share one left-padded pass; the others take one each.

    Args:
        base: the model; its lock is held by the caller.
        rows: the streams.
        rank: pad adapters to this rank.
    """
    adapters = stack_rows([row.factors for row in rows], device=base.device, dtype=base.dtype, rank=rank)
    longest = max(row.tokens for row in rows)
    lengths = torch.tensor([row.tokens for row in rows], device=base.device)
    mask = torch.arange(longest, device=base.device) >= longest - lengths[:, None]
    if all(row.prefix is None for row in rows):  # one pass, as wide as its longest row: nothing to put together
        with attached(base.model, adapters):
            logits, cache = _read(base, list(rows))
        return Prefilled(logits, cache, mask, adapters)
    return Prefilled(*_read_in_groups(base, rows, adapters, longest), mask, adapters)


def _read_in_groups(
    base: BaseModel, rows: Sequence[Row], adapters: AdapterRows | None, longest: int
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Logits and cache of rows of which some have a prefix."""
    plain = [i for i, row in enumerate(rows) if row.prefix is None]
    groups = ([plain] if plain else []) + [[i] for i, row in enumerate(rows) if row.prefix is not None]
    logits: list[Tensor] = [torch.empty(0)] * len(rows)
    caches: list[list[tuple[Tensor, Tensor]]] = [[]] * len(rows)
    for group in groups:
        members = torch.tensor(group, device=base.device)
        with attached(base.model, adapters.select(members) if adapters else None):
            group_logits, group_cache = _read(base, [rows[i] for i in group])
        for at, i in enumerate(group):
            logits[i] = group_logits[at]
            caches[i] = [_right_aligned(k[at], v[at], longest) for k, v in group_cache]
    cache = [
        (torch.stack([c[layer][0] for c in caches]), torch.stack([c[layer][1] for c in caches]))
        for layer in range(len(caches[0]))
    ]
    return torch.stack(logits), cache


def _read(base: BaseModel, rows: list[Row]) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """One forward pass over left-padded prompts; a row with a prefix comes alone."""
    from transformers import DynamicCache  # noqa: PLC0415 — loaded with the model anyway

    cache = DynamicCache()
    before = 0
    if rows[0].prefix is not None:
        before = rows[0].prefix.tokens
        for layer, (keys, values) in enumerate(zip(rows[0].prefix.keys, rows[0].prefix.values, strict=True)):
            cache.update(keys[None].to(base.device), values[None].to(base.device), layer)
    width = max(len(row.prompt_ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), before + width, dtype=torch.long)
    for at, row in enumerate(rows):
        ids[at, width - len(row.prompt_ids) :] = torch.tensor(row.prompt_ids)
        mask[at, width - len(row.prompt_ids) :] = 1
    positions = (mask.cumsum(-1) - 1).clamp_min(0)[:, before:]
    output = base.model.model(
        input_ids=ids.to(base.device),
        attention_mask=mask.to(base.device),
        position_ids=positions.to(base.device),
        past_key_values=cache,
        use_cache=True,
    )
    return base.logits(output.last_hidden_state[:, -1]), [(layer.keys, layer.values) for layer in cache.layers]


def _right_aligned(keys: Tensor, values: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Fit one row's states [H, T, D] into `width` slots: cut or add padding on the left."""
    missing = width - keys.shape[1]
    if missing <= 0:
        return keys[:, -width:], values[:, -width:]
    pad = (0, 0, missing, 0)
    return torch.nn.functional.pad(keys, pad), torch.nn.functional.pad(values, pad)


class GrowingRows:
    """Steps with a cache that grows by one token; finished rows leave the batch."""

    def __init__(self, base: BaseModel, filled: Prefilled) -> None:
        from transformers import DynamicCache  # noqa: PLC0415 — loaded with the model anyway

        self.present = list(range(len(filled.logits)))
        self._base = base
        self._adapters = filled.adapters
        self._mask = filled.mask.long()
        self._cache = DynamicCache()
        for layer, (keys, values) in enumerate(filled.cache):
            self._cache.update(keys, values, layer)

    def step(self, tokens: list[int]) -> Tensor:
        """See `Rows`; the model's lock is held by the caller."""
        positions = self._mask.sum(-1, keepdim=True)
        self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=1)
        with attached(self._base.model, self._adapters):
            output = self._base.model(
                input_ids=torch.tensor(tokens, device=self._base.device)[:, None],
                attention_mask=self._mask,
                position_ids=positions,
                past_key_values=self._cache,
                use_cache=True,
            )
        logits: Tensor = output.logits[:, -1]
        return logits

    def drop(self, finished: set[int]) -> None:
        """See `Rows`."""
        kept = [at for at, row in enumerate(self.present) if row not in finished]
        if not kept or len(kept) == len(self.present):
            return
        index = torch.tensor(kept, device=self._base.device)
        self._cache.batch_select_indices(index)
        self._mask = self._mask[index]
        self._adapters = self._adapters.select(index) if self._adapters else None
        self.present = [self.present[at] for at in kept]


class FixedRows:
    """Steps with buffers of fixed shape and address, so that a CUDA graph can replay them.

    The buffers are made once for (rows, slots, rank) and loaded anew for every decode; finished
    rows are computed in vain until the last one ends.
    """

    WARM_UP = 3
    """Steps on a side stream before a capture, as CUDA graphs require; they need spare slots."""

    def __init__(self, base: BaseModel, rows: int, slots: int, adapters: AdapterRows | None) -> None:
        from transformers.cache_utils import Cache, StaticLayer  # noqa: PLC0415 — loaded with the model anyway

        self.present = list(range(rows))
        self.slots = slots
        self._base = base
        self._adapters = adapters
        layers = [StaticLayer(slots + self.WARM_UP) for _ in range(base.model.config.num_hidden_layers)]
        self._cache: Any = Cache(layers=layers)
        self._ids = torch.zeros(rows, 1, dtype=torch.long, device=base.device)
        self._positions = torch.zeros(rows, 1, dtype=torch.long, device=base.device)
        shape = (rows, 1, 1, slots + self.WARM_UP)
        self._masks = {kind: torch.zeros(shape, device=base.device, dtype=base.dtype) for kind in _windows(base)}
        self._graph: torch.cuda.CUDAGraph | None = None
        self._logits: Tensor | None = None
        self._used = 0

    def load(self, filled: Prefilled) -> None:
        """Take over a prefilled batch of the shape these buffers were made for."""
        self.present = list(range(len(filled.logits)))
        self._used = filled.mask.shape[1]
        for layer, (keys, values) in zip(self._cache.layers, filled.cache, strict=True):
            if not layer.is_initialized:
                layer.lazy_initialization(keys, values)
            layer.keys[:, :, : self._used] = keys
            layer.values[:, :, : self._used] = values
            layer.cumulative_length.fill_(self._used)
        self._positions.copy_(filled.mask.sum(-1, keepdim=True))
        closed = torch.finfo(self._base.dtype).min
        for kind, window in _windows(self._base).items():
            mask = self._masks[kind]
            mask.fill_(closed)
            mask[:, 0, 0, : self._used].masked_fill_(filled.mask, 0.0)
            if window is not None:  # the next query sits at slot `used` and sees `window` slots with itself
                mask[..., : max(0, self._used - window + 1)] = closed
        if self._adapters is not None and filled.adapters is not None:
            for key, (A, B) in filled.adapters.modules.items():
                self._adapters.modules[key][0].copy_(A)
                self._adapters.modules[key][1].copy_(B)

    def step(self, tokens: list[int]) -> Tensor:
        """See `Rows`; the model's lock is held by the caller."""
        self._ids.copy_(torch.tensor(tokens, device=self._base.device)[:, None])
        for kind, window in _windows(self._base).items():
            self._masks[kind][..., self._used] = 0.0
            if window is not None and self._used >= window:
                self._masks[kind][..., self._used - window] = torch.finfo(self._base.dtype).min
        if self._base.device.type != "cuda":
            logits = self._forward()
        else:
            with torch.cuda.device(self._base.device):  # streams and graphs belong to the current device
                if self._graph is None:
                    self._capture()
                assert self._graph is not None
                self._graph.replay()
            assert self._logits is not None
            logits = self._logits.clone()
        self._used += 1
        self._positions.add_(1)
        return logits

    def drop(self, finished: set[int]) -> None:
        """See `Rows`: the shape is fixed, nothing leaves."""

    def _forward(self) -> Tensor:
        whole = next(iter(self._masks.values()))
        mask = self._masks if getattr(self._base.model.config, "layer_types", None) else whole
        with attached(self._base.model, self._adapters):
            output = self._base.model(
                input_ids=self._ids,
                attention_mask=mask,
                position_ids=self._positions,
                past_key_values=self._cache,
                use_cache=True,
            )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _capture(self) -> None:
        """Record one step. Warm-up steps write into the spare slots and are rewound."""
        side = torch.cuda.Stream(self._base.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(self.WARM_UP):
                self._forward()
        torch.cuda.current_stream().wait_stream(side)
        self._rewind()
        graph = torch.cuda.CUDAGraph()
        # thread_local: other threads may touch the device meanwhile; only this one is recorded
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._logits = self._forward()
        self._rewind()
        self._graph = graph

    def _rewind(self) -> None:
        for layer in self._cache.layers:
            layer.cumulative_length.fill_(self._used)


def _windows(base: BaseModel) -> dict[str, int | None]:
    """Kinds of attention in this model → sliding window in tokens, or None for full attention."""
    config = base.model.config
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if not kinds:
        return {"attention": window}
    return {kind: window if kind == "sliding_attention" else None for kind in dict.fromkeys(kinds)}
