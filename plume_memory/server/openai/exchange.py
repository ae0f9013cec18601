"""One exchange, whichever of OpenAI's two protocols it is in: begun, answered whole or as a stream, ended."""

from collections.abc import Callable, Generator
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from plume_memory.server.answers import waited
from plume_memory.server.auth import Caller
from plume_memory.server.openai.speaking import Prepared, Spoken, Wanted, Words, place_of, prepare, spoken
from plume_memory.server.pinning import ROWS, timeout_s
from plume_memory.server.problems import Problem
from plume_memory.server.state import Serving, stored
from plume_memory.server.streams import begun

Pieces = Generator[Words | Spoken, None, None]


class Writer(Protocol):
    """Writes an answer in a protocol's shape."""

    def whole(self, pieces: Pieces) -> dict[str, Any]:
        """Return the body of an answer."""

    def events(self, pieces: Pieces) -> Generator[bytes, None, None]:
        """Give the events of a stream; it closes the pieces."""

    def failed(self, problem: Problem) -> bytes:
        """Return the event that ends a stream with an error."""


async def exchanged(
    request: Request,
    serving: Serving,
    caller: Caller,
    wanted: Wanted,
    writer: Callable[[Prepared], Writer],
    *,
    is_streamed: bool,
    unread: list[str],
) -> Response:
    """Answer a call.

    Args:
        request: of the call.
        serving: the server's parts.
        caller: who calls.
        wanted: what for.
        writer: of the protocol's shape.
        is_streamed: as events.
        unread: names of what was sent and does nothing: said on the response.

    Raises:
        PlumeError: what went wrong before the first event.
    """
    headers, timeout = dict(request.headers), timeout_s(serving, request.headers)
    place = await stored(lambda: place_of(serving, caller, headers, wanted))
    memory = place.addressed.memory if place.addressed else None
    request.state.memory = None if memory is None else memory.id
    serving.limits.rows(caller.key_id, ROWS)
    running = serving.answers.begin(None if memory is None else memory.log_name, timeout)
    is_streaming = False
    try:
        prepared = await waited(request, running, lambda: prepare(serving, caller, headers, wanted, place, timeout))
        request.state.version = prepared.pinned.snapshot.version
        sent = {**prepared.pinned.headers(), **({"x-plume-ignored": ", ".join(unread)} if unread else {})}
        written = writer(prepared)
        pieces = spoken(serving, caller, wanted, prepared, running.cancel)
        if not is_streamed:
            body = await waited(request, running, lambda: written.whole(pieces))
            known = str(body["plume"]["known"]).lower()  # of a stream it is not known yet when its headers are sent
            return JSONResponse(body, headers={**sent, "x-plume-known": known, "cache-control": "no-store"})
        stream = await begun(
            request,
            written.events(pieces),
            running,
            is_allowed=serving.is_allowed(caller),
            failed=written.failed,
            keep_alive_s=serving.settings.keep_alive_s,
            headers=sent,
        )
        is_streaming = True
        return stream
    finally:
        if not is_streaming:
            running.end()
