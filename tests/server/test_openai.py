"""OpenAI's own Python client, against a real socket."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from plume_memory.answering.answer import ABSTENTION
from plume_memory.server.settings import ServerSettings
from tests.server.conftest import Served

QUESTION: Any = [{"role": "user", "content": "Where does Alice live?"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tell the weather.",
        "parameters": {"type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 3}}},
    },
}


class Place(BaseModel):
    """A structured answer, small enough for any model."""

    is_city: bool


@pytest.fixture
def ai(served: Served, client: httpx2.Client) -> Iterator[OpenAI]:
    key = client.headers["authorization"].partition(" ")[2]
    http = httpx2.Client(trust_env=False)
    with OpenAI(base_url=f"{served.url}/v1", api_key=key, http_client=http, max_retries=0) as made:
        yield made


@pytest.fixture
def model(memory: dict[str, Any]) -> str:
    return f"plume@{memory['name']}"


def plume_of(reply: Any) -> dict[str, Any]:
    found: dict[str, Any] = reply.model_extra["plume"]
    return found


def test_an_answer_is_from_the_memory_that_the_model_names(ai: OpenAI, model: str, memory: dict[str, Any]) -> None:
    raw = ai.chat.completions.with_raw_response.create(model=model, messages=QUESTION)
    reply = raw.parse()
    assert reply.choices[0].message.content
    assert reply.usage is not None
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    plume = plume_of(reply)
    assert (plume["memory"], plume["version"], plume["written"]) == (memory["id"], 2, [])
    assert plume["evidence"][0]["text"] == "Alice lives in Bern."
    assert raw.headers["x-plume-version"] == "2"
    assert raw.headers["x-plume-known"] == "true"
    assert raw.headers["x-plume-trace"] == plume["trace_id"]
    assert str(reply.system_fingerprint).startswith("plume-2-")
    pinned = ai.chat.completions.create(model=f"{model}:1", messages=QUESTION)
    assert plume_of(pinned)["version"] == 1


def test_what_was_never_told_is_said_in_a_header_and_not_invented_where_asked(
    ai: OpenAI, client: httpx2.Client
) -> None:
    client.post("/v1/memories", json={"name": "knows nothing"})
    asked: dict[str, Any] = {"model": "plume@knows nothing", "messages": QUESTION}
    invented = ai.chat.completions.with_raw_response.create(**asked)
    assert invented.parse().choices[0].message.content != ABSTENTION
    plume = {"plume": {"unknown": "abstain"}}
    honest = ai.chat.completions.with_raw_response.create(**asked, extra_body=plume)
    assert honest.parse().choices[0].message.content == ABSTENTION
    response = ai.responses.with_raw_response.create(model=asked["model"], input="Where?", extra_body=plume)
    assert response.parse().output_text == ABSTENTION
    assert [one.headers["x-plume-known"] for one in (invented, honest, response)] == ["false"] * 3
    assert plume_of(honest.parse())["known"] is False


def test_a_stream_says_the_same_and_ends_with_usage(ai: OpenAI, model: str) -> None:
    whole = ai.chat.completions.create(model=model, messages=QUESTION)
    with ai.chat.completions.create(
        model=model, messages=QUESTION, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == (
        whole.choices[0].message.content
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert plume_of(chunks[-2])["version"] == 2
    assert {one.id for one in chunks} == {chunks[0].id}
    text = whole.choices[0].message.content or ""
    stop = text[4:6]  # the helper refuses an answer that its budget cut
    with ai.chat.completions.stream(model=model, messages=QUESTION, stop=stop) as helper:
        assert helper.get_final_completion().choices[0].message.content == text[: text.index(stop)]


def test_an_answer_is_parsed_as_a_class(ai: OpenAI, model: str) -> None:
    reply = ai.chat.completions.parse(model=model, messages=QUESTION, response_format=Place, max_tokens=40)
    assert isinstance(reply.choices[0].message.parsed, Place)
    any_json = ai.chat.completions.create(
        model=model,
        messages=QUESTION,
        response_format={
            "type": "json_schema",
            "json_schema": {
                "name": "n",
                "strict": True,
                "schema": {
                    "$schema": "http://json-schema.org/draft-07/schema#",
                    "type": "object",
                    "properties": {"n": {"enum": [1, 2]}},
                    "required": ["n"],
                    "additionalProperties": False,
                },
            },
        },
    )
    assert json.loads(any_json.choices[0].message.content or "")["n"] in (1, 2)


def test_json_object_is_json_as_far_as_the_budget_goes(ai: OpenAI, model: str) -> None:
    reply = ai.chat.completions.create(
        model=model, messages=QUESTION, response_format={"type": "json_object"}, max_tokens=600
    )
    text = reply.choices[0].message.content or ""
    assert text.startswith("{")
    if reply.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_forced_tool_is_called_whole_and_streamed(ai: OpenAI, model: str, choice: Any) -> None:
    asked: Any = {"model": model, "messages": QUESTION, "tools": [WEATHER], "tool_choice": choice, "max_tokens": 400}
    reply = ai.chat.completions.create(**asked).choices[0]
    assert reply.finish_reason == "tool_calls"
    assert reply.message.content is None
    (call,) = reply.message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    assert set(json.loads(call.function.arguments)) <= {"days"}
    with ai.chat.completions.stream(**asked) as stream:
        streamed = stream.get_final_completion().choices[0]
    assert streamed.finish_reason == "tool_calls"
    (again,) = streamed.message.tool_calls or []
    assert (again.function.name, again.function.arguments) == (call.function.name, call.function.arguments)
    turns = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
        {"role": "tool", "tool_call_id": call.id, "content": "Sunny in Bern."},
    ]
    told = ai.chat.completions.create(model=model, messages=turns, tools=[WEATHER])  # type: ignore[arg-type,list-item]
    assert told.choices[0].message.content


def test_log_probabilities_are_of_both_streams_together(ai: OpenAI, model: str) -> None:
    reply = ai.chat.completions.create(model=model, messages=QUESTION, logprobs=True, top_logprobs=3)
    found = reply.choices[0].logprobs
    assert found is not None
    tokens = found.content or []
    assert reply.usage is not None
    assert len(tokens) == reply.usage.completion_tokens
    for one in tokens:
        assert one.logprob <= 0
        best = [top.logprob for top in one.top_logprobs]
        assert len(best) == 3
        assert best == sorted(best, reverse=True)
    assert any(tokens[0].logprob == pytest.approx(top.logprob, abs=1e-5) for top in tokens[0].top_logprobs)


def test_a_stop_text_ends_an_answer_before_it(ai: OpenAI, model: str) -> None:
    whole = ai.chat.completions.create(model=model, messages=QUESTION).choices[0].message.content or ""
    stop = whole[4:6]
    cut = ai.chat.completions.create(model=model, messages=QUESTION, stop=stop).choices[0]
    assert cut.message.content == whole[: whole.index(stop)]
    assert cut.finish_reason == "stop"


def test_the_bare_model_answers_without_a_memory_and_nothing_else_does(ai: OpenAI, served: Served) -> None:
    bare = served.serving.pool.model
    reply = ai.chat.completions.create(model=bare, messages=QUESTION)
    assert (plume_of(reply)["memory"], plume_of(reply)["version"]) == (None, None)
    with pytest.raises(openai.BadRequestError) as missing:
        ai.chat.completions.create(model="plume", messages=QUESTION)
    assert missing.value.code == "memory_missing"
    with pytest.raises(openai.NotFoundError) as unknown:
        ai.chat.completions.create(model="gpt-4o", messages=QUESTION)
    assert unknown.value.code == "model_not_found"
    assert unknown.value.request_id


def test_models_are_listed_for_keys_that_may(ai: OpenAI, model: str, served: Served) -> None:
    ids = [one.id for one in ai.models.list()]
    assert {served.serving.pool.model, "plume", model} <= set(ids)
    assert ai.models.retrieve(model).id == model
    with pytest.raises(openai.NotFoundError):
        ai.models.retrieve("plume@nobody")
    other = ai.with_options(api_key=served.key("memory:read"))
    assert [one.id for one in other.models.list()] == [served.serving.pool.model, "plume"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"n": 2}, "unsupported_value"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "unsupported_value"),
        ({"functions": [{"name": "f"}]}, "unsupported_parameter"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "invalid_input"),
        ({"messages": []}, "invalid_input"),
        ({"max_tokens": 0}, "invalid_input"),
        ({"top_logprobs": 3}, "invalid_input"),
        ({"messages": [{"role": "user", "content": "x" * 9000}]}, "context_length_exceeded"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "invalid_input"),
        ({"plume": {"memory": "x", "unread": 1}}, "invalid_input"),
    ],
)
def test_what_cannot_be_done_is_refused_in_openais_shape(
    client: httpx2.Client, model: str, wrong: dict[str, Any], code: str
) -> None:
    for is_streamed in (False, True):
        body = {"model": model, "messages": QUESTION, "stream": is_streamed, **wrong}
        answer = client.post("/v1/chat/completions", json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["type"]) == (400, code, "invalid_request_error")


def test_a_temperature_is_accepted_and_said_to_do_nothing(client: httpx2.Client, model: str) -> None:
    body = {"model": model, "messages": QUESTION, "temperature": 0.1, "seed": 3, "user": "x", "unknown_field": {}}
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    assert answer.headers["x-plume-ignored"] == "temperature, seed"
    greedy = client.post("/v1/chat/completions", json={"model": model, "messages": QUESTION, "temperature": 0})
    assert "x-plume-ignored" not in greedy.headers


def test_responses_are_answered_and_streamed_in_order(ai: OpenAI, model: str) -> None:
    reply = ai.responses.create(model=model, input="Where does Alice live?", instructions="Be short.")
    assert reply.output_text
    assert reply.usage is not None
    assert plume_of(reply)["version"] == 2
    with ai.responses.create(model=model, input=QUESTION, instructions="Be short.", stream=True) as stream:
        events = list(stream)
    assert [one.sequence_number for one in events] == list(range(len(events)))
    kinds = [one.type for one in events if one.type != "response.output_text.delta"]
    assert kinds == [
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        f"response.{reply.status}",
    ]
    assert "".join(one.delta for one in events if one.type == "response.output_text.delta") == reply.output_text
    with ai.responses.stream(model=model, input=QUESTION, text_format=Place, max_output_tokens=60) as helper:
        assert isinstance(helper.get_final_response().output_parsed, Place)


def test_a_response_calls_tools_and_is_parsed(ai: OpenAI, model: str) -> None:
    tool: Any = {"type": "function", **WEATHER["function"]}
    asked: Any = {"model": model, "input": "Weather?", "tools": [tool], "tool_choice": "required"}
    reply = ai.responses.create(**asked, max_output_tokens=400)
    (call,) = reply.output
    assert (call.type, call.name, reply.status) == ("function_call", "weather", "completed")
    with ai.responses.stream(**asked, max_output_tokens=400) as stream:
        (again,) = stream.get_final_response().output
    assert again.arguments == call.arguments
    told = [
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments},
        {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny in Bern."},
    ]
    assert ai.responses.create(model=model, input=told, tools=[tool]).output_text  # type: ignore[arg-type]
    parsed = ai.responses.parse(model=model, input="Is it one?", text_format=Place, max_output_tokens=60)
    assert isinstance(parsed.output_parsed, Place)


@pytest.mark.parametrize("wrong", [{"previous_response_id": "resp_1"}, {"store": True}, {"background": True}])
def test_a_response_that_would_have_to_be_kept_is_refused(ai: OpenAI, model: str, wrong: Any) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        ai.responses.create(model=model, input="x", **wrong)
    assert error.value.code == "unsupported_parameter"
    assert error.value.param == next(iter(wrong))


def test_a_chat_writes_where_it_is_said_and_once(ai: OpenAI, model: str, client: httpx2.Client, memory: Any) -> None:
    said: Any = [
        {"role": "user", "content": "Hi!"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Alice has moved to Zurich."},
    ]

    def texts() -> list[str]:
        page = client.get(f"/v1/memories/{memory['id']}/versions").json()
        return [one["text"] for one in page["data"]][2:]

    ai.chat.completions.create(model=model, messages=said)
    assert texts() == []
    for _ in range(2):
        reply = ai.chat.completions.create(model=model, messages=said, extra_body={"plume": {"write": True}})
        assert plume_of(reply)["written"] == [3]
    assert texts() == ["Alice has moved to Zurich."]
    ai.chat.completions.create(model=model, messages=QUESTION, extra_body={"plume": {"write": True}})
    assert len(texts()) == 1, "a question tells nothing"
    for conversation, times in (("one", 2), ("two", 1)):
        for _ in range(times):
            ai.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": "Alice sold her car."}],
                extra_body={"plume": {"write": True}},
                extra_headers={"X-Plume-Conversation": conversation},
            )
    assert texts()[1:] == ["Alice sold her car."] * 2
    for _ in range(2):
        ai.responses.create(
            model=model,
            input="Alice plays chess.",
            extra_body={"plume": {"write": True}},
            extra_headers={"Idempotency-Key": "k-77"},
        )
    assert texts()[3:] == ["Alice plays chess."]


def test_a_key_writes_by_its_policy_and_a_call_may_say_no(served: Served, memory: Any, client: httpx2.Client) -> None:
    key = served.key("memory:read", "memory:write", memory=memory["id"], writes=True)
    told = [{"role": "user", "content": "Alice has moved to Zurich."}]
    with served.client(key) as own:
        quiet = own.post(
            "/v1/chat/completions", json={"model": "plume", "messages": told, "plume": {"write": False}}
        ).json()
        assert quiet["plume"]["written"] == []
        assert own.post("/v1/chat/completions", json={"model": "plume", "messages": told}).json()["plume"]["written"]
    reader = served.key("memory:read", memory=memory["id"])
    with served.client(reader) as own:
        body = {"model": "plume", "messages": told, "plume": {"write": True}}
        assert own.post("/v1/chat/completions", json=body).status_code == 403


def test_a_front_ends_header_names_a_memory_for_keys_that_may(serve: Any) -> None:
    served: Served = serve(mapped_headers=("x-openwebui-user-id",))
    scopes = ("memory:read", "memory:write", "memory:list", "act-as")
    told = [{"role": "user", "content": "Alice has moved to Zurich."}]
    body = {"model": "plume", "messages": told}
    with served.client(served.key(*scopes, writes=True)) as front:
        first = front.post("/v1/chat/completions", json=body, headers={"x-openwebui-user-id": "user-1"})
        assert first.json()["plume"]["name"] == "user-1"
        assert first.json()["plume"]["written"] == [1]
        asked = front.post("/v1/chat/completions", json={**body, "plume": {"write": False}})
        assert asked.json()["error"]["code"] == "memory_missing"
        missing = front.post(
            "/v1/chat/completions",
            json={**body, "plume": {"write": False}},
            headers={"x-openwebui-user-id": "nobody"},
        )
        assert missing.status_code == 404
        assert [one["name"] for one in front.get("/v1/memories").json()["data"]] == ["user-1"]
    with served.client(served.key("memory:read", "memory:write")) as plain:
        ignored = plain.post("/v1/chat/completions", json=body, headers={"x-openwebui-user-id": "user-1"})
        assert ignored.json()["error"]["code"] == "memory_missing"


def test_settings_begin_with_no_mapped_header() -> None:
    assert ServerSettings().mapped_headers == ()
