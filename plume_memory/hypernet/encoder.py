"""The context encoder: the frozen base model, read layer by layer while it runs.

Legend: B chunks, S tokens, D hidden size, n decoder blocks.

The features of layer l are the hidden state that enters block l, [B, S, D]; layer 0 sees the embeddings
(scaled, where the model scales them) and the last one passes the model's final norm, because the
reference drops the last block and keeps the norm. They are handed on one at a time, so the memory
is that of one layer. Knows nothing of what is done with them.
"""

from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

from plume_memory.errors import ModelError
from plume_memory.model.adapters import Place
from plume_memory.model.key_values import Passes, visible

Visit = Callable[[int, Tensor], None]
"""Called with (layer, features [B, S, D]) as soon as the features of a layer exist."""


class _LastLayerSeen(Exception):
    """Ends a forward pass: no one needs what comes after."""


def stream_features(passes: Passes, ids: Tensor, mask: Tensor, visit: Visit, *, layers: int | None = None) -> None:
    """Run the base model over right-padded chunks and visit the features of each layer in turn.

    Neither the last visited block nor anything after it is computed. No gradients.

    Args:
        passes: of the base model; its lock is held by the caller.
        ids: [B, S] int64 on the model's device.
        mask: [B, S], 1 for a token and 0 for padding.
        visit: receives layers 0, 1, … `layers` − 1; must not keep the features it is given.
        layers: how many; all decoder blocks by default.

    Raises:
        ModelError: the model has fewer than `layers` decoder blocks.
    """
    blocks = len(passes.windows)
    count = blocks if layers is None else layers
    if not 1 <= count <= blocks:
        raise ModelError(f"Features of {count} layers were asked for; the model has {blocks} blocks.")
    positions = torch.arange(ids.shape[1], device=ids.device).expand(len(ids), -1)
    seen = None if bool(mask.all()) else visible(positions, None, None) & mask.bool()[:, None, None, :]
    with torch.no_grad(), suppress(_LastLayerSeen):
        passes.run(ids, positions, mask=seen, watch=_visiting(passes, count, visit))


def _visiting(passes: Passes, count: int, visit: Visit) -> dict[Place, Callable[[Tensor], None]]:
    """What is seen of the first `count` blocks of a decoder; the last of them ends the pass."""

    def see_of(layer: int) -> Callable[[Tensor], None]:
        def see(hidden: Tensor) -> None:
            if layer < count - 1:
                visit(layer, hidden)
                return
            visit(layer, passes.normed(hidden))
            raise _LastLayerSeen

        return see

    return {(layer, ""): see_of(layer) for layer in range(count)}
