"""Several texts in one row, behind a head that all of them see, and none sees another.

A row is [head | tail | tail | …], a tail sees the head and itself, and its positions count on from the head: so it is
read as if it stood alone behind the head, which is read once.

Legend: R rows, W padded width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class PackedRows:
    """What a decoder reads of some rows."""

    ids: Tensor
    """[R, W] int64."""
    positions: Tensor
    """[R, W] int64."""
    mask: Tensor
    """[R, 1, W, W] added to attention scores: 0 where one sees, the dtype's least value elsewhere."""
    starts: tuple[tuple[int, ...], ...]
    """By row, the column where each tail begins."""


def packed_rows(
    heads: Sequence[Sequence[int]],
    tails: Sequence[Sequence[Sequence[int]]],
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> PackedRows:
    """Pack the tails of each row behind its head.

    Args:
        heads: ids, one head a row.
        tails: ids, some tails a row.
        device: of the tensors.
        dtype: of the mask.
    """
    ids: list[list[int]] = []
    positions: list[list[int]] = []
    owners: list[list[int]] = []  # 0 head, 1… tails, -1 padding
    starts: list[tuple[int, ...]] = []
    for head, own in zip(heads, tails, strict=True):
        row, place, owner, begins = list(head), list(range(len(head))), [0] * len(head), []
        for n, tail in enumerate(own, start=1):
            begins.append(len(row))
            row += tail
            place += range(len(head), len(head) + len(tail))
            owner += [n] * len(tail)
        ids.append(row)
        positions.append(place)
        owners.append(owner)
        starts.append(tuple(begins))
    width = _rounded(max(map(len, ids)))
    owner_of = torch.tensor([[*o, *[-1] * (width - len(o))] for o in owners], device=device)
    return PackedRows(
        ids=torch.tensor([[*row, *[0] * (width - len(row))] for row in ids], device=device),
        positions=torch.tensor([[*p, *[0] * (width - len(p))] for p in positions], device=device),
        mask=_mask(owner_of, dtype),
        starts=tuple(starts),
    )


def _rounded(width: int) -> int:
    """Up to a multiple of 16: every new shape makes the CPU's matrix library compile its kernels anew."""
    return -(-width // 16) * 16


def _mask(owner: Tensor, dtype: torch.dtype) -> Tensor:
    """Each token sees the head and its own tail up to itself; padding sees itself, lest a softmax is empty."""
    width = owner.shape[1]
    causal = torch.ones(width, width, dtype=torch.bool, device=owner.device).tril()
    alike = owner[:, :, None] == owner[:, None, :]
    seen = causal & (alike | (owner[:, None, :] == 0))
    return torch.zeros(seen.shape, dtype=dtype, device=owner.device).masked_fill(~seen, torch.finfo(dtype).min)[:, None]


def attention_mask(config: Any, positions: Tensor, mask: Tensor) -> Tensor | dict[str, Tensor]:
    """The mask of packed rows, narrowed where layers see a window only: transformers takes a mask of ours as it is."""
    window = getattr(config, "sliding_window", None)
    if window is None or int(positions.max()) < window:
        return mask
    distance = positions[:, None, :, None] - positions[:, None, None, :]
    narrow = mask.masked_fill(distance >= window, torch.finfo(mask.dtype).min)
    by_layer = getattr(config, "layer_types", None) is not None
    return {"full_attention": mask, "sliding_attention": narrow} if by_layer else narrow
