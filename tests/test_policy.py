"""The numbers that decide an answer: the paper's, what may be set beside what, and what a network brings."""

from typing import Any

import pytest
from pydantic import ValidationError

from plume_memory.errors import InvalidInput
from plume_memory.policy import AnswerPolicy, Calibration
from plume_memory.testing import tiny_engine

PAPER = {
    "alpha": 1.0,
    "beta": 0.75,
    "chunk_tokens": 8192,
    "delta": 0.5,
    "lambda_max": 1.0,
    "tau": 0.3,
    "max_new_tokens": 256,
    "evidence_units": 1,
}
"""METHOD, its table of settings."""
BEYOND = {
    "retrieval": "lexical",
    "evidence": "adapter",
    "global_windows": "sum",
    "lead": None,
    "min_gain": None,
    "retry_scale": None,
}
"""The method without what goes beyond it."""

BROUGHT = AnswerPolicy(
    lambda_max=10.0,
    tau=0.05,
    retrieval="reader",
    evidence_units=3,
    lead=0.5,
    min_gain=8.0,
    retry_scale=3.0,
)
"""What a network brings."""


# --- the paper's ----------------------------------------------------------------------------------


def test_the_defaults_are_the_papers() -> None:
    found = AnswerPolicy().model_dump()
    assert {name: found[name] for name in PAPER} == PAPER
    assert {name: found[name] for name in BEYOND} == BEYOND


def test_the_papers_policy_sets_everything_and_overrides_whatever_a_network_brings() -> None:
    paper = AnswerPolicy.paper()
    assert paper == AnswerPolicy()
    assert paper.model_fields_set == set(AnswerPolicy.model_fields)
    assert AnswerPolicy().model_fields_set == set()
    assert paper.over(BROUGHT) == paper


# --- what is dead without another -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "name", "needs"),
    [
        ({"min_gain": 8.0}, "min_gain", "set retrieval='reader'"),
        ({"lead": 0.5, "evidence_units": 3}, "lead", "set retrieval='reader'"),
        ({"lead": 0.5, "retrieval": "reader"}, "lead", "set evidence_units above 1"),
        ({"delta": 0.4, "retrieval": "reader"}, "delta", "set retrieval='lexical'"),
        ({"retry_scale": 3.0, "evidence": "states"}, "retry_scale", "set evidence='adapter' or 'both'"),
    ],
)
def test_what_does_nothing_beside_the_rest_is_refused_by_an_engine(
    values: dict[str, Any], name: str, needs: str
) -> None:
    with pytest.raises(InvalidInput, match=f"{name} .*{needs}"):
        tiny_engine(policy=AnswerPolicy(**values))


def test_every_dead_value_is_named() -> None:
    with pytest.raises(InvalidInput) as refused:
        AnswerPolicy(evidence="states", lead=0.5, min_gain=8.0, retry_scale=3.0).checked()
    for name in ("lead", "min_gain", "retry_scale"):
        assert f"{name} " in str(refused.value)


def test_a_part_of_a_policy_counts_beside_what_a_network_brings() -> None:
    """`min_gain` alone is dead, and over a network whose units are read it is not."""
    assert AnswerPolicy(min_gain=5.0).over(BROUGHT).checked().min_gain == 5.0


@pytest.mark.parametrize(
    "values",
    [
        {"retrieval": "reader", "evidence_units": 2, "min_gain": 0.0},
        {"retrieval": "reader", "min_gain": -1.0},
        {"evidence": "both", "retry_scale": 3.0},
        {"retry_scale": 3.0},
        {"evidence": "states", "retry_scale": None},
        {"evidence_units": 3},
    ],
)
def test_what_does_something_or_is_nothing_is_taken(values: dict[str, Any]) -> None:
    assert AnswerPolicy(**values).checked().model_dump() == {**AnswerPolicy().model_dump(), **values}


@pytest.mark.parametrize(
    "values",
    [
        {"alpha": -0.1},
        {"beta": float("nan")},
        {"tau": 0.0},
        {"lambda_max": float("inf")},
        {"chunk_tokens": 15},
        {"unit_tokens": 7},
        {"max_new_tokens": 0},
        {"evidence_units": 0},
        {"retry_scale": 0.0},
        {"retrieval": "likelihood"},
        {"evidence": "kv"},
        {"recency_margin": 0.5},
    ],
)
def test_a_value_out_of_its_range_and_an_unknown_one_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AnswerPolicy(**values)


def test_a_policy_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        AnswerPolicy().beta = 1.0  # type: ignore[misc]


# --- over what a network brings -------------------------------------------------------------------


def test_what_is_set_overrides_and_the_rest_is_what_the_network_brings() -> None:
    found = AnswerPolicy(retrieval="reader", min_gain=5.0, tau=0.3).over(BROUGHT)
    assert found == BROUGHT.model_copy(update={"min_gain": 5.0, "tau": 0.3})
    assert AnswerPolicy().over(BROUGHT) == BROUGHT
    assert AnswerPolicy(min_gain=None).over(BROUGHT).min_gain is None, "set to its default it is set"


@pytest.mark.parametrize(
    ("own", "dropped"),
    [
        ({"retrieval": "lexical"}, {"lead": None, "min_gain": None}),
        ({"evidence_units": 1}, {"lead": None}),
        ({"evidence": "states"}, {"retry_scale": None}),
        ({"retrieval": "lexical", "evidence": "states"}, {"lead": None, "min_gain": None, "retry_scale": None}),
        ({"evidence": "both"}, {}),
    ],
)
def test_what_a_network_brings_is_dropped_where_it_is_dead_beside_what_is_set(
    own: dict[str, Any], dropped: dict[str, Any]
) -> None:
    found = AnswerPolicy(**own).over(BROUGHT)
    assert found.model_dump() == {**BROUGHT.model_dump(), **own, **dropped}


def test_what_is_set_and_dead_beside_what_a_network_brings_is_refused() -> None:
    """It was meant: dropping it would be silent."""
    with pytest.raises(InvalidInput, match="retry_scale"):
        AnswerPolicy(retry_scale=3.0).over(AnswerPolicy(evidence="states")).checked()


# --- fingerprints ---------------------------------------------------------------------------------


def test_every_value_parts_the_fingerprints_of_engines() -> None:
    """With a log prefix a fingerprint determines every answer."""
    other: dict[str, Any] = {
        "alpha": 0.5,
        "beta": 0.5,
        "chunk_tokens": 64,
        "chunking": "near_equal",
        "unit_tokens": 64,
        "delta": 0.1,
        "lambda_max": 2.0,
        "tau": 0.1,
        "max_new_tokens": 9,
        "retrieval": "lexical",
        "evidence": "both",
        "global_windows": "mean",
        "evidence_units": 3,
        "lead": 0.5,
        "min_gain": 8.0,
        "supersedes_at": 0.9,
        "known_at": 0.5,
        "retry_scale": 3.0,
    }
    assert set(other) == set(AnswerPolicy.model_fields)
    base = {"retrieval": "reader", "evidence_units": 2}
    other_base = {"delta": {"retrieval": "lexical"}}  # it counts there alone
    plain = tiny_engine(policy=AnswerPolicy(**base))
    prints = {
        plain.composed_with(AnswerPolicy(**{**base, **other_base.get(name, {}), name: value})).fingerprint
        for name, value in other.items()
    }
    assert len(prints | {plain.fingerprint}) == len(other) + 1


def test_a_calibration_is_the_identity_by_default_and_holds_numbers() -> None:
    assert Calibration().model_dump() == {
        "slope": 1.0,
        "offset": 0.0,
        "per_nat": 0.0,
        "answerable": 0.0,
        "support": 0.0,
    }
    with pytest.raises(ValidationError):
        Calibration(slope=float("nan"))
    with pytest.raises(ValidationError):
        Calibration(bias=1.0)  # type: ignore[call-arg]
