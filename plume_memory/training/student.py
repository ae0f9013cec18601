"""The frozen base model with an adapter per row, and what it makes of packed items.

Legend: R rows, W width, D residual width, N target tokens.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from plume_memory.model.adapters import AdapterRows, attached
from plume_memory.model.base import BaseModel
from plume_memory.model.packing import attention_mask
from plume_memory.training.packing import Packed


def target_logits(base: BaseModel, packed: Packed, rows: AdapterRows | None) -> Tensor:
    """Run the student over packed rows; see `target_states`.

    Returns:
        Logits [N, vocabulary] in the model's dtype, one row per target token.
    """
    return base.logits(target_states(base, packed, rows))


def target_states(base: BaseModel, packed: Packed, rows: AdapterRows | None) -> Tensor:
    """Run the student over packed rows.

    Gradients flow into the adapters and nowhere else; below the lowest adapted layer nothing is kept. The adapters act
    where the packed rows' gate lets them.

    Returns:
        Final hidden states [N, D] in the model's dtype, of the token before each target.
    """
    adapters = rows if rows is None or packed.gate is None else replace(rows, gate=packed.gate)
    with attached(base.model, adapters), _plain_attention(base):
        hidden = base.model.model(
            input_ids=packed.ids,
            attention_mask=attention_mask(base.model.config, packed.positions, packed.mask),
            position_ids=packed.positions,
            use_cache=False,
        ).last_hidden_state
    states: Tensor = hidden.flatten(0, 1)[packed.at]
    return states


@contextmanager
def _plain_attention(base: BaseModel) -> Iterator[None]:
    """On a CPU, attention in plain operations: the backward pass of the fused kernel is slow on short sequences."""
    model: Any = base.model
    own = model.config._attn_implementation
    if base.device.type != "cpu" or own == "eager":
        yield
        return
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(own)


def token_losses(logits: Tensor, packed: Packed) -> Tensor:
    """Cross-entropy [N] of each target token, float32 nats."""
    return F.cross_entropy(logits.float(), packed.targets, reduction="none")


def item_means(values: Tensor, packed: Packed, *, lead: float = 1.0) -> Tensor:
    """Mean [number of items] of per-token values over each item's tokens; words around an answer weigh `lead`."""
    weights = packed.in_answer.to(values.dtype) * (1 - lead) + lead
    total = values.new_zeros(len(packed.items)).index_add(0, packed.item, weights * values)
    return total / values.new_zeros(len(packed.items)).index_add(0, packed.item, weights)


def exact_items(logits: Tensor, packed: Packed) -> Tensor:
    """[number of items] bool: every token of the answer is the most likely one behind the words before it."""
    wrong = (~_are_likeliest(logits, packed.targets) & packed.in_answer).to(torch.int64)
    misses: Tensor = torch.zeros(len(packed.items), dtype=torch.int64, device=wrong.device)
    return misses.index_add(0, packed.item, wrong) == 0


def _are_likeliest(logits: Tensor, targets: Tensor) -> Tensor:
    """[N] bool: the target is the argmax. A CPU finds a largest value far faster than its place."""
    right = logits.gather(-1, targets[:, None])[:, 0] == logits.amax(-1)
    at = right.nonzero()[:, 0]
    right[at] = logits[at].argmax(-1) == targets[at]
    return right
