"""Items to tensors: several exchanges in one row, none of which sees another.

All exchanges of a row share the row's adapter, so they share the chat frame's head too: a row is
[head | item | item | …], an item sees the head and itself, and its positions count on from the head.

Where a text stands in front as compiled states, it is part of the head, and a gate keeps the row's adapter from all of
the head: that is what the bare model made of it, as in the evidence row of an answer.

Legend: R rows, W padded width, N target tokens of the whole batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from plume_memory.model.packing import packed_rows
from plume_memory.training.items import Item


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A batch of packed rows."""

    ids: Tensor
    """[R, W] int64."""
    positions: Tensor
    """[R, W] int64."""
    mask: Tensor
    """[R, 1, W, W] added to attention scores: 0 where one sees, the dtype's least value elsewhere."""
    at: Tensor
    """[N] int64, flat index (row · W + column) of the token that predicts each target."""
    targets: Tensor
    """[N] int64."""
    item: Tensor
    """[N] int64, index into the flat list of items."""
    in_answer: Tensor
    """[N] bool: the target is part of what was asked for, not of the words around it."""
    items: tuple[Item, ...]
    """Row by row, in the order packed."""
    tokens: int
    """Tokens without padding."""
    gate: Tensor | None = None
    """[R, W, 1] of the mask's dtype, of the adapters (`AdapterRows.gate`): 0 on a head with states, 1 elsewhere; None
    where no row has states."""


def pack(
    rows: Sequence[Sequence[Item]],
    head: Sequence[int],
    *,
    states: Sequence[Sequence[int]] | None = None,
    device: torch.device,
    dtype: torch.dtype,
) -> Packed:
    """Pack the items of each row behind one head.

    Args:
        rows: the items of each.
        head: of the chat frame.
        states: of each row, ids that stand compiled behind the head, none for a row without; None: no row has any.
        device: of the tensors.
        dtype: of the mask and the gate.
    """
    fronts = [()] * len(rows) if states is None else states
    packed = pack_behind([[*head, *front] for front in fronts], rows, device=device, dtype=dtype)
    if not any(fronts):
        return packed
    bare = torch.tensor([len(head) + len(front) if front else 0 for front in fronts], device=device)
    columns = torch.arange(packed.ids.shape[1], device=device)
    return replace(packed, gate=(columns >= bare[:, None]).to(dtype)[..., None])


def pack_behind(
    heads: Sequence[Sequence[int]], rows: Sequence[Sequence[Item]], *, device: torch.device, dtype: torch.dtype
) -> Packed:
    """Pack the items of each row behind a head of its own."""
    tails = [[[*item.prompt_ids, *item.target_ids[:-1]] for item in items] for items in rows]
    laid = packed_rows(heads, tails, device=device, dtype=dtype)
    width = laid.ids.shape[1]
    flat: list[Item] = []
    at: list[int] = []
    targets: list[int] = []
    item: list[int] = []
    in_answer: list[bool] = []
    for r, (items, starts) in enumerate(zip(rows, laid.starts, strict=True)):
        for one, begins in zip(items, starts, strict=True):
            count = len(one.target_ids)
            first = r * width + begins + len(one.prompt_ids) - 1
            at += range(first, first + count)
            targets += one.target_ids
            item += [len(flat)] * count
            start, end = one.answer or (0, count)
            in_answer += [start <= i < end for i in range(count)]
            flat.append(one)
    return Packed(
        ids=laid.ids,
        positions=laid.positions,
        mask=laid.mask,
        at=torch.tensor(at, device=device),
        targets=torch.tensor(targets, device=device),
        item=torch.tensor(item, device=device),
        in_answer=torch.tensor(in_answer, device=device),
        items=tuple(flat),
        tokens=sum(map(len, heads)) + sum(len(tail) for own in tails for tail in own),
    )
