"""Constrained decoding: every answer is in the grammar, and the mask acts on the fused scores."""

import json
from typing import Annotated, Any, Literal

import pydantic
import pytest
import torch
from pydantic import Field

from plume_memory import ParametricMemory
from plume_memory.errors import InvalidInput
from plume_memory.model.base import BaseModel
from plume_memory.model.grammar import Grammar, Limits
from plume_memory.model.masks import KEPT, TokenMask, Vocabulary
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler
from plume_memory.testing import byte_tokenizer, random_factors, tiny_base, tiny_engine

LIMITS = Limits(string_chars=8, items=3, digits=4)


class Friend(pydantic.BaseModel, extra="forbid"):
    name: str


class Person(pydantic.BaseModel, extra="forbid"):
    name: str
    age: int
    kind: Literal["cat", "dog"]
    tags: list[str]
    friend: Friend | None


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "kind": {"enum": ["cat", "dog"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "friend": {"anyOf": [{"$ref": "#/$defs/Friend"}, {"type": "null"}]},
    },
    "required": ["name", "age", "kind", "tags", "friend"],
    "$defs": {"Friend": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
SCHEMAS: list[tuple[dict[str, Any], Any]] = [
    (PERSON, Person),
    ({"type": "object", "properties": {}}, dict[Literal["none"], None]),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, Annotated[list[bool], Field(min_length=2)]),
    ({"type": "string", "minLength": 20}, Annotated[str, Field(min_length=20)]),
    ({"type": ["integer", "null"]}, int | None),
    ({"enum": [True, "b"]}, Literal[True, "b"]),
]
"""Schemas, and the type an independent validator (pydantic) reads their answers as."""


def asked(base: BaseModel, question: str = "Who?", seed: int = 1) -> Query:
    prompt = tuple(base.chat.prompt_ids(question))
    return Query(Row(prompt, random_factors(base, seed=seed)), Row(prompt, random_factors(base, seed=seed + 50)))


def accepted(base: BaseModel, grammar: Grammar, text: str) -> bool:
    matcher = Vocabulary(base).matcher(grammar)
    ids = base.chat.encode(text)
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


@pytest.mark.parametrize(("schema", "kind"), SCHEMAS)
@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_an_answer_under_a_schema_is_json_of_that_schema(
    tiny_llama: BaseModel, schema: dict[str, Any], kind: Any, fixed_shapes: bool
) -> None:
    settings = DecodeSettings(max_new_tokens=600, grammar=Grammar.json_schema(schema, limits=LIMITS))

    answers = Scheduler(tiny_llama, fixed_shapes=fixed_shapes).decode(
        [asked(tiny_llama, question, seed) for seed, question in enumerate(("Who?", "Where is it?", "?"))], settings
    )

    for answer in answers:
        assert answer.finish_reason == "stop"
        pydantic.TypeAdapter(kind).validate_python(json.loads(answer.text), strict=True)


def test_a_lark_grammar_is_followed(tiny_llama: BaseModel) -> None:
    grammar = Grammar.lark('start: "yes" | "no" " thanks"+')
    answer = Scheduler(tiny_llama).decode([asked(tiny_llama)], DecodeSettings(max_new_tokens=64, grammar=grammar))[0]

    assert answer.text == "yes" or set(answer.text.removeprefix("no").split()) <= {"thanks"}


def test_a_token_that_both_streams_prefer_is_never_chosen_when_it_is_forbidden(tiny_llama: BaseModel) -> None:
    """The trace shows the streams as they are; only the choice among the fused scores is constrained."""
    free = Scheduler(tiny_llama).decode([asked(tiny_llama)], DecodeSettings(max_new_tokens=6))[0]
    loved = free.trace[0]
    letter = tiny_llama.tokenizer.convert_ids_to_tokens(loved.token_id)
    others = "[^" + letter + "]" if letter.isalnum() else "[a-z]"
    settings = DecodeSettings(max_new_tokens=6, top_candidates=1, grammar=Grammar.lark(f"start: /{others}+/"))

    answer = Scheduler(tiny_llama).decode([asked(tiny_llama)], settings)[0]

    assert loved.token_id not in [t.token_id for t in answer.trace]
    first = answer.trace[0]
    assert first.js == pytest.approx(loved.js, abs=1e-6)
    assert first.weight == pytest.approx(loved.weight, abs=1e-6)
    assert first.global_top[0].token_id not in (first.token_id,)


def test_the_chosen_token_is_the_best_allowed_one_of_the_fused_scores() -> None:
    mask = TokenMask(frozenset({0}), 0, Vocabulary(BASE).matcher(Grammar.lark('start: "a" | "b"')))
    a, b = (BASE.chat.encode(letter)[0] for letter in "ab")

    allowed = mask.allowed(259)

    assert allowed is not None
    assert set(allowed.nonzero().flatten().tolist()) == {a, b}
    assert mask.take(b)
    settings = DecodeSettings(grammar=Grammar.lark('start: "a" | "b"'), top_candidates=259)
    [answer] = Scheduler(BASE).decode([asked(BASE)], settings)
    [token] = answer.trace
    fused = {one.token_id: one.log_prob for one in token.global_top}
    for one in token.evidence_top:
        fused[one.token_id] += token.weight * one.log_prob
    assert len(fused) == 259, "the scores of the trace stay as they are"
    assert token.token_id == max((a, b), key=lambda one: fused[one])


BASE = tiny_base("llama")


def test_every_query_of_a_batch_has_a_matcher_of_its_own(tiny_llama: BaseModel) -> None:
    settings = DecodeSettings(max_new_tokens=200, grammar=Grammar.json_schema(PERSON, limits=LIMITS))
    queries = [asked(tiny_llama, f"Who is {i}?", i) for i in range(4)]

    together = Scheduler(tiny_llama).decode(queries, settings)
    alone = [Scheduler(tiny_llama).decode([query], settings)[0] for query in queries]

    assert [a.text for a in together] == [a.text for a in alone]


def test_a_budget_that_ends_before_the_grammar_accepts_finishes_with_length(tiny_llama: BaseModel) -> None:
    settings = DecodeSettings(max_new_tokens=5, grammar=Grammar.json_schema(PERSON))
    answer = Scheduler(tiny_llama).decode([asked(tiny_llama)], settings)[0]

    assert answer.finish_reason == "length"
    assert answer.text == '{"nam'


def test_a_complete_grammar_ends_the_answer_even_before_the_shortest_length(tiny_llama: BaseModel) -> None:
    settings = DecodeSettings(max_new_tokens=30, min_new_tokens=20, grammar=Grammar.lark('start: "done"'))
    answer = Scheduler(tiny_llama).decode([asked(tiny_llama)], settings)[0]

    assert (answer.text, answer.finish_reason, answer.usage.completion_tokens) == ("done", "stop", 4)


def test_logits_wider_than_the_tokenizer_are_padded() -> None:
    import transformers as hf

    config = tiny_base("llama").model.config
    config.vocab_size = 300
    torch.manual_seed(0)
    model = hf.LlamaForCausalLM(config).float()
    wide = BaseModel.wrap(model, byte_tokenizer(), name="wide", fingerprint="wide")
    settings = DecodeSettings(max_new_tokens=200, grammar=Grammar.json_schema(PERSON, limits=LIMITS))

    answer = Scheduler(wide).decode([Query(Row(tuple(wide.chat.prompt_ids("Who?"))))], settings)[0]

    assert set(json.loads(answer.text)) >= set(PERSON["required"])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": "object", "properties": 3},
        {"type": "array", "uniqueItems": True},
        {"const": object()},
        ["not", "a", "schema"],
    ],
)
def test_what_cannot_be_enforced_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidInput):
        Grammar.json_schema(schema)


def test_a_bad_lark_grammar_and_bad_limits_are_refused() -> None:
    with pytest.raises(InvalidInput, match="unknown name"):
        Grammar.lark("start: nowhere")
    with pytest.raises(InvalidInput, match="items must be at least 1"):
        Limits(items=0)


def test_limits_leave_only_answers_that_the_schema_has_and_keep_its_own_bounds() -> None:
    long = Grammar.json_schema({"type": "string", "maxLength": 20}, limits=LIMITS)
    short = Grammar.json_schema({"type": "string"}, limits=LIMITS)
    free = Grammar.json_schema({"type": "object", "additionalProperties": {"type": "boolean"}}, limits=LIMITS)
    closed = Grammar.json_schema({"type": "object", "properties": {"a": {"type": "null"}}}, limits=LIMITS)
    above = Grammar.json_schema({"type": "integer", "minimum": 50_000}, limits=LIMITS)

    assert accepted(BASE, long, '"twelve chars"')
    assert not accepted(BASE, short, '"twelve chars"')
    assert accepted(BASE, free, '{"x": true, "y": false}')
    assert accepted(BASE, closed, '{"a": null}')
    assert not accepted(BASE, closed, '{"b": 1}')
    assert accepted(BASE, above, "50001")


def test_values_inside_enum_and_const_are_not_taken_for_schemas() -> None:
    grammar = Grammar.json_schema({"enum": [{"type": "string", "properties": {}}]}, limits=LIMITS)
    assert accepted(BASE, grammar, '{"type": "string", "properties": {}}')


def test_few_compiled_grammars_are_kept(tiny_llama: BaseModel) -> None:
    vocabulary = Vocabulary(tiny_llama)
    for i in range(KEPT + 4):
        vocabulary.matcher(Grammar.lark(f'start: "{i}"'))

    assert len(vocabulary._compiled) == KEPT


def test_a_memory_passes_grammars_and_shortest_lengths_on() -> None:
    grammar = Grammar.json_schema({"enum": ["Bern", "Basel"]})
    with ParametricMemory.open("alice", url="sqlite://", engine=tiny_engine()) as memory:
        memory.update("Alice lives in Bern.")
        texts = [memory.ask("Where?", grammar=grammar, max_new_tokens=20).text]
        texts += [a.text for a in memory.ask_many(["Where?", "Who?"], grammar=grammar, max_new_tokens=20)]
        texts.append("".join(c.text for c in memory.stream("Where?", grammar=grammar, max_new_tokens=20)))
        longer = memory.ask("Where?", max_new_tokens=64, min_new_tokens=64)

    assert set(texts) <= {'"Bern"', '"Basel"'}
    assert longer.usage.completion_tokens == 64


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_the_mask_reaches_scores_on_cuda() -> None:
    base = tiny_base("llama")
    base.model.to("cuda")
    settings = DecodeSettings(max_new_tokens=600, grammar=Grammar.json_schema(PERSON, limits=LIMITS))

    for fixed_shapes in (False, True):
        for answer in Scheduler(base, fixed_shapes=fixed_shapes).decode([asked(base), asked(base, "Hi")], settings):
            Person.model_validate_json(answer.text)
