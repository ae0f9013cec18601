"""OpenTelemetry spans of requests: one of HTTP, within it one of what was done, and within that those of its stages.

Off unless configured: without a tracer provider in the process the API's spans are nothing. `plume serve` makes one
where `OTEL_EXPORTER_OTLP_ENDPOINT` says where spans go. Ids, numbers, routes and status alone; texts only where
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` asks for them, and names never.

The names are OpenTelemetry's for generative AI (memory operations: open-telemetry/semantic-conventions-genai), which no
package has as constants yet. They are said here and nowhere else.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from plume_memory.errors import MissingExtra
from plume_memory.stages import Stage, watching

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

SCOPE = "plume_memory.server"
PROVIDER = "plume"
CREATE_STORE, CREATE, UPDATE = "create_memory_store", "create_memory", "update_memory"
DELETE, SEARCH, CHAT = "delete_memory", "search_memory", "chat"
_STAGES = {"create": CREATE, "search": SEARCH, "answer": CHAT, "write": "plume.write", "decode": "plume.decode"}
_OPERATIONS = {
    "/v1/memories": CREATE_STORE,
    "/v1/memories:import": CREATE_STORE,
    "/v1/memories/{id}/fork": CREATE_STORE,
    "/v1/memories/{id}/updates": CREATE,
    "/v1/memories/{id}/rollback": UPDATE,
    "/v1/memories/{id}/forget": UPDATE,
    "/v1/memories/{id}/route": SEARCH,
    "/v1/memories/{id}/recall": SEARCH,
    "/v1/memories/{id}/ask": CHAT,
    "/v1/chat/completions": CHAT,
    "/v1/responses": CHAT,
    "/memories/{id}/forget": UPDATE,
    "/memories/{id}/ask": CHAT,
}
"""What a POST to a path is; an erasure, and a tool of MCP, say themselves what they are, by the request's state."""
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURED = ("true", "span_only", "span_and_event")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Telemetry:
    """The spans of one server."""

    def __init__(self) -> None:
        try:
            from opentelemetry import trace  # noqa: PLC0415 — an extra
        except ImportError:
            self._tracer: Tracer | None = None
        else:
            self._tracer = trace.get_tracer(SCOPE)

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str], state: Mapping[str, Any]) -> Iterator["RequestSpan"]:
        """Yield the span of a request, the current one meanwhile, in the trace that its headers name.

        Args:
            method: of HTTP.
            headers: in lower case.
            state: the request's; what is in it at the end is on the spans.
        """
        if self._tracer is None:
            yield RequestSpan(None, None, method, state, ())
            return
        from opentelemetry import propagate, trace  # noqa: PLC0415 — an extra

        parent = propagate.extract(headers)
        with (
            self._tracer.start_as_current_span(
                method,
                context=parent,
                kind=trace.SpanKind.SERVER,
                record_exception=False,  # an error's words may hold a text
                set_status_on_exception=False,
            ) as span,
            watching(span.is_recording()) as stages,
        ):
            yield RequestSpan(self._tracer, span, method, state, stages)


class RequestSpan:
    """The span of a request that runs."""

    def __init__(
        self,
        tracer: "Tracer | None",
        span: "Span | None",
        method: str,
        state: Mapping[str, Any],
        stages: Sequence[Stage],
    ) -> None:
        self._tracer, self._span, self._method, self._state, self._stages = tracer, span, method, state, stages
        self._begun_ns = time.time_ns()

    def end(self, route: str, status: int) -> None:
        """Say what came of the request. The span itself ends with `Telemetry.request`."""
        if self._tracer is None or self._span is None or not self._span.is_recording():
            return
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 — an extra

        self._span.update_name(f"{self._method} {route}")
        self._span.set_attributes(
            {
                "http.request.method": self._method,
                "http.route": route,
                "http.response.status_code": status,
                **({"error.type": str(status)} if status >= 500 else {}),  # a caller's error is none of a server's span
            }
        )
        if status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))
        operation = _operation(self._method, route, self._state)
        own = [each for each in self._stages if _STAGES[each.name] == operation]
        parent = self._span
        if operation is not None:
            # a child of the same length: what was done is known by its route, and that only once it was found
            error = self._state.get("failed") or (str(status) if status >= 400 else None)
            about = {name: value for each in own for name, value in _said(each).items()}
            parent = self._child(operation, self._span, (self._begun_ns, time.time_ns()), about, error)
        for each in self._stages:
            if each not in own:
                self._child(_STAGES[each.name], parent, (each.begun_ns, each.ended_ns), _said(each), each.error)

    def _child(
        self, operation: str, parent: "Span", times: tuple[int, int], said: Mapping[str, Any], error: str | None
    ) -> "Span":
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context  # noqa: PLC0415 — an extra

        assert self._tracer is not None
        name = f"{CHAT} {PROVIDER}" if operation == CHAT else operation
        within = set_span_in_context(parent)
        made = self._tracer.start_span(name, context=within, kind=SpanKind.INTERNAL, start_time=times[0])
        made.set_attributes({**_of_memory(operation, self._state), **said})
        if error is not None:
            made.set_attribute("error.type", error)
            made.set_status(Status(StatusCode.ERROR))
        made.end(times[1])
        return made


def configure() -> None:
    """Send spans where the environment says, if it does.

    Raises:
        MissingExtra: it does, and the SDK is not installed.
    """
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return
    try:
        from opentelemetry import trace  # noqa: PLC0415 — an extra
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 — as above
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 — as above
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 — as above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 — as above
    except ImportError as err:
        raise MissingExtra(
            f"{' or '.join(_ENDPOINTS)} is set, and spans need the extra: pip install 'plume-memory[otel]' ({err})."
        ) from err
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": PROVIDER}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def _operation(method: str, route: str, state: Mapping[str, Any]) -> str | None:
    if method != "POST":
        return None
    said: str | None = state.get("operation")
    return said or _OPERATIONS.get(route)


def _of_memory(operation: str, state: Mapping[str, Any]) -> dict[str, str | int]:
    is_ours = operation.startswith(f"{PROVIDER}.")  # none of the conventions'
    found: dict[str, str | int] = {} if is_ours else {"gen_ai.operation.name": operation}
    found["gen_ai.provider.name"] = PROVIDER
    if (memory := state.get("memory")) is not None:
        found["gen_ai.memory.store.id"] = memory
    if (version := state.get("version")) is not None:
        found["plume.version"] = version
        if operation == CREATE:
            found["gen_ai.memory.record.id"] = str(version)
    return found


def _said(stage: Stage) -> dict[str, str | int]:
    """What a stage was about: numbers, and texts where they are asked for."""
    said, found = stage.said, dict[str, str | int]()
    if "units" in said:
        found["plume.evidence.units"] = said["units"]
    records: Sequence[tuple[int, str]] = said.get("records", ())
    if stage.name == "search" and "records" in said:
        found["gen_ai.memory.record.count"] = len(records)
    if stage.name == "create" and records:
        found |= {"plume.version": records[0][0], "gen_ai.memory.record.id": str(records[0][0])}
    if os.environ.get(_CAPTURE, "").lower() not in _CAPTURED:
        return found
    if "query" in said:
        found["gen_ai.memory.query.text"] = said["query"]
    if "records" in said:
        found["gen_ai.memory.records"] = _json([{"id": str(number), "content": text} for number, text in records])
    if "answer" in said:
        found["gen_ai.input.messages"] = _json([_message("user", said["question"])])
        found["gen_ai.output.messages"] = _json([_message("assistant", said["answer"])])
    return found


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
