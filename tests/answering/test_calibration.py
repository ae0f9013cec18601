"""How sure an answer is: of its tokens, and of what its evidence gains."""

import math
from collections.abc import Sequence

import pytest

from plume_memory.answering.calibration import confidence, mean_log_probability
from plume_memory.policy import Calibration
from plume_memory.records import ScoredUnit, TokenTrace, Unit


def traced(*log_probs: float, token: int | None = None) -> tuple[TokenTrace, ...]:
    """Tokens that differ, or one again and again."""
    return tuple(
        TokenTrace(at if token is None else token, "a", 0.0, 0.0, log_prob) for at, log_prob in enumerate(log_probs)
    )


def sure(*log_probs: float, calibration: Calibration | None = None, gains: Sequence[float | None] = ()) -> float:
    units = [ScoredUnit(Unit(n, 1, 0, 1, "a"), 0.5, gain) for n, gain in enumerate(gains)]
    return confidence(traced(*log_probs), units, calibration or Calibration())


def odds(p: float) -> float:
    return math.log(p / (1 - p))


def test_confidence_is_the_geometric_mean_of_the_tokens_probabilities() -> None:
    assert sure(math.log(0.9), math.log(0.4)) == pytest.approx(0.6)
    assert sure(math.log(0.25)) == pytest.approx(0.25)


def test_saying_it_again_and_again_makes_an_answer_no_surer() -> None:
    loop = traced(math.log(0.4), *[math.log(0.9)] * 30, token=1)
    assert math.exp(mean_log_probability(loop)) == pytest.approx(0.4)
    assert confidence(loop, [], Calibration()) == pytest.approx(0.4), "one token, thirty times more"
    other = traced(math.log(0.4), *[math.log(0.9)] * 30)
    assert confidence(other, [], Calibration()) > 0.85, "where each is another they all count"


def test_a_calibration_moves_its_log_odds_and_keeps_the_order() -> None:
    plain = [sure(math.log(p)) for p in (0.2, 0.5, 0.9)]
    fitted = Calibration(slope=2.0, offset=-1.0)
    moved = [sure(math.log(p), calibration=fitted) for p in (0.2, 0.5, 0.9)]

    assert plain == pytest.approx([0.2, 0.5, 0.9])
    assert [odds(p) for p in moved] == pytest.approx([2 * odds(p) - 1 for p in plain])
    assert moved == sorted(moved)


def test_what_the_question_gains_by_the_evidence_moves_them_too() -> None:
    """The best of its units counts; without a unit nothing was gained."""

    def moved(*gains: float | None) -> float:
        return odds(sure(math.log(0.5), calibration=Calibration(offset=-1.0, per_nat=2.0), gains=gains))

    assert moved() == pytest.approx(-1.0)
    assert moved(1.5, None, 0.5) == pytest.approx(2.0)
    assert moved(-0.5) == pytest.approx(-2.0)
    assert sure(math.log(0.5), gains=(3.0,)) == pytest.approx(0.5), "not without a calibration"


def test_a_calibration_that_counts_gains_is_of_no_answer_whose_evidence_nobody_read() -> None:
    fitted = Calibration(slope=3.0, offset=-1.0, per_nat=2.0)
    assert sure(math.log(0.4), calibration=fitted, gains=(None, None)) == pytest.approx(0.4)
    without_gains = Calibration(offset=-1.0)
    assert odds(sure(math.log(0.5), calibration=without_gains, gains=(None,))) == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("log_probs", "expected"), [((), 0.0), ((0.0, 0.0), 1.0), ((-2000.0,), 0.0), ((-math.inf,), 0.0)]
)
def test_the_ends_of_the_scale_are_reached_without_an_error(log_probs: tuple[float, ...], expected: float) -> None:
    for calibration in (Calibration(), Calibration(slope=0.5, offset=3.0, per_nat=0.2)):
        found = sure(*log_probs, calibration=calibration, gains=(4.0,))
        assert 0 <= found <= 1
        assert found == pytest.approx(expected, abs=1e-3)
