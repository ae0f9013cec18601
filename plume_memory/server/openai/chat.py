"""`POST /v1/chat/completions`: whole, or as a stream of chunks."""

import secrets
import time
from collections.abc import Generator
from contextlib import closing
from typing import Any

from fastapi import APIRouter, Request, Response

from plume_memory.records import TokenTrace, Usage
from plume_memory.server.openai.exchange import Pieces, exchanged
from plume_memory.server.openai.schemas import ERRORS, ChatCall
from plume_memory.server.openai.speaking import Prepared, Spoken, Wanted, Words
from plume_memory.server.problems import Problem, invalid, openai_error
from plume_memory.server.state import Identified, ServingNow
from plume_memory.server.streams import event

router = APIRouter(tags=["openai"], responses=ERRORS)

_LEAST_LOG_PROB = -9999.0
"""OpenAI's word for a token that is impossible: JSON has no infinity."""


@router.post("/v1/chat/completions", responses={200: {"content": {"text/event-stream": {}}}}, response_model=None)
async def complete(request: Request, body: ChatCall, serving: ServingNow, caller: Identified) -> Response:
    """Answer a conversation from the memory that the call names."""
    return await exchanged(
        request,
        serving,
        caller,
        _wanted(body),
        lambda prepared: _Completion(body, prepared),
        is_streamed=bool(body.stream),
        unread=body.unread(),
    )


def _wanted(body: ChatCall) -> Wanted:
    """Refuse what cannot be done, and take the rest.

    Raises:
        Refused: 400.
    """
    sent = body.model_extra or {}
    if body.n not in (None, 1):
        raise invalid(f"n is 1: decoding is greedy; got {body.n}.", param="n", code="unsupported-value")
    for name in ("functions", "function_call", "audio"):
        if sent.get(name) is not None:
            raise invalid(f"{name} is not served; tools are.", param=name, code="unsupported-parameter")
    if body.top_logprobs and not body.logprobs:
        raise invalid("top_logprobs needs logprobs.", param="top_logprobs")
    most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    return Wanted(
        model=body.model,
        messages=body.messages,
        plume=body.plume,
        tools=body.tools or (),
        tool_choice=body.tool_choice,
        response_format=body.response_format,
        max_new_tokens=most,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        top_candidates=body.top_logprobs or 0,
        one_call=body.parallel_tool_calls is False,
    )


class _Completion:
    """One completion while it is written: all its chunks have one frame."""

    def __init__(self, body: ChatCall, prepared: Prepared) -> None:
        self._has_log_probs = bool(body.logprobs)
        self._has_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        self._frame = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": body.model,
            "system_fingerprint": prepared.pinned.fingerprint,
        }

    def whole(self, pieces: Pieces) -> dict[str, Any]:
        """See `Writer`."""
        words: list[str] = []
        with closing(pieces):
            for piece in pieces:
                words.append(piece.text)
                if isinstance(piece, Spoken):
                    end = piece
        text = "".join(words)
        message: dict[str, Any] = {"role": "assistant", "content": None if end.calls and not text else text}
        message["refusal"] = None
        if end.calls:
            message["tool_calls"] = _calls(end)
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": end.finish_reason,
            "logprobs": self._log_probs(end),
        }
        made = {**self._frame, "object": "chat.completion", "choices": [choice]}
        return {**made, "usage": usage(end.answer.usage), "plume": end.plume}

    def events(self, pieces: Pieces) -> Generator[bytes, None, None]:
        """See `Writer`."""
        role: dict[str, Any] = {"role": "assistant"}
        with closing(pieces):
            for piece in pieces:
                if piece.text:
                    yield self._chunk({**role, "content": piece.text})
                    role = {}
                if isinstance(piece, Words):
                    continue
                if piece.calls:
                    calls = [{"index": at, **call} for at, call in enumerate(_calls(piece))]
                    yield self._chunk({**role, "tool_calls": calls})
                    role = {}
                yield self._chunk(role, piece)
                if self._has_usage:
                    yield self._event([], usage(piece.answer.usage))
        yield b"data: [DONE]\n\n"

    def failed(self, problem: Problem) -> bytes:
        """See `Writer`."""
        return event(openai_error(problem), name="error")

    def _chunk(self, delta: dict[str, Any], end: Spoken | None = None) -> bytes:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
        if end is None:
            return self._event([choice])
        choice |= {"finish_reason": end.finish_reason, "logprobs": self._log_probs(end)}
        return self._event([choice], plume=end.plume)

    def _event(self, choices: list[dict[str, Any]], used: dict[str, Any] | None = None, **more: Any) -> bytes:
        made = {**self._frame, "object": "chat.completion.chunk", "choices": choices, **more}
        return event({**made, "usage": used} if self._has_usage else made)

    def _log_probs(self, end: Spoken) -> dict[str, Any] | None:
        """Of every token, under both streams together; of a stream they come with its end."""
        if not self._has_log_probs:
            return None
        return {"content": [_token(one) for one in end.answer.trace], "refusal": None}


def _calls(end: Spoken) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in end.calls
    ]


def usage(used: Usage) -> dict[str, Any]:
    """Return OpenAI's usage. No field of it says memory's tokens: the prompt holds none."""
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.total_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _token(one: TokenTrace) -> dict[str, Any]:
    top = [_said(candidate.text, candidate.log_prob) for candidate in one.top]
    return {**_said(one.text, one.log_prob), "top_logprobs": top}


def _said(text: str, log_prob: float) -> dict[str, Any]:
    return {"token": text, "logprob": max(log_prob, _LEAST_LOG_PROB), "bytes": list(text.encode())}
