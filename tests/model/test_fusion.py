"""Fusion against a slow literal transcription of the method's equations."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.model.fusion import fuse, js_divergence

VOCABULARY = 6


def literal_js(p: list[float], q: list[float]) -> float:
    total = 0.0
    for a, b in zip(p, q, strict=True):
        m = (a + b) / 2
        total += 0.5 * (a * math.log(a / m) if a else 0.0)
        total += 0.5 * (b * math.log(b / m) if b else 0.0)
    return total


logits = st.lists(st.floats(-8, 8), min_size=VOCABULARY, max_size=VOCABULARY)


@given(logits, logits, st.floats(0, 3), st.floats(0.05, 2))
def test_fuse_equals_the_equations(g: list[float], e: list[float], lambda_max: float, tau: float) -> None:
    fused = fuse(torch.tensor([g]), torch.tensor([e]), lambda_max=lambda_max, tau=tau)

    p_g = torch.tensor(g, dtype=torch.float64).softmax(-1)
    p_e = torch.tensor(e, dtype=torch.float64).softmax(-1)
    d = literal_js(p_e.tolist(), p_g.tolist())
    weight = lambda_max * d / (d + tau)
    assert float(fused.js) == pytest.approx(d, abs=1e-5)
    assert float(fused.weight) == pytest.approx(weight, abs=1e-4)
    torch.testing.assert_close(fused.scores[0].double(), p_g.log() + weight * p_e.log(), atol=2e-3, rtol=1e-4)


def test_js_is_symmetric_and_reaches_ln_2_for_disjoint_distributions() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0, 0.0]]).log()
    q = torch.tensor([[0.0, 0.0, 0.25, 0.75]]).log()

    assert float(js_divergence(p, q)) == pytest.approx(math.log(2), abs=1e-6)
    assert float(js_divergence(p, q)) == pytest.approx(float(js_divergence(q, p)))


def test_identical_streams_give_lambda_zero_and_the_global_scores() -> None:
    g = torch.randn(3, 11, generator=torch.Generator().manual_seed(0))

    fused = fuse(g, g.clone(), lambda_max=1.0, tau=0.3)

    assert fused.weight.abs().max() < 1e-5
    torch.testing.assert_close(fused.scores, g.log_softmax(-1), atol=1e-4, rtol=0)


def test_an_impossible_token_of_the_evidence_has_no_say_when_lambda_is_zero() -> None:
    e = torch.tensor([[0.0, -math.inf, 0.0]])

    fused = fuse(torch.tensor([[0.0, 1.0, 0.0]]), e, lambda_max=0.0, tau=0.3)

    assert torch.isfinite(fused.scores).all()
