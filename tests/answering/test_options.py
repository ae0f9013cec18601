"""What a caller may ask of a single decode, and what is refused."""

from typing import Any

import pytest

from plume_memory.answering.options import settings_of
from plume_memory.errors import InvalidInput
from plume_memory.model.grammar import Grammar
from plume_memory.model.queries import DecodeSettings
from plume_memory.policy import AnswerPolicy

POLICY = AnswerPolicy(max_new_tokens=40, lambda_max=3.0, tau=0.1)


def test_what_is_not_asked_for_is_the_policys() -> None:
    assert settings_of(POLICY, {}) == DecodeSettings(max_new_tokens=40, lambda_max=3.0, tau=0.1)
    assert settings_of(POLICY, {"max_new_tokens": None}) == settings_of(POLICY, {})


def test_what_is_asked_for_holds() -> None:
    grammar = Grammar.lark('start: "yes" | "no"')
    found = settings_of(
        POLICY,
        {"max_new_tokens": 9, "min_new_tokens": 2, "stop": ["\n", "END"], "top_candidates": 4, "grammar": grammar},
    )
    assert (found.max_new_tokens, found.min_new_tokens, found.top_candidates) == (9, 2, 4)
    assert (found.stop, found.grammar) == (("\n", "END"), grammar)
    assert (found.lambda_max, found.tau) == (3.0, 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
        ({"max_new_tokens": "9"}, "max_new_tokens must be a whole number, got '9'"),
        ({"min_new_tokens": -1}, "between 0 and max_new_tokens"),
        ({"min_new_tokens": 41}, r"between 0 and max_new_tokens \(40\), got 41"),
        ({"top_candidates": -1}, "top_candidates must be at least 0"),
        ({"stop": "END"}, r"a list of texts; write stop=\['END'\]"),
        ({"stop": ""}, r"a list of texts; write stop=\[''\]"),
        ({"stop": ["END", ""]}, "must not be empty"),
    ],
)
def test_a_value_out_of_its_range_is_refused(options: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        settings_of(POLICY, options)


@pytest.mark.parametrize("name", ["max_tokens", "tools", "lambda_max"])
def test_an_option_that_there_is_not_is_refused(name: str) -> None:
    """A misspelled one must not be the same as none."""
    options: Any = {"stop": ["END"], name: 5}
    with pytest.raises(TypeError, match=rf"no option '{name}' here; have max_new_tokens, .*grammar"):
        settings_of(POLICY, options)
