"""with_structured_output: every kind of schema, every method, and answers that are cut."""

import json
from collections.abc import Iterator
from typing import Any, Literal, TypedDict

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_plume import ChatPlume
from langchain_plume.structured import response_format
from pydantic import BaseModel, Field
from pydantic.v1 import BaseModel as BaseModelV1

from plume_memory import Engine, ParametricMemory
from plume_memory.errors import InvalidInput
from plume_memory.policy import AnswerPolicy
from plume_memory.testing import HashParameterizer, tiny_base

BASE = tiny_base("llama", context_window=8192)
ENGINE = Engine(BASE, HashParameterizer(BASE), AnswerPolicy(max_new_tokens=400, unit_tokens=64))


class Town(BaseModel):
    """A town."""

    name: str = Field(description="Its name.")
    people: int
    size: Literal["small", "large"]


class TownV1(BaseModelV1):
    name: str
    people: int


class TownDict(TypedDict):
    name: str
    people: int


class Tree(BaseModel):
    """Refers to itself."""

    leaf: bool
    branches: list["Tree"] = Field(max_length=1)


SCHEMA = {
    "title": "town",
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}
METHODS: tuple[Any, ...] = ("json_schema", "function_calling")


@pytest.fixture
def model() -> Iterator[ChatPlume]:
    with ParametricMemory.open("alice", url="sqlite://", engine=ENGINE) as memory:
        memory.update("Alice lives in Bern.")
        yield memory.as_chat_model(max_string_chars=12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("schema", [Town, TownV1])
def test_a_pydantic_class_gives_its_objects(model: ChatPlume, schema: Any, method: Any) -> None:
    answers = model.with_structured_output(schema, method=method)

    assert isinstance(answers.invoke("Which town?"), schema)
    assert isinstance(list(answers.stream("Which town?"))[-1], schema)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("schema", [TownDict, SCHEMA])
async def test_a_typed_dict_and_a_json_schema_give_dictionaries(model: ChatPlume, schema: Any, method: Any) -> None:
    answers = model.with_structured_output(schema, method=method)

    answer = answers.invoke("Which town?")
    assert set(answer) == {"name", "people"}
    assert isinstance(answer["people"], int)
    assert await answers.ainvoke("Which town?") == answer
    assert list(answers.stream("Which town?"))[-1] == answer


def test_a_recursive_class_is_enforced(model: ChatPlume) -> None:
    form = response_format(Tree)["json_schema"]["schema"]
    assert "$defs" in form
    raw = model.invoke("A tree?", response_format=response_format(Tree), max_tokens=30).text
    assert raw.startswith('{"leaf": ')


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"title": "A", "anyOf": [{"type": "integer"}, {"type": "boolean"}]}, (int, bool)),
        ({"$defs": {"B": {"type": "boolean"}}, "$ref": "#/$defs/B"}, (bool,)),
        ({"enum": ["yes", "no"]}, (str,)),
    ],
)
def test_a_schema_without_a_type_is_enforced_too(model: ChatPlume, schema: Any, kinds: Any) -> None:
    assert isinstance(model.with_structured_output(schema).invoke("Well?"), kinds)


def test_what_is_no_schema_is_refused(model: ChatPlume) -> None:
    with pytest.raises(InvalidInput, match="A schema is"):
        model.with_structured_output({"colour": "red"})


def test_json_mode_needs_no_schema(model: ChatPlume) -> None:
    message = model.invoke("Anything?", response_format={"type": "json_object"}, max_tokens=40)
    assert message.text.startswith("{")

    answers = model.with_structured_output(method="json_mode", include_raw=True)
    assert answers.invoke("Anything?")["raw"].text.startswith("{")


def test_json_mode_follows_the_schema_it_is_given(model: ChatPlume) -> None:
    assert isinstance(model.with_structured_output(Town, method="json_mode").invoke("Which town?"), Town)


def test_the_raw_message_comes_with_the_value(model: ChatPlume) -> None:
    both = model.with_structured_output(Town, include_raw=True).invoke("Which town?")

    assert both["parsed"] == Town(**json.loads(both["raw"].text))
    assert both["parsing_error"] is None
    assert both["raw"].response_metadata["plume"]["version"] == 1


@pytest.mark.parametrize("schema", [Town, TownDict])
def test_an_answer_that_the_budget_cuts_is_an_error_and_not_half_a_value(model: ChatPlume, schema: Any) -> None:
    cut = model.model_copy(update={"max_tokens": 12})

    with pytest.raises(OutputParserException, match="Raise max_tokens"):
        cut.with_structured_output(schema).invoke("Which town?")
    both = cut.with_structured_output(schema, include_raw=True).invoke("Which town?")
    assert both["parsed"] is None
    assert isinstance(both["parsing_error"], OutputParserException)
    assert both["raw"].response_metadata["finish_reason"] == "length"


def test_the_same_option_is_bound_for_every_method() -> None:
    bound = [ChatPlume().with_structured_output(Town, method=m, strict=True) for m in METHODS]

    kwargs = [b.first.kwargs for b in bound]  # type: ignore[attr-defined]
    assert kwargs[0]["response_format"] == kwargs[1]["response_format"]
    assert kwargs[0]["response_format"]["json_schema"]["name"] == "Town"
    assert kwargs[0]["response_format"]["json_schema"]["strict"] is True
    assert [k["ls_structured_output_format"] for k in kwargs] == [
        {"kwargs": {"method": method, "strict": True}, "schema": Town} for method in METHODS
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": Town, "method": "magic"}, "got 'magic'"),
        ({"schema": Town, "method": "json_mode", "strict": True}, "`strict` belongs"),
        ({}, "needs a schema"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ChatPlume().with_structured_output(**options)


def test_a_schema_or_format_that_cannot_be_enforced_is_refused(model: ChatPlume) -> None:
    unique = {"title": "x", "type": "array", "uniqueItems": True, "items": {"type": "string"}}
    with pytest.raises(InvalidInput, match="uniqueItems"):
        model.with_structured_output(unique).invoke("x")
    with pytest.raises(InvalidInput, match="response_format is"):
        model.invoke("x", response_format={"type": "yaml"})


def test_the_limit_on_strings_is_the_models_own_setting(model: ChatPlume) -> None:
    for longest in (3, 7):
        limited = model.model_copy(update={"max_string_chars": longest})
        assert len(limited.with_structured_output(TownDict).invoke("Which town?")["name"]) <= longest
