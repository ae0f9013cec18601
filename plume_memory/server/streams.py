"""Server-sent events from a generator that runs in threads: begun, kept alive, ended early, closed in any case."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from plume_memory.errors import Cancelled, PlumeError
from plume_memory.server.answers import GONE, RunningAnswer, disconnected
from plume_memory.server.problems import Problem, problem_of

_LOGGER = logging.getLogger(__name__)
_CHECKED_EVERY_S = 1.0
"""How soon a key that is revoked ends a stream."""
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no", "content-type": "text/event-stream; charset=utf-8"}


def event(body: Any, *, name: str | None = None) -> bytes:
    """Return one event: JSON on one line."""
    written = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {written}\n\n".encode()


class EventStream(Response):
    """Sends what a generator gives, piece by piece.

    Args:
        first: the piece that is being made; None at the end.
        pieces: the generator; it is run and closed in threads.
        running: its place, given back at the end.
        gone: done when the client is.
        is_allowed: whether the key still opens; asked in a thread, about every second.
        failed: the event that says a problem; it is the last one.
        keep_alive_s: how often a stream with nothing to say says so.
        headers: beside those of every stream.
    """

    def __init__(
        self,
        first: "asyncio.Future[bytes | None]",
        pieces: Iterator[bytes],
        running: RunningAnswer,
        gone: "asyncio.Future[None]",
        *,
        is_allowed: Callable[[], bool],
        failed: Callable[[Problem], bytes],
        keep_alive_s: float,
        headers: dict[str, str],
    ) -> None:
        super().__init__(None, 200, {**HEADERS, **headers})
        del self.headers["content-length"]
        self._pending, self._pieces, self._running, self._gone = first, pieces, running, gone
        self._is_allowed, self._failed, self._keep_alive_s = is_allowed, failed, keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._sent(send)
            if not self._gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            end(self._pending, self._pieces, self._running, self._gone)

    async def _sent(self, send: Send) -> None:
        checked = said = time.monotonic()
        while True:
            timeout = min(_CHECKED_EVERY_S, self._keep_alive_s)
            both: set[asyncio.Future[Any]] = {self._pending, self._gone}
            await asyncio.wait(both, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if self._gone.done():
                return
            if time.monotonic() - checked >= _CHECKED_EVERY_S:
                checked = time.monotonic()
                if not await run_in_threadpool(self._is_allowed):
                    problem = Problem(401, "unauthorized", "The key was revoked, or has expired.")
                    return await _body(send, self._failed(problem))
            if not self._pending.done():
                if time.monotonic() - said >= self._keep_alive_s:
                    said = time.monotonic()
                    await _body(send, b": keep-alive\n\n")
                continue
            error = self._pending.exception()
            if error is not None:
                _log(error)
                return await _body(send, self._failed(problem_of(error)))
            piece = self._pending.result()
            if piece is None:
                return None
            await _body(send, piece)
            said = time.monotonic()
            self._pending = asyncio.wrap_future(self._running.submit(lambda: next(self._pieces, None)))


async def begun(
    request: Request,
    pieces: Iterator[bytes],
    running: RunningAnswer,
    *,
    is_allowed: Callable[[], bool],
    failed: Callable[[Problem], bytes],
    keep_alive_s: float,
    headers: dict[str, str],
) -> EventStream:
    """Wait for a stream's first piece and return the response.

    What goes wrong until then is an answer of its own, with its status; but a client does not wait longer than
    `keep_alive_s` for a sign of life, and what goes wrong later is said in the stream.

    Raises:
        PlumeError: of the first piece.
        Cancelled: the client went away.
    """
    first = asyncio.wrap_future(running.submit(lambda: next(pieces, None)))
    gone = asyncio.ensure_future(disconnected(request.receive))
    both: set[asyncio.Future[Any]] = {first, gone}
    is_begun = False
    try:
        await asyncio.wait(both, timeout=keep_alive_s, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise Cancelled(f"The answer was cancelled: {GONE}.")
        if first.done() and (error := first.exception()) is not None:
            raise error
        is_begun = True
    finally:
        if not is_begun:
            end(first, pieces, running, gone)
    return EventStream(
        first,
        pieces,
        running,
        gone,
        is_allowed=is_allowed,
        failed=failed,
        keep_alive_s=keep_alive_s,
        headers=headers,
    )


def end(
    pending: "asyncio.Future[bytes | None]",
    pieces: Iterator[bytes],
    running: RunningAnswer,
    gone: "asyncio.Future[None]",
) -> None:
    """Free the rows and give the place back, once the thread that is in the generator has left it.

    It awaits nothing: it is called where a task is being cancelled.
    """
    gone.cancel()
    running.cancel(GONE)

    def close() -> None:
        try:
            pieces.close()  # type: ignore[attr-defined]  # a generator
        finally:
            running.end()

    def left(future: "asyncio.Future[bytes | None]") -> None:
        if not future.cancelled():
            future.exception()  # seen: asyncio complains of an error that nobody saw
        running.submit(close)

    pending.add_done_callback(left)


async def _body(send: Callable[[Any], Awaitable[None]], piece: bytes) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": True})


def _log(error: BaseException) -> None:
    if not isinstance(error, PlumeError):
        _LOGGER.error("A stream ended with an error.", exc_info=error)
