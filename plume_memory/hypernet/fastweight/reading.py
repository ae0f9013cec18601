"""What the frozen base model shows the network of a text, in one forward pass.

Legend: B texts, T tokens, L adapted layers, D residual width, F MLP width.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from plume_memory.model.adapters import Place
from plume_memory.model.base import BaseModel
from plume_memory.model.key_values import Passes
from plume_memory.model.reading import compile_states
from plume_memory.model.states import States


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """States of a batch of texts, read behind the chat frame's head.

    Of the head, its last place is kept where that was asked for: what follows there is the text's first token. T is
    at least one more than the longest text: what follows a text is padding (id 0), its embedding left out.
    """

    hidden: Tensor
    """[L, B, T, D] what enters each adapted layer."""
    activations: Tensor
    """[L, B, T, F] what enters its `down_proj`."""
    shared: Tensor
    """[B, T, D] what enters the mixer's layer."""
    following: Tensor
    """[B, T, D] embedding of the token after each one; zero after the last."""
    mask: Tensor
    """[B, T] bool, False for padding."""
    is_led: bool = False
    """Whether the first place is the one before the text."""


class _Read(Exception):
    """Ends a forward pass: no one needs what comes after."""


def read_texts(
    passes: Passes,
    texts: Sequence[Sequence[int]],
    head: Sequence[int],
    layers: Sequence[int],
    shared_layer: int,
    *,
    first_token: bool = False,
    head_states: States | None = None,
) -> Reading:
    """Run the base model over texts and keep what the network writes from. No gradients.

    Args:
        passes: of the base model; its lock is held by the caller.
        texts: ids of each text, without any frame; none is empty.
        head: ids that the chat frame puts before a user's words; every text is read behind them.
        layers: the adapted layers.
        shared_layer: the layer whose input is kept as `shared`.
        first_token: keep the place before each text, the head's last one, where the head has any.
        head_states: of the head, read once (`read_head`), so that it is not read again with every batch.
    """
    device = passes.device
    before = min(int(first_token), len(head))
    skip = len(head) - before
    # One place of padding at least: the last token of every text, also of the longest, has one after it, so what
    # it stores is the same alone and in a batch. Rounded up: every new shape makes the CPU's matrix library compile
    # its kernels anew.
    first = 0 if head_states is None else head_states.tokens  # of the columns that are read now
    width = first + -(-(max(map(len, texts)) + len(head) - first + 1) // 16) * 16
    rows = [[*head, *text, *[0] * (width - len(head) - len(text))] for text in texts]
    ids = torch.tensor(rows, device=device)
    lengths = torch.tensor([before + len(text) for text in texts], device=device)
    mask = torch.arange(width - skip, device=device) < lengths[:, None]
    kept: dict[tuple[str, int], Tensor] = {}
    positions = torch.arange(first, width, device=device).expand(len(rows), -1)
    with torch.no_grad():
        cache = None
        if head_states is not None:
            cache = passes.room(len(rows), width)
            for row in range(len(rows)):
                cache.write(row, head_states.keys, head_states.values)
        with suppress(_Read):  # padded on the right: no real token sees it
            watch = _keeping(layers, shared_layer, skip - first, kept)
            passes.run(ids[:, first:], positions, cache, watch=watch)
        embedded = passes.embedded(ids[:, skip:])
        following = torch.zeros_like(embedded)
        following[:, :-1] = embedded[:, 1:] * mask[:, 1:, None]
    return Reading(
        torch.stack([kept["hidden", layer] for layer in layers]),
        torch.stack([kept["activations", layer] for layer in layers]),
        kept["hidden", shared_layer],
        following,
        mask,
        is_led=before > 0,
    )


def read_head(base: BaseModel, *, first_token: bool) -> States | None:
    """What is read before every text, but for the place that `first_token` keeps; None where that is nothing."""
    head = base.chat.prefix_ids()
    head = head[: len(head) - min(int(first_token), len(head))]
    return compile_states(base, [head])[0] if head else None


def _keeping(
    layers: Sequence[int], shared_layer: int, skip: int, kept: dict[tuple[str, int], Tensor]
) -> dict[Place, Callable[[Tensor], None]]:
    """What is kept of the layers; the last adapted one ends the pass."""

    def keep_hidden(layer: int) -> Callable[[Tensor], None]:
        def see(hidden: Tensor) -> None:
            kept["hidden", layer] = hidden[:, skip:]

        return see

    def keep_activations(layer: int) -> Callable[[Tensor], None]:
        def see(activations: Tensor) -> None:
            kept["activations", layer] = activations[:, skip:]
            if layer == max(*layers, shared_layer):
                raise _Read

        return see

    wanted = sorted({*layers, shared_layer})
    found: dict[Place, Callable[[Tensor], None]] = {(layer, ""): keep_hidden(layer) for layer in wanted}
    return found | {(layer, "mlp.down_proj"): keep_activations(layer) for layer in wanted}
