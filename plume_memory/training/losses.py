"""The objectives of one batch, each a scalar; what is summed at which weight is the settings' affair.

Legend: N target tokens of the packed rows, V vocabulary, I items.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from plume_memory.model.fusion import js_divergence
from plume_memory.training.packing import Packed
from plume_memory.training.student import item_means
from plume_memory.training.teacher import TopK


def mean_of(values: Tensor, chosen: Tensor) -> Tensor | None:
    """Mean over the chosen items [I] bool; None when there is none."""
    return values[chosen].mean() if bool(chosen.any()) else None


def of_kind(packed: Packed, *kinds: str) -> Tensor:
    """[I] bool: items of one of these kinds."""
    return torch.tensor([item.kind in kinds for item in packed.items], device=packed.targets.device)


def distillation(logits: Tensor, packed: Packed, asked: Sequence[int], taught: Sequence[TopK]) -> Tensor:
    """−Σ p log q over the teacher's top k, mean per item, then over items (D2L's objective).

    Args:
        logits: [N, V].
        packed: the batch.
        asked: indices of the items that have a teacher.
        taught: theirs.
    """
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    losses = []
    for item, top in zip(asked, taught, strict=True):
        own = log_probs[packed.item == item]
        losses.append(-(top.probabilities.to(own.device) * own.gather(1, top.ids.to(own.device))).sum(-1).mean())
    return torch.stack(losses).mean()


def divergence(logits: Tensor, reference: Tensor) -> Tensor:
    """KL(reference ‖ student) in nats of each token [n], from logits [n, V] of both."""
    log_q = torch.log_softmax(logits.float(), dim=-1)
    log_p = torch.log_softmax(reference.float(), dim=-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def fused(logits: Tensor, packed: Packed, pairs: Sequence[tuple[int, int]], *, lambda_max: float, tau: float) -> Tensor:
    """Cross-entropy of the answer under the fused distribution p ∝ p_g · p_e^λ, mean per item, then over items.

    λ is what decoding uses (METHOD: fusion), taken as a constant of the gradient.

    Args:
        logits: [N, V].
        packed: the batch.
        pairs: (global item, evidence item) of the same question and answer.
        lambda_max: of the fusion.
        tau: of the fusion.
    """
    index = torch.tensor(pairs, device=logits.device)
    at = [(packed.item == item).nonzero().flatten() for item in range(len(packed.items))]
    first = torch.cat([at[g] for g, _ in pairs])
    second = torch.cat([at[e] for _, e in pairs])
    log_g = torch.log_softmax(logits[first].float(), dim=-1)
    log_e = torch.log_softmax(logits[second].float(), dim=-1)
    with torch.no_grad():
        js = js_divergence(log_e, log_g)
        weight = lambda_max * js / (js + tau)
    losses = F.cross_entropy(log_g + weight[:, None] * log_e, packed.targets[first], reduction="none")
    owners = packed.item[first]
    total = losses.new_zeros(len(packed.items)).index_add(0, owners, losses)
    counts = torch.bincount(owners, minlength=len(packed.items)).clamp_min(1)
    return (total / counts)[index[:, 0]].mean()


def unlikelihood(logits: Tensor, packed: Packed) -> Tensor | None:
    """−log(1 − p(stale token)) where the outdated answer first differs from the current one; None without any."""
    at: list[int] = []
    stale: list[int] = []
    for n, item in enumerate(packed.items):
        if not item.stale_ids or item.kind != "answer":
            continue
        both = zip(item.stale_ids, item.target_ids, strict=False)
        place = next((i for i, (old, new) in enumerate(both) if old != new), None)
        if place is not None:
            at.append(int((packed.item == n).nonzero()[0]) + place)
            stale.append(item.stale_ids[place])
    if not at:
        return None
    own = logits[torch.tensor(at, device=logits.device)].float()
    # log(1 − p) over the other tokens: exact and with a gradient also where p rounds to 1
    others = own.scatter(1, torch.tensor(stale, device=own.device)[:, None], -torch.inf)
    return (own.logsumexp(-1) - others.logsumexp(-1)).mean()


def item_divergence(logits: Tensor, reference: Tensor, packed: Packed, chosen: Tensor) -> Tensor:
    """KL of the chosen items' tokens to a reference, mean per item, then over the chosen items.

    Args:
        logits: [N, V] of the whole batch.
        reference: [n, V] of the chosen items' tokens alone, in the same order.
        packed: the batch.
        chosen: [I] bool.
    """
    tokens = chosen[packed.item]
    values = logits.new_zeros(len(packed.targets), dtype=torch.float32)
    values = values.masked_scatter(tokens, divergence(logits[tokens], reference))
    return item_means(values, packed)[chosen].mean()
