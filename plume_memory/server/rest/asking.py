"""Questions in memory's own shape: the answer with everything it was made from, whole or as it comes."""

import time
from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from plume_memory.cancel import Cancel
from plume_memory.recalling.notes import PROFILE_TOKENS, RecallOptions
from plume_memory.server.answers import waited
from plume_memory.server.auth import Caller
from plume_memory.server.pinning import ROWS, Pinned, keep, pin, timeout_s
from plume_memory.server.problems import Problem, problem_document
from plume_memory.server.rest.answer_schemas import (
    AnswerOut,
    Question,
    Recalled,
    RecallQuestion,
    ReplacementsOut,
    Routed,
    RouteQuestion,
)
from plume_memory.server.rest.common import MemoryId, VersionNumber, memory_of
from plume_memory.server.rest.schemas import PROBLEMS, NumberOrNone
from plume_memory.server.state import Identified, Serving, ServingNow
from plume_memory.server.streams import begun, event

if TYPE_CHECKING:  # torch's side
    from plume_memory.answering.options import AskOptions
    from plume_memory.model.prompt import Message

router = APIRouter(prefix="/v1/memories/{id}", tags=["asking"], responses=PROBLEMS)


@router.post(
    "/ask",
    response_model=AnswerOut,
    responses={200: {"content": {"text/event-stream": {}}, "description": "The answer; with `stream` its events."}},
)
async def ask(
    request: Request, response: Response, number: MemoryId, body: Question, serving: ServingNow, caller: Identified
) -> Any:
    """Answer from the weights. With `stream`: events `piece` with words, then `answer`; or `error`, the last one."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    timeout = timeout_s(serving, request.headers)
    serving.limits.rows(caller.key_id, ROWS)
    running = serving.answers.begin(memory.log_name, timeout)
    is_streaming = False
    try:
        pinned = await waited(request, running, lambda: pin(serving, memory, body.version))
        request.state.version = pinned.snapshot.version
        options = _options(serving, body, timeout, running.cancel)
        if body.stream:
            stream = await begun(
                request,
                _events(serving, caller, pinned, body, options),
                running,
                is_allowed=serving.is_allowed(caller),
                failed=lambda problem: _failed(problem, request.state.request_id),
                keep_alive_s=serving.settings.keep_alive_s,
                headers=pinned.headers(),
            )
            is_streaming = True
            return stream
        answer = await waited(request, running, lambda: pinned.snapshot.ask(_asked(body), **options))
    finally:
        if not is_streaming:
            running.end()
    response.headers.update({**pinned.headers(), "cache-control": "no-store"})
    return keep(serving, caller, pinned, _words(body), answer)


@router.post("/route", response_model=Routed)
async def route(
    request: Request, response: Response, number: MemoryId, body: RouteQuestion, serving: ServingNow, caller: Identified
) -> Routed:
    """Rank the units of a version for a question; a model of the caller's own reads the best of them."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    serving.limits.rows(caller.key_id, ROWS)
    running = serving.answers.begin(memory.log_name)
    try:
        pinned = await waited(request, running, lambda: pin(serving, memory, body.version))
        units = await waited(request, running, lambda: pinned.snapshot.route(body.question, k=body.k))
    finally:
        running.end()
    response.headers["cache-control"] = "no-store"
    return Routed(memory=memory.id, version=pinned.snapshot.version, units=units)


@router.post("/recall", response_model=Recalled)
async def recall(
    request: Request,
    response: Response,
    number: MemoryId,
    body: RecallQuestion,
    serving: ServingNow,
    caller: Identified,
) -> Recalled:
    """Give the notes that bear on a question, quoted for a model of the caller's own; often none."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    serving.limits.rows(caller.key_id, ROWS)
    running = serving.answers.begin(memory.log_name)
    options: RecallOptions = {
        "k": body.k,
        "max_tokens": body.max_tokens,
        "history": body.history,
        "since": body.since,
        "until": body.until,
    }
    try:
        pinned = await waited(request, running, lambda: pin(serving, memory, body.version))
        found = await waited(request, running, lambda: pinned.snapshot.recall(_asked(body), **options))
    finally:
        running.end()
    response.headers["cache-control"] = "no-store"
    return Recalled.of(found, memory=memory.id, version=pinned.snapshot.version)


@router.get("/profile", response_model=Recalled)
async def profile(
    request: Request,
    response: Response,
    number: MemoryId,
    serving: ServingNow,
    caller: Identified,
    max_tokens: Annotated[int, Query(ge=1)] = PROFILE_TOKENS,
    version: Annotated[NumberOrNone | None, Query(description="The newest when not given.")] = None,
) -> Recalled:
    """Say whom the memory is about, in its own words, most central first."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    serving.limits.rows(caller.key_id, ROWS)
    running = serving.answers.begin(memory.log_name)
    try:
        pinned = await waited(request, running, lambda: pin(serving, memory, version))
        found = await waited(request, running, lambda: pinned.snapshot.profile(max_tokens=max_tokens))
    finally:
        running.end()
    response.headers["cache-control"] = "no-store"
    return Recalled.of(found, memory=memory.id, version=pinned.snapshot.version)


@router.get("/versions/{n}/replacements", response_model=ReplacementsOut)
async def replacements(
    request: Request, response: Response, number: MemoryId, n: VersionNumber, serving: ServingNow, caller: Identified
) -> ReplacementsOut:
    """Return what no longer holds at a version, and what took its place; judged by the model where it is not yet."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    serving.limits.rows(caller.key_id, ROWS)
    running = serving.answers.begin(memory.log_name)
    try:
        pinned = await waited(request, running, lambda: pin(serving, memory, n))
        found = await waited(request, running, lambda: pinned.snapshot.replacements)
    finally:
        running.end()
    response.headers["cache-control"] = "no-store"
    return ReplacementsOut(memory=memory.id, version=n, replacements=list(found))


def _events(
    serving: Serving, caller: Caller, pinned: Pinned, body: Question, options: "AskOptions"
) -> Generator[bytes, None, None]:
    """The events of a stream, made in an answer's threads; closing it frees the rows."""
    begun_at = time.monotonic()
    with closing(pinned.snapshot.stream(_asked(body), **options)) as pieces:
        for at, piece in enumerate(pieces):
            if at == 0:
                serving.metrics.first_token_s.observe(time.monotonic() - begun_at)
            if piece.text:
                yield event({"text": piece.text}, name="piece")
            if piece.answer is not None:
                shown = keep(serving, caller, pinned, _words(body), piece.answer)
                yield event(shown.model_dump(mode="json"), name="answer")


def _failed(problem: Problem, request_id: str) -> bytes:
    return event(problem_document(problem, request_id), name="error")


def _asked(body: Question | RecallQuestion) -> "str | list[Message]":
    if body.question is not None:
        return body.question
    return [{"role": turn.role, "content": turn.content} for turn in body.messages or []]


def _words(body: Question) -> str:
    """What is asked, for the trace."""
    return body.question if body.question is not None else (body.messages or [])[-1].content


def _options(serving: Serving, body: Question, timeout: float, cancel: Cancel) -> "AskOptions":
    unknown: Literal["abstain", "bare"] = body.unknown
    most = serving.settings.answer_tokens
    return {
        "max_new_tokens": None if body.max_new_tokens is None else min(body.max_new_tokens, most),
        "stop": body.stop,
        "top_candidates": body.top_candidates,
        "unknown": unknown,
        "known_at": body.known_at,
        "timeout": timeout,
        "cancel": cancel,
    }
