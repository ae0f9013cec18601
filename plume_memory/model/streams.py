"""Rows of a decode batch: prefill, and one token further for all rows at once.

Legend: R rows, T cached tokens, V vocabulary, L layers, H key/value heads, D head width.

A row is a prompt with an adapter, compiled states in front of it, or both. Every row's cached tokens stand
right-aligned and without holes ([padding … real]), so a sliding window measured by index is measured by position.
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
from plume_memory.model.base import BaseModel, forward
from plume_memory.model.states import States


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One stream of a query."""

    prompt_ids: tuple[int, ...]
    factors: LoraFactors | None = None
    states: States | None = None
    """Stand in front of `prompt_ids`; then the ids carry no beginning of their own."""

    @property
    def tokens(self) -> int:
        """Cached tokens after the prefill."""
        return len(self.prompt_ids) + (self.states.tokens if self.states else 0)


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
    """Read all prompts in one pass.

    In it a row's states stand right-aligned before the prompts, which begin in one column: so its real tokens have no
    holes, no token sees padding, and a sliding window measured by index is measured by position.

        [padding … states | prompt … padding]

    Args:
        base: the model; its lock is held by the caller.
        rows: the streams.
        rank: pad adapters to this rank.
    """
    adapters = stack_rows([row.factors for row in rows], device=base.device, dtype=base.dtype, rank=rank)
    before = [row.states.tokens if row.states else 0 for row in rows]
    prompts = [len(row.prompt_ids) for row in rows]
    cache = cache_of(base, rows, max(before))
    ids = torch.zeros(len(rows), max(prompts), dtype=torch.long)
    for at, row in enumerate(rows):
        ids[at, : prompts[at]] = torch.tensor(row.prompt_ids)
    starts = torch.tensor(before)[:, None]
    columns = torch.arange(max(before) + max(prompts))
    mask = (columns >= max(before) - starts).long()
    with attached(base.model, adapters):
        output = forward(
            base.model.model,
            cache,
            ids=ids.to(base.device),
            mask=mask.to(base.device),
            positions=(starts + torch.arange(max(prompts))).to(base.device),
        )
    last = torch.tensor(prompts, device=base.device) - 1
    logits = base.logits(output.last_hidden_state[torch.arange(len(rows), device=base.device), last])
    longest = max(row.tokens for row in rows)
    places = [(max(before) - b, max(before) + p) for b, p in zip(before, prompts, strict=True)]
    filled = [
        (_right_aligned(layer.keys, places, longest), _right_aligned(layer.values, places, longest))
        for layer in cache.layers
    ]
    lengths = torch.tensor([row.tokens for row in rows], device=base.device)
    real = torch.arange(longest, device=base.device) >= longest - lengths[:, None]
    return Prefilled(logits, filled, real, adapters)


def cache_of(base: BaseModel, rows: Sequence[Row], width: int) -> Any:
    """A cache that holds each row's states, right-aligned in `width` columns."""
    from transformers import DynamicCache  # noqa: PLC0415 — loaded with the model anyway

    cache = DynamicCache()
    some = next((row.states for row in rows if row.states is not None), None)
    if some is None:
        return cache
    L, H, _, D = some.keys.shape
    held = torch.zeros(2, L, len(rows), H, width, D, dtype=some.keys.dtype, device=base.device)
    for at, row in enumerate(rows):
        if row.states is not None:
            held[0, :, at, :, width - row.states.tokens :] = row.states.keys
            held[1, :, at, :, width - row.states.tokens :] = row.states.values
    for layer in range(L):
        cache.update(held[0, layer], held[1, layer], layer)
    return cache


def _right_aligned(held: Tensor, places: Sequence[tuple[int, int]], width: int) -> Tensor:
    """Move each row's columns [start, end) of [R, H, T, D] to the end of `width` columns, zeros before them."""
    rows, heads, _, depth = held.shape
    moved = held.new_zeros(rows, heads, width, depth)
    for at, (start, end) in enumerate(places):
        moved[at, :, width - (end - start) :] = held[at, :, start:end]
    return moved


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
            output = forward(
                self._base.model,
                self._cache,
                ids=torch.tensor(tokens, device=self._base.device)[:, None],
                mask=self._mask,
                positions=positions,
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
            output = forward(self._base.model, self._cache, ids=self._ids, mask=mask, positions=self._positions)
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
