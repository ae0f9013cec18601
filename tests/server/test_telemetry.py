"""Spans: one of HTTP for each request, one of what was done within it, and nothing of what was said."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from plume_memory.server.telemetry import SCOPE
from tests.server.conftest import Served, until

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="session")
def exporter() -> InMemorySpanExporter:
    """What the process's provider has ended: there can be one provider only."""
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[Callable[[int], dict[str, ReadableSpan]]]:
    """Spans by name, as soon as there are so many: a request's ends after its answer was sent."""
    exporter.clear()

    def ours() -> list[ReadableSpan]:  # FastAPI makes spans of its own within them
        done = exporter.get_finished_spans()
        return [one for one in done if one.instrumentation_scope and one.instrumentation_scope.name == SCOPE]

    def named(count: int) -> dict[str, ReadableSpan]:
        until(lambda: len(ours()) >= count)
        return {span.name: span for span in ours()}

    yield named
    exporter.clear()


def test_an_update_is_a_span_within_its_requests(
    spans: Callable[[int], dict[str, ReadableSpan]], served: Served, memory: dict[str, Any]
) -> None:
    path = f"/v1/memories/{memory['id']}/updates"
    until(lambda: bool(spans(6)))  # of the fixture's three requests
    with served.client(served.key()) as client:
        written = client.post(path, json={"text": "Alice has a secret."}, headers={"traceparent": PARENT}).json()
    found = spans(8)
    http, own = found["POST /v1/memories/{id}/updates"], found["create_memory"]
    assert http.attributes is not None
    assert own.attributes is not None
    assert http.parent is not None
    assert f"{http.parent.span_id:016x}" in PARENT
    assert own.parent is not None
    assert own.parent.span_id == http.context.span_id
    assert http.attributes["http.response.status_code"] == 201
    assert dict(own.attributes) == {
        "gen_ai.operation.name": "create_memory",
        "gen_ai.provider.name": "plume",
        "gen_ai.memory.store.id": memory["id"],
        "gen_ai.memory.record.id": str(written["number"]),
        "plume.version": written["number"],
    }


def test_every_operation_has_its_name(
    spans: Callable[[int], dict[str, ReadableSpan]], served: Served, memory: dict[str, Any], exporter: Any
) -> None:
    until(lambda: bool(spans(6)))
    at = f"/v1/memories/{memory['id']}"
    calls = [
        ("/ask", {"question": "Where does Alice live?"}, "chat plume"),
        ("/route", {"question": "Alice"}, "search_memory"),
        ("/recall", {"question": "Where does Alice live?"}, "search_memory"),
        ("/rollback", {"to": 1}, "update_memory"),
        ("/forget", {"version": 1}, "update_memory"),
        ("/forget", {"version": 2, "erase": True}, "delete_memory"),
        ("/fork", {"name": f"fork of {memory['name']}"}, "create_memory_store"),
    ]
    with served.client(served.key()) as client:
        for path, body, name in calls:
            exporter.clear()
            assert client.post(at + path, json=body).status_code < 300
            assert name in spans(2), path
        exporter.clear()
        client.get(at)
        assert set(spans(1)) == {"GET /v1/memories/{id}"}
        exporter.clear()
        client.get("/healthz")
        client.post(f"{at}/forget", json={"version": 99})
        failed = spans(2)
    assert set(failed) == {"POST /v1/memories/{id}/forget", "update_memory"}
    assert failed["update_memory"].attributes is not None
    assert failed["update_memory"].attributes["error.type"] == "404"


def test_an_answer_has_spans_of_its_stages(
    spans: Callable[[int], dict[str, ReadableSpan]], served: Served, memory: dict[str, Any], exporter: Any
) -> None:
    until(lambda: bool(spans(6)))
    question = {"role": "user", "content": "I live in Rome. Where does Alice live?"}
    chat = {"model": "plume", "messages": [question], "plume": {"memory": memory["id"], "write": True}}
    own = {"question": "Where does Alice live?"}
    calls = [
        ("/v1/chat/completions", chat, {"create_memory"}),
        ("/v1/chat/completions", {**chat, "stream": True, "plume": {"memory": memory["id"]}}, set[str]()),
        (f"/v1/memories/{memory['id']}/ask", own, set[str]()),
        (f"/v1/memories/{memory['id']}/ask", {**own, "stream": True}, set[str]()),
    ]
    with served.client(served.key()) as client:
        for path, body, more in calls:
            exporter.clear()
            assert client.post(path, json=body).status_code == 200
            stages = {"search_memory", "plume.write", "plume.decode", *more}
            found = spans(len(stages) + 2)
            assert found.keys() == stages | {"chat plume", f"POST {path}".replace(memory["id"], "{id}")}
            whole = found["chat plume"]
            assert whole.attributes is not None
            assert whole.attributes["plume.evidence.units"] == 1
            for name in stages:
                one = found[name]
                assert one.parent is not None
                assert one.parent.span_id == whole.context.span_id
                assert whole.start_time <= one.start_time <= one.end_time <= whole.end_time  # type: ignore[operator]
                assert one.attributes is not None
                assert one.attributes["gen_ai.memory.store.id"] == memory["id"]
            assert found["search_memory"].attributes is not None
            assert found["search_memory"].attributes["gen_ai.memory.record.count"] == 1
            if more:
                assert found["create_memory"].attributes is not None
                assert found["create_memory"].attributes["gen_ai.memory.record.id"] == "3"


def test_a_tool_of_mcp_is_the_operation_that_it_is(
    spans: Callable[[int], dict[str, ReadableSpan]], served: Served, memory: dict[str, Any], exporter: Any
) -> None:
    until(lambda: bool(spans(6)))
    calls = [
        ("remember", {"text": "Carol sings."}, "create_memory"),
        ("recall", {"question": "Where does Alice live?"}, "search_memory"),
        ("ask", {"question": "Where does Alice live?"}, "chat plume"),
        ("forget", {"version": 1}, "update_memory"),
        ("erase", {"version": 2, "confirm": "erase"}, "delete_memory"),
        ("forget", {"version": 99}, "update_memory"),
        ("history", {}, None),
    ]
    headers = {"accept": "application/json, text/event-stream", "x-plume-memory": memory["id"]}
    with served.client(served.key()) as client:
        for tool, arguments, name in calls:
            exporter.clear()
            params = {"name": tool, "arguments": arguments}
            body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            assert client.post("/mcp", json=body, headers=headers).status_code == 200
            found = spans(1 if name is None else 2)
            assert "POST /mcp" in found
            if name is None:
                assert len(found) == 1
                continue
            attributes = found[name].attributes
            assert attributes is not None
            assert attributes["gen_ai.memory.store.id"] == memory["id"]
            failed = arguments == {"version": 99}
            assert attributes.get("error.type") == ("version-not-found" if failed else None)
            if name == "chat plume":
                assert {"search_memory", "plume.write", "plume.decode"} < found.keys()


@pytest.mark.parametrize("asked", ["true", "SPAN_ONLY"])
def test_texts_are_in_spans_where_they_are_asked_for(
    spans: Callable[[int], dict[str, ReadableSpan]],
    served: Served,
    memory: dict[str, Any],
    exporter: Any,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
) -> None:
    until(lambda: bool(spans(6)))
    exporter.clear()
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", asked)
    path = f"/v1/memories/{memory['id']}"
    with served.client(served.key()) as client:
        answer = client.post(f"{path}/ask", json={"question": "Where does Alice live?", "unknown": "bare"}).json()
        client.post(f"{path}/updates", json={"text": "Carol sings."})
    found = spans(7)
    chat, search, create = (found[name].attributes for name in ("chat plume", "search_memory", "create_memory"))
    assert chat is not None
    assert search is not None
    assert create is not None
    assert search["gen_ai.memory.query.text"] == "Where does Alice live?"
    assert json.loads(str(search["gen_ai.memory.records"])) == [{"id": "1", "content": "Alice lives in Bern."}]
    assert json.loads(str(create["gen_ai.memory.records"])) == [{"id": "3", "content": "Carol sings."}]
    assert "Where does Alice live?" in str(chat["gen_ai.input.messages"])
    said = json.loads(str(chat["gen_ai.output.messages"]))
    assert said == [{"role": "assistant", "parts": [{"type": "text", "content": answer["text"]}]}]
    assert memory["name"] not in "".join(span.to_json() for span in found.values())


def test_no_span_holds_a_text_or_a_name(
    spans: Callable[[int], dict[str, ReadableSpan]], served: Served, memory: dict[str, Any], exporter: Any
) -> None:
    with served.client(served.key()) as client:
        client.post(f"/v1/memories/{memory['id']}/ask", json={"question": "Where does Alice live?"})
        client.post(f"/v1/memories/{memory['id']}/forget", json={"text": "Alice is nowhere."})
    spans(10)
    said = "".join(span.to_json() for span in exporter.get_finished_spans())
    assert memory["id"] in said
    assert "alice" not in said.lower()


def test_without_a_configuration_nothing_of_the_sdk_is_loaded() -> None:
    code = (
        "import sys\nfrom plume_memory.server.telemetry import Telemetry, configure\nconfigure()\n"
        "with Telemetry().request('GET', {}, {}) as span:\n    span.end('/', 200)\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_where_the_environment_says_spans_are_sent() -> None:
    code = (
        "from plume_memory.server.telemetry import configure\nconfigure()\n"
        "from opentelemetry import trace\nprovider = trace.get_tracer_provider()\n"
        "print(type(provider).__name__, provider.resource.attributes['service.name'])"
    )
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["TracerProvider", "plume"]
