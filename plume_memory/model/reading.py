"""Reading token ids once, and going on behind what was read.

Legend: R rows of a batch, S tokens of the longest, E hidden width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plume_memory.cancel import heeded
from plume_memory.errors import Cancelled, DeadlineExceeded
from plume_memory.model.adapters import AdapterRows
from plume_memory.model.base import BaseModel
from plume_memory.model.states import States

BATCH_TOKENS = 4096
"""Most tokens of one forward pass, padding included; a single text may have more."""

_WIDTHS = 16
"""Ids are read at the next multiple of so many tokens: kernels round differently at every width, and what is kept of
a text must not depend on what was read beside it."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadIds:
    """What a model keeps of ids it has read: enough to go on behind them."""

    states: States
    last: Tensor
    """[E], the final hidden state of the last token, which predicts what comes next."""

    @property
    def nbytes(self) -> int:
        """Bytes it takes."""
        return self.states.keys.nbytes + self.states.values.nbytes + self.last.nbytes


def read_ids(base: BaseModel, rows: Sequence[Sequence[int]], adapter: AdapterRows | None = None) -> list[ReadIds]:
    """Read rows of ids, each alone, in batches of one width each; the model's lock is held for a batch at a time.

    Args:
        base: the model.
        rows: any number, none of them empty.
        adapter: shared by all; None: the bare model reads.

    Raises:
        Cancelled: before a batch: nobody waits for what this thread works for.
        DeadlineExceeded: the time for it is over.
    """
    # Padded on the right: a token looks back only, so none ever sees its row's padding.
    widths = [min(-(-len(row) // _WIDTHS) * _WIDTHS, base.context_window) for row in rows]
    found: dict[int, ReadIds] = {}
    for batch in batches(widths, alike=True):
        _check_wanted()
        lengths = [len(rows[i]) for i in batch]
        width = widths[batch[0]]
        ids = torch.zeros(len(batch), width, dtype=torch.long)  # [R, S]
        for at, i in enumerate(batch):
            ids[at, : lengths[at]] = torch.tensor(rows[i])
        positions = torch.arange(width, device=base.device).expand(len(batch), -1)
        with base.lock, torch.inference_mode():
            cache = base.passes.room(len(batch), width)
            hidden = base.passes.run(ids.to(base.device), positions, cache, adapters=adapter)
            for at, i in enumerate(batch):
                keys, values = (
                    torch.stack([layer[at, side, :, : lengths[at]] for layer in cache.layers]) for side in (0, 1)
                )
                found[i] = ReadIds(States(keys, values), hidden[at, lengths[at] - 1].clone())
    return [found[i] for i in range(len(rows))]


def _check_wanted() -> None:
    """Read nothing that nobody waits for."""
    cancel = heeded()
    if cancel.reason is not None:
        raise Cancelled(f"The answer was cancelled while its texts were read: {cancel.reason}.")
    if cancel.is_late:
        raise DeadlineExceeded("The time for an answer was over while its texts were read. Give it more, or ask later.")


def compile_states(base: BaseModel, rows: Sequence[Sequence[int]]) -> list[States]:
    """Encode rows of ids with the bare base model and keep the key/value states of every layer."""
    return [read.states for read in read_ids(base, rows)]


def batches(lengths: Sequence[int], *, alike: bool = False) -> Iterator[list[int]]:
    """Group rows of like length, or of the very same, the longest first: the first row of a batch is its width."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        width = lengths[batch[0]] if batch else 0
        if batch and (width * (len(batch) + 1) > BATCH_TOKENS or (alike and lengths[row] != width)):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
