"""Intervals and tests over records."""

import numpy as np
import pytest

from eval.metrics.confidence import compare, estimate, macro_estimate


def test_the_mean_is_over_questions_and_the_interval_over_records() -> None:
    found = estimate({"a": [1.0, 1.0, 1.0], "b": [0.0]})
    assert found is not None
    assert (found.mean, found.count, found.clusters) == (0.75, 4, 2)
    assert (found.low, found.high) == (0.0, 1.0), "a sample may be one record twice"


def test_questions_of_one_record_do_not_narrow_the_interval() -> None:
    draw = np.random.default_rng(0)
    means = {str(i): float(draw.random()) for i in range(30)}
    once = estimate({key: [mean] for key, mean in means.items()})
    often = estimate({key: [mean] * 50 for key, mean in means.items()})
    assert once is not None
    assert often is not None
    assert (once.low, once.high) == pytest.approx((often.low, often.high))


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """200 samples of 25 records with mean 0.5: 95 % nominal, a percentile bootstrap of 25 a little less."""
    draw = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        found = estimate({str(i): [float(x)] for i, x in enumerate(draw.random(25))})
        assert found is not None
        covered += found.low <= 0.5 <= found.high
    assert 0.88 <= covered / 200 <= 0.99


def test_the_macro_average_weighs_datasets_alike() -> None:
    found = macro_estimate([{"a": [1.0] * 9}, {"b": [0.0]}])
    assert found is not None
    assert (found.mean, found.count) == (0.5, 10)
    assert macro_estimate([{"a": [1.0]}, {}]) is None, "a missing dataset leaves no average"


def test_nothing_has_no_estimate() -> None:
    assert estimate({}) is None
    assert estimate({"a": []}) is None
    assert compare({"a": [1.0]}, {"b": [1.0]}) is None


def test_equal_methods_do_not_differ_and_a_constant_gain_does() -> None:
    draw = np.random.default_rng(2)
    base = {str(i): [float(x)] for i, x in enumerate(draw.random(20))}
    better = {key: [own[0] + 0.1] for key, own in base.items()}
    same, gain = compare(base, base), compare(better, base)
    assert same is not None
    assert gain is not None
    assert (same.difference, same.p_value) == (0.0, 1.0)
    assert gain.difference == pytest.approx(0.1)
    assert gain.p_value < 0.001
    assert gain.clusters == 20


def test_the_p_value_is_uniform_under_the_null() -> None:
    """100 comparisons of noise: about 5 below 0.05, at most 12 in 999 of 1000 worlds."""
    draw = np.random.default_rng(3)
    low = 0
    for _ in range(100):
        first, second = ({str(i): [float(x)] for i, x in enumerate(draw.random(15))} for _ in range(2))
        found = compare(first, second)
        assert found is not None
        low += found.p_value < 0.05
    assert low <= 12


def test_different_numbers_of_questions_are_not_compared() -> None:
    with pytest.raises(ValueError, match="different numbers of questions"):
        compare({"a": [1.0]}, {"a": [1.0, 0.0]})


def test_few_records_are_tested_exactly() -> None:
    """Six records that all gain: 2 of 64 signs are as extreme, and nothing can be smaller."""
    first, second = ({str(i): [x + i / 100] for i in range(6)} for x in (1.0, 0.5))
    found = compare(first, second)
    assert found is not None
    assert found.p_value == 2 / 64
