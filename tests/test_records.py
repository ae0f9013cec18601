"""What an answer says of itself."""

import math
from collections.abc import Sequence

import pytest

from plume_memory.records import Answer, ScoredUnit, TokenTrace, Unit, Usage


def _answer(
    *log_probs: float, calibration: tuple[float, float, float] = (1.0, 0.0, 0.0), gains: Sequence[float | None] = ()
) -> Answer:
    trace = tuple(TokenTrace(1, "a", 0.0, 0.0, log_prob) for log_prob in log_probs)
    units = tuple(ScoredUnit(Unit(n, 1, 0, 1, "a"), 0.5, True, gain) for n, gain in enumerate(gains))
    return Answer("a", "m", 1, None, Usage(1, len(trace)), "stop", trace, units, calibration)


def test_confidence_is_the_geometric_mean_of_the_tokens_probabilities() -> None:
    assert _answer(math.log(0.9), math.log(0.4)).confidence == pytest.approx(0.6)
    assert _answer(math.log(0.25)).confidence == pytest.approx(0.25)


def test_saying_it_again_and_again_makes_an_answer_no_surer() -> None:
    said, loop = [math.log(0.4)], [math.log(0.9)] * 30
    found = _answer(*said, *loop)
    assert found.confidence == pytest.approx(0.4), "one token, thirty times more"


def test_a_calibration_moves_its_log_odds_and_keeps_the_order() -> None:
    plain = [_answer(math.log(p)).confidence for p in (0.2, 0.5, 0.9)]
    moved = [_answer(math.log(p), calibration=(2.0, -1.0, 0.0)).confidence for p in (0.2, 0.5, 0.9)]

    assert plain == pytest.approx([0.2, 0.5, 0.9])
    assert moved == pytest.approx([1 / (1 + math.exp(1 - 2 * math.log(p / (1 - p)))) for p in (0.2, 0.5, 0.9)])
    assert moved == sorted(moved)


def test_what_the_question_gains_by_the_evidence_moves_them_too() -> None:
    """The best of its units counts; without a unit nothing was gained."""

    def odds(*gains: float | None) -> float:
        p = _answer(math.log(0.5), calibration=(1.0, -1.0, 2.0), gains=gains).confidence
        return math.log(p / (1 - p))

    assert odds() == pytest.approx(-1.0)
    assert odds(None) == pytest.approx(0.0), "nobody read its evidence: no calibration is of such answers"
    assert odds(1.5, None, 0.5) == pytest.approx(2.0)
    assert odds(-0.5) == pytest.approx(-2.0)
    assert _answer(math.log(0.5), gains=(3.0,)).confidence == pytest.approx(0.5), "not without a calibration"


@pytest.mark.parametrize(
    ("log_probs", "expected"), [((), 0.0), ((0.0, 0.0), 1.0), ((-2000.0,), 0.0), ((-math.inf,), 0.0)]
)
def test_the_ends_of_the_scale_are_reached_without_an_error(log_probs: tuple[float, ...], expected: float) -> None:
    assert _answer(*log_probs).confidence == pytest.approx(expected, abs=1e-6)
