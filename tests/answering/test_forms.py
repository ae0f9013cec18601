"""An answer in a form: pieces of what was said in words, null where nothing bears, and what else the schema fixes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.answering.forms import filled_from, request, with_nothing
from plume_memory.memory import ParametricMemory
from plume_memory.model.grammar import Grammar, Limits
from plume_memory.policy import AnswerPolicy
from plume_memory.testing import tiny_engine
from tests.passes import watched

QUESTION = "Where does Anna work?"
SAID = "Anna works at Lumen Labs as a chemist."


def schema(**fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def field(grammar: Grammar, name: str = "a") -> Any:
    return json.loads(grammar.schema or "")["properties"][name]


def test_a_free_string_is_a_piece_that_says_what_the_question_does_not() -> None:
    found = field(filled_from(Grammar.json_schema(schema(a={"type": "string"})), SAID, QUESTION))["enum"]
    assert {"Lumen Labs", "chemist", "Lumen Labs as a chemist"} <= set(found)
    assert not {"Anna", "Lumen Labs as", "at Lumen Labs", "a chemist"} & set(found)


@pytest.mark.parametrize(
    ("given_as", "wanted"),
    [
        ({"type": ["string", "null"]}, {"anyOf": [{"enum": ["Lumen"]}, {"type": "null"}]}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"enum": ["Lumen"]}, {"type": "null"}]}),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"enum": ["Lumen"]}}),
        ({"type": "string", "enum": ["x", "y"]}, None),
        ({"type": "string", "pattern": "^x$"}, None),
        ({"type": "string", "format": "date"}, None),
        ({"type": "boolean"}, None),
        ({"type": "string", "maxLength": 2}, None),
        ({"type": "string", "maxLength": 9}, {"enum": ["Lumen"]}),
        ({"type": "integer"}, None),
    ],
)
def test_what_the_schema_settles_stays(given_as: dict[str, Any], wanted: dict[str, Any] | None) -> None:
    found = field(filled_from(Grammar.json_schema(schema(a=given_as)), "at Lumen.", QUESTION))
    assert found == (wanted or given_as)


def test_numbers_are_those_that_were_said() -> None:
    said = "It costs 1,250.50 francs for 14 nights, not 2.10.1."
    grammar = Grammar.json_schema(
        schema(a={"type": "number"}, b={"type": "integer"}, c={"type": "integer", "minimum": 3})
    )
    found = filled_from(grammar, said, "How much?")
    assert field(found) == {"enum": [1250.5, 14]}
    assert field(found, "b") == {"enum": [14]}
    assert field(found, "c") == {"type": "integer", "minimum": 3}
    for bound in ({"exclusiveMinimum": 0, "exclusiveMaximum": 6}, {"multipleOf": 5}):
        bounded = schema(a={"type": "integer", **bound})
        assert field(filled_from(Grammar.json_schema(bounded), said, "How much?")) == {"type": "integer", **bound}


def test_whatever_may_be_null_is_null_where_nothing_bears() -> None:
    grammar = Grammar.json_schema(
        schema(
            a={"type": ["string", "null"]},
            b={"anyOf": [{"type": "integer"}, {"type": "null"}]},
            c={"type": "string"},
            d=schema(a={"type": ["string", "null"]}),
        )
    )
    found = with_nothing(grammar)
    assert (field(found), field(found, "b"), field(found, "c")) == (
        {"type": "null"},
        {"type": "null"},
        {"type": "string"},
    )
    assert field(found, "d")["properties"]["a"] == {"type": "null"}
    assert with_nothing(Grammar.json_schema(schema(a={"type": "string"}))).schema is not None


def test_what_is_asked_for_names_the_keys() -> None:
    assert (
        request(Grammar.json_schema(schema(city={"type": "string"})))
        == 'Write this answer as JSON with the key "city".'
    )
    two = Grammar.json_schema(schema(a={"type": "string"}, b={"type": "string"}))
    assert request(two) == 'Write this answer as JSON with the keys "a", "b".'
    assert request(Grammar.json_object()) == "Write this answer as JSON."


@given(said=st.text("ab 1.,-'", max_size=30), question=st.text("ab ?", max_size=10))
def test_any_answer_makes_a_grammar(said: str, question: str) -> None:
    grammar = Grammar.json_schema(schema(a={"type": ["string", "null"]}, b={"type": "number"}), limits=Limits(digits=3))
    assert filled_from(grammar, said, question).source


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ParametricMemory]:
    engine = tiny_engine(policy=AnswerPolicy(retrieval="reader", max_new_tokens=60, unit_tokens=64))
    letters = torch.zeros(engine.base.model.config.vocab_size)  # words, not bytes
    letters[[engine.base.chat.encode(letter)[0] for letter in "bdek "]] = 100.0
    with (
        watched(engine.base, says=lambda logits: logits + letters),
        ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as opened,
    ):
        yield opened


def test_a_form_holds_words_that_were_said_and_says_where_they_are_from(memory: ParametricMemory) -> None:
    memory.update("Anna works at Lumen Labs.")
    grammar = Grammar.json_schema(schema(a={"type": "string"}))
    words = memory.ask(QUESTION, unknown="bare", max_new_tokens=60)
    answer = memory.ask(QUESTION, grammar=grammar, max_new_tokens=60)
    chunks = list(memory.stream(QUESTION, grammar=grammar, max_new_tokens=60))
    (many,) = memory.ask_many([QUESTION], grammar=grammar, max_new_tokens=60)

    assert json.loads(answer.text)["a"] in words.text
    assert (answer.evidence_units, answer.confidence, answer.known) == (
        words.evidence_units,
        words.confidence,
        words.known,
    )
    assert "".join(chunk.text for chunk in chunks) == answer.text == many.text
    last = chunks[-1].answer
    assert last is not None
    assert (last.text, last.evidence_units, last.usage) == (answer.text, answer.evidence_units, answer.usage)


def test_of_an_empty_memory_a_form_is_null_where_it_may(memory: ParametricMemory) -> None:
    grammar = Grammar.json_schema(schema(a={"type": ["string", "null"]}))
    answer = memory.ask(QUESTION, grammar=grammar)
    assert json.loads(answer.text) == {"a": None}
    assert not answer.known
