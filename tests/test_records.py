"""What values say of themselves."""

import pytest

from plume_memory.records import Answer, ScoredUnit, TokenTrace, Unit, Usage, best_gain


def answer(*weights: float) -> Answer:
    trace = tuple(TokenTrace(1, "a", 0.0, weight, -0.1) for weight in weights)
    return Answer("a", "m", 1, None, Usage(3, len(trace)), "stop", 0.75, trace)


def test_the_mean_weight_is_that_of_the_answers_tokens() -> None:
    assert answer(1.0, 0.5, 0.0).mean_weight == pytest.approx(0.5)
    assert answer().mean_weight == 0.0
    assert answer(1.0, 0.5).usage.total_tokens == 5


def test_the_best_gain_is_of_the_units_that_were_read() -> None:
    def units(*gains: float | None) -> list[ScoredUnit]:
        return [ScoredUnit(Unit(n, 1, 0, 1, "a"), 0.5, gain) for n, gain in enumerate(gains)]

    assert best_gain(units(None, -2.0, 1.5)) == 1.5
    assert best_gain(units(-2.0)) == -2.0
    assert best_gain(units(None, None)) is None
    assert best_gain([]) is None


def test_units_are_equal_that_have_one_score_whatever_else_was_found_of_them() -> None:
    unit = Unit(0, 1, 0, 1, "a")
    assert ScoredUnit(unit, 0.5, 3.0, superseded=True) == ScoredUnit(unit, 0.5)
    assert ScoredUnit(unit, 0.5) != ScoredUnit(unit, 0.4)
