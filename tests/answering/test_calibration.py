"""How sure an answer is: of its tokens, and of what its evidence gains."""

import math
from dataclasses import replace

import pytest

from plume_memory.answering.calibration import confidence, mean_log_probability
from plume_memory.policy import Calibration
from plume_memory.records import Signals, TokenTrace


def traced(*log_probs: float, token: int | None = None) -> tuple[TokenTrace, ...]:
    """Tokens that differ, or one again and again."""
    return tuple(
        TokenTrace(at if token is None else token, "a", 0.0, 0.0, log_prob) for at, log_prob in enumerate(log_probs)
    )


def sure(*log_probs: float, calibration: Calibration | None = None, gain: float | None = None) -> float:
    return confidence(Signals(mean_log_probability(traced(*log_probs)), gain), calibration or Calibration())


def odds(p: float) -> float:
    return math.log(p / (1 - p))


def test_confidence_is_the_geometric_mean_of_the_tokens_probabilities() -> None:
    assert sure(math.log(0.9), math.log(0.4)) == pytest.approx(0.6)
    assert sure(math.log(0.25)) == pytest.approx(0.25)


def test_saying_it_again_and_again_makes_an_answer_no_surer() -> None:
    loop = traced(math.log(0.4), *[math.log(0.9)] * 30, token=1)
    assert math.exp(mean_log_probability(loop)) == pytest.approx(0.4)
    other = traced(math.log(0.4), *[math.log(0.9)] * 30)
    assert math.exp(mean_log_probability(other)) > 0.85, "where each is another they all count"


def test_a_calibration_moves_its_log_odds_and_keeps_the_order() -> None:
    plain = [sure(math.log(p)) for p in (0.2, 0.5, 0.9)]
    fitted = Calibration(slope=2.0, offset=-1.0)
    moved = [sure(math.log(p), calibration=fitted) for p in (0.2, 0.5, 0.9)]

    assert plain == pytest.approx([0.2, 0.5, 0.9])
    assert [odds(p) for p in moved] == pytest.approx([2 * odds(p) - 1 for p in plain])
    assert moved == sorted(moved)


def test_every_signal_moves_them_by_its_weight() -> None:
    own = Signals(math.log(0.5), gain=1.5, answerable=-2.0, support=3.0)
    fitted = Calibration(offset=-1.0, per_nat=2.0, answerable=0.5, support=0.25)
    assert odds(confidence(own, fitted)) == pytest.approx(-1.0 + 3.0 - 1.0 + 0.75)
    assert confidence(own, Calibration()) == pytest.approx(0.5), "not without a calibration"


@pytest.mark.parametrize("missing", ["gain", "answerable", "support"])
def test_a_calibration_is_of_no_answer_that_lacks_a_signal_it_counts(missing: str) -> None:
    whole = Signals(math.log(0.4), gain=1.0, answerable=1.0, support=1.0)
    fitted = Calibration(slope=3.0, offset=-1.0, per_nat=2.0, answerable=1.0, support=1.0)
    lacking = replace(whole, **{missing: None})
    assert confidence(whole, fitted) != pytest.approx(0.4)
    assert confidence(lacking, fitted) == pytest.approx(0.4)
    without = fitted.model_copy(update={"per_nat" if missing == "gain" else missing: 0.0})
    assert odds(confidence(lacking, without)) == pytest.approx(odds(confidence(whole, without)))


@pytest.mark.parametrize(("log_probs", "expected"), [((0.0, 0.0), 1.0), ((-2000.0,), 0.0), ((-math.inf,), 0.0)])
def test_the_ends_of_the_scale_are_reached_without_an_error(log_probs: tuple[float, ...], expected: float) -> None:
    for calibration in (Calibration(), Calibration(slope=0.5, offset=3.0, per_nat=0.2)):
        found = sure(*log_probs, calibration=calibration, gain=4.0)
        assert 0 <= found <= 1
        assert found == pytest.approx(expected, abs=1e-3)
