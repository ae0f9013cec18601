"""The context encoder: the frozen base model, read layer by layer while it runs.

Legend: B chunks, S tokens, D hidden size, n decoder blocks.

The features of layer l are the hidden state that enters block l, [B, S, D]; layer 0 sees the embeddings
(scaled, where the model scales them) and the last one passes the model's final norm, because the
reference drops the last block and keeps the norm. They are handed on one at a time, so the memory
is that of one layer. Knows nothing of what is done with them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from plume_memory.errors import ModelError
from plume_memory.model.adapters import Place, attached

Visit = Callable[[int, Tensor], None]
"""Called with (layer, features [B, S, D]) as soon as the features of a layer exist."""


class _LastLayerSeen(Exception):
    """Ends a forward pass: no one needs what comes after."""


def stream_features(model: nn.Module, ids: Tensor, mask: Tensor, visit: Visit, *, layers: int | None = None) -> None:
    """Run the base model over right-padded chunks and visit the features of each layer in turn.

    Neither the last visited block nor anything after it is computed. The model is left as it was, on
    an exception too. No gradients.

    Args:
        model: a Hugging Face `*ForCausalLM` of the llama, mistral, qwen2, qwen3 or gemma2 family, with
            no adapter attached.
        ids: [B, S] int64 on the model's device.
        mask: [B, S], 1 for a token and 0 for padding.
        visit: receives layers 0, 1, … `layers` − 1; must not keep the features it is given.
        layers: how many; all decoder blocks by default.

    Raises:
        ModelError: the model has no decoder blocks under `.model.layers`, or fewer than `layers`.
    """
    decoder = _decoder(model)
    blocks: nn.ModuleList = decoder.layers
    count = len(blocks) if layers is None else layers
    if not 1 <= count <= len(blocks):
        raise ModelError(f"Features of {count} layers were asked for; the model has {len(blocks)} blocks.")
    with torch.no_grad(), attached(model, watch=_visiting(decoder, count, visit)):
        try:
            decoder(input_ids=ids, attention_mask=mask, use_cache=False)
        except _LastLayerSeen:
            return
    raise ModelError(f"{type(model).__name__} never ran block {count - 1}; its forward is unknown.")


def block_count(model: nn.Module) -> int:
    """Return the number of decoder blocks.

    Raises:
        ModelError: the model has no decoder blocks under `.model.layers`.
    """
    return len(_decoder(model).layers)


def _visiting(decoder: Any, count: int, visit: Visit) -> dict[Place, Callable[[Tensor], None]]:
    """What is seen of the first `count` blocks of a decoder; the last of them ends the pass."""

    def see_of(layer: int) -> Callable[[Tensor], None]:
        def see(hidden: Tensor) -> None:
            if layer < count - 1:
                visit(layer, hidden)
                return
            visit(layer, decoder.norm(hidden))
            raise _LastLayerSeen

        return see

    return {(layer, ""): see_of(layer) for layer in range(count)}


def _decoder(model: nn.Module) -> Any:
    decoder = getattr(model, "model", None)
    if not isinstance(getattr(decoder, "layers", None), nn.ModuleList) or not hasattr(decoder, "norm"):
        raise ModelError(
            f"{type(model).__name__} has no decoder blocks under `.model.layers` with a `.model.norm`; "
            "expected a Hugging Face causal model of the llama, mistral, qwen2, qwen3 or gemma2 family."
        )
    return decoder
