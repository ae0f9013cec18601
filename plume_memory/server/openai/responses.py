"""`POST /v1/responses`: stateless. Nothing is kept under its id, so nothing can go on from it."""

import secrets
import time
from collections.abc import Generator
from contextlib import closing
from typing import Any

from fastapi import APIRouter, Request, Response

from plume_memory.answering.tool_calls import Call
from plume_memory.server.openai.conversation import messages_of
from plume_memory.server.openai.exchange import Pieces, exchanged
from plume_memory.server.openai.schemas import ERRORS, ResponsesCall
from plume_memory.server.openai.speaking import Prepared, Spoken, Wanted
from plume_memory.server.problems import Problem, invalid, openai_error
from plume_memory.server.state import Identified, ServingNow
from plume_memory.server.streams import event

router = APIRouter(tags=["openai"], responses=ERRORS)


@router.post("/v1/responses", responses={200: {"content": {"text/event-stream": {}}}}, response_model=None)
async def respond(request: Request, body: ResponsesCall, serving: ServingNow, caller: Identified) -> Response:
    """Answer an input from the memory that the call names."""
    return await exchanged(
        request,
        serving,
        caller,
        _wanted(body),
        lambda prepared: _Written(body, prepared),
        is_streamed=bool(body.stream),
        unread=body.unread(),
    )


def _wanted(body: ResponsesCall) -> Wanted:
    """Refuse what a server that keeps nothing cannot do, and take the rest.

    Raises:
        Refused: 400 `unsupported-parameter`.
    """
    for name in ("previous_response_id", "conversation", "background", "store"):
        if getattr(body, name):
            raise invalid(
                f"{name} needs a server that keeps responses; this one keeps none: send the whole input.",
                param=name,
                code="unsupported-parameter",
            )
    choice = body.tool_choice
    if isinstance(choice, dict):  # {"type": "function", "name": …}
        choice = {"function": {"name": choice.get("name")}}
    return Wanted(
        model=body.model,
        messages=messages_of(body.input, body.instructions),
        plume=body.plume,
        tools=[_tool(tool) for tool in body.tools or ()],
        tool_choice=choice,
        response_format=_format(body),
        max_new_tokens=body.max_output_tokens,
        stop=(),
        top_candidates=0,
        one_call=body.parallel_tool_calls is False,
    )


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool in the shape of chat completions: there a function's description stands one level deeper."""
    if tool.get("type") != "function":
        raise invalid(
            f"A tool is of type function; got {tool.get('type')!r}, which only its provider's service can call.",
            param="tools",
            code="unsupported-value",
        )
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}


def _format(body: ResponsesCall) -> dict[str, Any] | None:
    asked = (body.text or {}).get("format")
    if not isinstance(asked, dict):
        return None
    if asked.get("type") != "json_schema":
        return asked
    return {"type": "json_schema", "json_schema": {"name": asked.get("name"), "schema": asked.get("schema")}}


class _Written:
    """One response while it is written: its ids stay, its events are counted."""

    def __init__(self, body: ResponsesCall, prepared: Prepared) -> None:
        self._body, self._prepared = body, prepared
        self._id, self._message_id = f"resp_{secrets.token_hex(12)}", f"msg_{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._next = 0

    def whole(self, pieces: Pieces) -> dict[str, Any]:
        """See `Writer`."""
        words = []
        with closing(pieces):
            for piece in pieces:
                words.append(piece.text)
                if isinstance(piece, Spoken):
                    end = piece
        return self._ended("".join(words), end)

    def events(self, pieces: Pieces) -> Generator[bytes, None, None]:
        """See `Writer`; in OpenAI's order."""
        yield self._event("response.created", response=self._response("in_progress", [], None))
        words: list[str] = []
        with closing(pieces):
            for piece in pieces:
                if piece.text:
                    if not words:
                        yield from self._message_begun()
                    words.append(piece.text)
                    yield self._event("response.output_text.delta", **self._part(), delta=piece.text, logprobs=[])
                if isinstance(piece, Spoken):
                    end = piece
        text = "".join(words)
        if not words and not end.calls:
            yield from self._message_begun()
        if words or not end.calls:
            yield from self._message_done(text)
        for at, call in enumerate(end.calls, start=1 if words else 0):
            yield from self._called(call, at)
        made = self._ended(text, end)
        yield self._event(f"response.{made['status']}", response=made)

    def failed(self, problem: Problem) -> bytes:
        """See `Writer`."""
        error = openai_error(problem)
        said = error["error"]
        return self._event("error", code=said["code"], message=said["message"], param=said["param"], **error)

    def _event(self, kind: str, **more: Any) -> bytes:
        made = event({"type": kind, "sequence_number": self._next, **more}, name=kind)
        self._next += 1
        return made

    def _part(self) -> dict[str, Any]:
        return {"item_id": self._message_id, "output_index": 0, "content_index": 0}

    def _message_begun(self) -> Generator[bytes, None, None]:
        item = {**self._message("", "in_progress"), "content": []}
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._event("response.content_part.added", **self._part(), part=_text(""))

    def _message_done(self, text: str) -> Generator[bytes, None, None]:
        yield self._event("response.output_text.done", **self._part(), text=text, logprobs=[])
        yield self._event("response.content_part.done", **self._part(), part=_text(text))
        yield self._event("response.output_item.done", output_index=0, item=self._message(text, "completed"))

    def _called(self, call: Call, at: int) -> Generator[bytes, None, None]:
        place = {"item_id": f"fc_{call.id}", "output_index": at}
        begun_item = {**_call_item(call), "arguments": "", "status": "in_progress"}
        yield self._event("response.output_item.added", output_index=at, item=begun_item)
        yield self._event("response.function_call_arguments.delta", **place, delta=call.arguments)
        done = {"name": call.name, "arguments": call.arguments}
        yield self._event("response.function_call_arguments.done", **place, **done)
        yield self._event("response.output_item.done", output_index=at, item=_call_item(call))

    def _message(self, text: str, status: str) -> dict[str, Any]:
        content = [_text(text)]
        return {"id": self._message_id, "type": "message", "role": "assistant", "status": status, "content": content}

    def _ended(self, text: str, end: Spoken) -> dict[str, Any]:
        output = [self._message(text, "completed")] if text or not end.calls else []
        output += [_call_item(call) for call in end.calls]
        is_whole = end.finish_reason != "length"
        made = self._response("completed" if is_whole else "incomplete", output, end)
        made["plume"] = end.plume
        return made

    def _response(self, status: str, output: list[dict[str, Any]], end: Spoken | None) -> dict[str, Any]:
        body = self._body
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "model": body.model,
            "output": output,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": None,
            "store": False,
            "text": body.text or {"format": {"type": "text"}},
            "tool_choice": body.tool_choice or "auto",
            "tools": body.tools or [],
            "metadata": (body.model_extra or {}).get("metadata") or {},
            "usage": None if end is None else _usage(end),
            "system_fingerprint": self._prepared.pinned.fingerprint,
        }


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call: Call) -> dict[str, Any]:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }


def _usage(end: Spoken) -> dict[str, Any]:
    used = end.answer.usage
    return {
        "input_tokens": used.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": used.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.total_tokens,
    }
