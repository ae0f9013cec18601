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
    ids: list[list[int]] = []
    positions: list[list[int]] = []
    owners: list[list[int]] = []  # 0 head, 1… items, -1 padding
    at: list[tuple[int, int]] = []
    targets: list[int] = []
    item: list[int] = []
    in_answer: list[bool] = []
    flat: list[Item] = []
    for r, (head, items) in enumerate(zip(heads, rows, strict=True)):
        row, place, owner = list(head), list(range(len(head))), [0] * len(head)
        for n, one in enumerate(items, start=1):
            tokens = [*one.prompt_ids, *one.target_ids[:-1]]
            first = len(row) + len(one.prompt_ids) - 1
            at += [(r, first + i) for i in range(len(one.target_ids))]
            targets += one.target_ids
            item += [len(flat)] * len(one.target_ids)
            start, end = one.answer or (0, len(one.target_ids))
            in_answer += [start <= i < end for i in range(len(one.target_ids))]
            flat.append(one)
            row += tokens
            place += range(len(head), len(head) + len(tokens))
            owner += [n] * len(tokens)
        ids.append(row)
        positions.append(place)
        owners.append(owner)
    width = _rounded(max(map(len, ids)))
    owner_of = torch.tensor([[*o, *[-1] * (width - len(o))] for o in owners], device=device)
    return Packed(
        ids=torch.tensor([[*row, *[0] * (width - len(row))] for row in ids], device=device),
        positions=torch.tensor([[*p, *[0] * (width - len(p))] for p in positions], device=device),
        mask=_mask(owner_of, dtype),
        at=torch.tensor([r * width + c for r, c in at], device=device),
        targets=torch.tensor(targets, device=device),
        item=torch.tensor(item, device=device),
        in_answer=torch.tensor(in_answer, device=device),
        items=tuple(flat),
        tokens=sum(map(len, ids)),
    )


def _rounded(width: int) -> int:
    """Up to a multiple of 16: every new shape makes the CPU's matrix library compile its kernels anew."""
    return -(-width // 16) * 16


def _mask(owner: Tensor, dtype: torch.dtype) -> Tensor:
    """Each token sees the head and its own item up to itself; padding sees itself, lest a softmax is empty."""
    width = owner.shape[1]
    causal = torch.ones(width, width, dtype=torch.bool, device=owner.device).tril()
    alike = owner[:, :, None] == owner[:, None, :]
    seen = causal & (alike | (owner[:, None, :] == 0))
    return torch.zeros(seen.shape, dtype=dtype, device=owner.device).masked_fill(~seen, torch.finfo(dtype).min)[:, None]
