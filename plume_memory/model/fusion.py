"""Two next-token distributions into one (METHOD: adaptive decoding).

Legend: N queries, V vocabulary.

    d_t = JS(p_e ‖ p_g)   λ_t = λ_max · d_t / (d_t + τ)   S_t(v) = log p_g(v) + λ_t · log p_e(v)

JS is in nats, so it lies in [0, ln 2]; τ is on that scale. All arithmetic is float32.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Fused(NamedTuple):
    """One fused step."""

    scores: Tensor
    """S_t, float32 [N, V]; not normalised."""
    js: Tensor
    """d_t in nats, float32 [N]."""
    weight: Tensor
    """λ_t, float32 [N]."""
    global_log_probs: Tensor
    """log p_g, float32 [N, V]."""
    evidence_log_probs: Tensor
    """log p_e, float32 [N, V]."""


def js_divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats of two log-distributions [N, V] → [N].

    JS = ½ KL(p ‖ m) + ½ KL(q ‖ m) with m = ½(p + q); clamped at 0 against rounding.
    """
    log_m = torch.logaddexp(log_p, log_q) - torch.log(torch.tensor(2.0))
    p, q = log_p.exp(), log_q.exp()
    # An impossible token (log-probability −inf) contributes 0, not 0 · (−inf + inf) = nan.
    p_part = torch.where(p > 0, p * (log_p - log_m), 0.0)
    q_part = torch.where(q > 0, q * (log_q - log_m), 0.0)
    return (0.5 * (p_part + q_part).sum(-1)).clamp_min(0.0)


def fuse(global_logits: Tensor, evidence_logits: Tensor, *, lambda_max: float | Tensor, tau: float | Tensor) -> Fused:
    """Fuse the two streams' logits [N, V] of any floating dtype; λ_max and τ are one number each or [N].

    Law: with identical streams JS is 0, λ is 0 and the scores are log p_g.
    """
    log_g = torch.log_softmax(global_logits.float(), dim=-1)
    log_e = torch.log_softmax(evidence_logits.float(), dim=-1)
    js = js_divergence(log_e, log_g)
    weight = lambda_max * js / (js + tau)
    scaled = weight[:, None] * log_e
    # λ = 0 must mean "the evidence has no say", also where it calls a token impossible (0 · −inf).
    scores = log_g + torch.where(weight[:, None] > 0, scaled, 0.0)
    return Fused(scores, js, weight, log_g, log_e)


def pooled_log_probs(fused: Fused) -> Tensor:
    """Log-probabilities [N, V] of both streams' geometric mean, weighted 1 and λ_t and normalised; float32.

    The fused scores divided by 1 + λ_t: the same order of tokens, at the temperature of one stream.
    """
    return torch.log_softmax(fused.scores / (1 + fused.weight[:, None]), dim=-1)
