"""Rows of a decode batch: prompts are read, all rows take a token or more further, rows come and go at any step.

Legend: R rows, T tokens, V vocabulary, W columns.

A row is a prompt with an adapter, compiled states in front of it, or both. Each row has a length of its own and its
tokens stand in the columns 0 … length − 1, so a row that joins or leaves moves no other. On CUDA a step runs at few
rounded shapes (`fixed`), captured as graphs; it gives the same tokens.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plume_memory.lora.factors import LoraFactors
from plume_memory.model.adapters import AdapterRows, require_fit, stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.graphs import GraphedStep
from plume_memory.model.key_values import KeyValues
from plume_memory.model.states import States

IDLE_BYTES = 256 * 2**20
"""Room for keys and values that is kept while no row is present."""

GRAPHS = 8
"""Shapes of a step that stay captured."""

_COLUMNS = 128
"""Widths are multiples of it: few shapes, and aligned as fused attention wants them."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One stream of a query."""

    prompt_ids: tuple[int, ...]
    factors: LoraFactors | None = None
    states: States | None = None
    """Stand in front of `prompt_ids`; then the ids carry no beginning of their own."""

    @property
    def before(self) -> int:
        """Tokens of its states."""
        return self.states.tokens if self.states else 0

    @property
    def tokens(self) -> int:
        """Tokens after the prompt was read."""
        return self.before + len(self.prompt_ids)


def read_prompts(base: BaseModel, rows: Sequence[Row], cache: KeyValues, adapters: AdapterRows | None) -> Tensor:
    """Read the prompts of rows in one pass; returns final hidden states [R, longest prompt, E].

    Args:
        base: the model; its lock is held by the caller.
        rows: the streams.
        cache: as many rows, wide enough for the longest states and the longest prompt one after the other.
        adapters: theirs, stacked.
    """
    longest = max(len(row.prompt_ids) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    for at, row in enumerate(rows):
        ids[at, : len(row.prompt_ids)] = torch.tensor(row.prompt_ids)
        if row.states is not None:
            cache.write(at, row.states.keys, row.states.values)
    positions = torch.tensor([row.before for row in rows])[:, None] + torch.arange(longest)
    return base.passes.run(ids.to(base.device), positions.to(base.device), cache, adapters=adapters)


def columns_of(rows: Sequence[Row]) -> int:
    """Columns that `read_prompts` writes at most."""
    return max(row.before for row in rows) + max(len(row.prompt_ids) for row in rows)


class RunningRows:
    """The rows that are computed now. For one thread at a time; the model's lock is held by the caller.

    Args:
        base: the model.
        fixed: round shapes, so that steps repeat them (on CUDA as captured graphs).
    """

    def __init__(self, base: BaseModel, *, fixed: bool) -> None:
        self.present: list[int] = []
        """Numbers of the rows, in the order of their logits."""
        self._base = base
        self._fixed = fixed
        self._rows: list[Row] = []
        self._lengths: list[int] = []
        self._cache: KeyValues | None = None
        self._adapters: AdapterRows | None = None
        self._graphs: OrderedDict[tuple[object, ...], GraphedStep] = OrderedDict()
        self._next = 0

    def admit(self, rows: Sequence[Row]) -> tuple[list[int], Tensor]:
        """Read new rows' prompts; returns their numbers and next-token logits [R, V].

        Raises:
            FactorsError: an adapter does not fit the model.
        """
        adapters = self._stacked(rows)
        cache = self._room(len(self.present) + len(rows), columns_of(rows))
        here = slice(len(self.present), len(self.present) + len(rows))
        hidden = read_prompts(self._base, rows, cache.view(here, columns_of(rows)), adapters)
        last = torch.tensor([len(row.prompt_ids) - 1 for row in rows], device=self._base.device)
        logits = self._base.passes.logits(hidden[torch.arange(len(rows), device=self._base.device), last])
        numbers = list(range(self._next, self._next + len(rows)))
        self._adapters = adapters if not self.present else self._stacked([*self._rows, *rows])
        self._next += len(rows)
        self.present += numbers
        self._rows += rows
        self._lengths += [row.tokens for row in rows]
        return numbers, logits

    def step(self, tokens: Mapping[int, int]) -> Tensor:
        """Append one token to each present row; returns next-token logits [R, V] in the order of `present`."""
        ids = [tokens[number] for number in self.present]
        width = max(self._lengths) + 1
        cache = self._room(len(ids), width)
        if self._fixed:
            logits = self._graphed(ids, width, cache)
        else:
            device = self._base.device
            hidden = self._base.passes.run(
                torch.tensor(ids, device=device)[:, None],
                torch.tensor(self._lengths, device=device)[:, None],
                cache.view(slice(len(ids)), width),
                adapters=self._adapters,
            )
            logits = self._base.passes.logits(hidden[:, -1])
        self._lengths = [length + 1 for length in self._lengths]
        return logits

    def ahead(self, tokens: Mapping[int, Sequence[int]]) -> Tensor:
        """Read one token or more of each present row; returns next-token logits behind each [R, T, V].

        Args:
            tokens: by row; where it has fewer than another one, what stands behind them says nothing.

        Which of them are said is known afterwards: `took`, once for each.
        """
        device, longest = self._base.device, max(map(len, tokens.values()))
        ids = torch.zeros(len(self.present), longest, dtype=torch.long)
        for at, number in enumerate(self.present):
            ids[at, : len(tokens[number])] = torch.tensor(tokens[number])
        positions = torch.tensor(self._lengths)[:, None] + torch.arange(longest)
        width = max(self._lengths) + longest
        cache = self._room(len(ids), width).view(slice(len(ids)), width)
        hidden = self._base.passes.run(ids.to(device), positions.to(device), cache, adapters=self._adapters)
        return self._base.passes.logits(hidden)

    def took(self, numbers: Collection[int]) -> None:
        """One more of the tokens that `ahead` read is said, of these rows; what stands behind is written over."""
        both = zip(self.present, self._lengths, strict=True)
        self._lengths = [length + (number in numbers) for number, length in both]

    @torch.inference_mode()
    def leave(self, numbers: Collection[int]) -> None:
        """Rows that need no more tokens. The last ones take their places, so what is present stays in front."""
        if not numbers:
            return
        order = list(range(len(self.present)))
        for number in numbers:
            at, last = next(i for i, place in enumerate(order) if self.present[place] == number), len(order) - 1
            if at != last and self._cache is not None:
                self._cache.move(last, at)
            order[at] = order[last]
            order.pop()
        self.present = [self.present[place] for place in order]
        self._rows = [self._rows[place] for place in order]
        self._lengths = [self._lengths[place] for place in order]
        if self._adapters is not None:
            index = torch.tensor(order, dtype=torch.long, device=self._base.device)
            self._adapters = self._adapters.select(index) if order else None
        if self._cache is not None:
            # Nothing of a text stays behind, and no NaN: a masked column still counts as 0 · what it holds.
            self._cache.clear(slice(len(order), len(order) + len(numbers)))
            self._let_go_of_room()

    def _let_go_of_room(self) -> None:
        """Give memory back where a long row, or many, has left."""
        assert self._cache is not None
        for step in self._graphs.values() if not self.present else ():
            step.release()
        if self._cache.nbytes <= IDLE_BYTES:
            return
        kept, self._cache = self._cache, None
        self._graphs.clear()
        if not self.present:
            return
        made = self._room(len(self.present), max(self._lengths) + 1)
        if made.nbytes > kept.nbytes // 2:
            self._cache = kept
            return
        for old, new in zip(kept.layers, made.layers, strict=True):
            width = min(kept.width, made.width)
            new[: len(self.present), :, :, :width] = old[: len(self.present), :, :, :width]

    def _stacked(self, rows: Sequence[Row]) -> AdapterRows | None:
        rank = None
        if self._fixed:  # a multiple of 16: few shapes, so few graphs
            rank = -(-max((row.factors.rank for row in rows if row.factors is not None), default=0) // 16) * 16
        base = self._base
        stacked = stack_rows([row.factors for row in rows], device=base.device, dtype=base.dtype, rank=rank or None)
        if stacked is not None:
            require_fit(stacked, base.passes.widths)
        return stacked

    def _room(self, rows: int, width: int) -> KeyValues:
        """Room for so many rows and columns; what is present is kept."""
        kept = self._cache
        if kept is not None and rows <= kept.rows and width <= kept.width:
            return kept
        rows = _power_of_two(max(rows, kept.rows if kept else 0))
        width = _rounded(max(width + _COLUMNS // 2, kept.width if kept else 0))
        made = self._base.passes.room(rows, width)
        if kept is not None:
            for old, new in zip(kept.layers, made.layers, strict=True):
                new[: len(old), :, :, : kept.width] = old
        self._graphs.clear()  # they read and write the old addresses
        self._cache = made
        return made

    def _graphed(self, ids: list[int], width: int, cache: KeyValues) -> Tensor:
        rows, width = _power_of_two(len(ids)), min(_rounded(width), cache.width)
        adapters = self._adapters
        shape = (rows, width, adapters.shape if adapters else None)
        step = self._graphs.pop(shape, None)
        if step is None:
            step = GraphedStep(self._base, cache.view(slice(rows), width), adapters)
        self._graphs[shape] = step
        while len(self._graphs) > GRAPHS:
            self._graphs.popitem(last=False)
        return step.run(ids, self._lengths, adapters)


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _rounded(width: int) -> int:
    return -(-width // _COLUMNS) * _COLUMNS
