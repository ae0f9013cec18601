"""Items to tensors: several exchanges in one row, none of which sees another.

All exchanges of a row share the row's adapter, so they share the chat frame's head too: a row is
[head | item | item | …], an item sees the head and itself, and its positions count on from the head.

Legend: R rows, W padded width, N target tokens of the whole batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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


def pack(rows: Sequence[Sequence[Item]], head: Sequence[int], *, device: torch.device, dtype: torch.dtype) -> Packed:
    """Pack the items of each row behind one head."""
    return pack_behind([head] * len(rows), rows, device=device, dtype=dtype)


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
