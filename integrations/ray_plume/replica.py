"""One replica: the server's whole application in an actor, with an engine of its own.

It answers what the gateway hands it, ASGI message by ASGI message. Log and artifacts are shared with the other
replicas; what a replica holds beside them can be lost.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from starlette.types import ASGIApp, Message, Scope

from plume_memory.errors import ModelError
from plume_memory.pool import MemoryPool
from plume_memory.server.app import create_app
from plume_memory.server.health import is_stuck
from plume_memory.server.problems import RETRY_S, Problem, Refused, response
from plume_memory.server.running import warm
from plume_memory.server.settings import ServerSettings
from ray_plume.scaling import load_of

_LOGGER = logging.getLogger(__name__)
_AHEAD = 64
"""Messages that an application may be ahead of who reads them."""
BEGIN_S = 60.0
"""Longest that the application's own start may take."""
_NOT_BEGUN = Problem(503, "not-begun", "This replica could not begin to serve; ask again.", RETRY_S)


class Replica:
    """The application, in the methods that Ray Serve calls.

    Args:
        make_pool: makes the pool, in the replica's process.
        settings: of the server.
        mark: what the ids of what this replica alone keeps begin with.

    Raises:
        SchemaError: the database belongs to another release.
        StoreUnavailable: the database cannot be opened.
        ModelError: the model cannot be loaded, the clock is wrong, or peers answer otherwise; the log says which.
    """

    def __init__(self, make_pool: Callable[[], MemoryPool], settings: ServerSettings, mark: str) -> None:
        self._app = create_app(make_pool(), replace(settings, mark=mark))
        self._serving = self._app.state.serving
        warm(self._serving).join()  # Ray Serve sends requests once this returns
        if not self._serving.condition.is_warm:
            raise ModelError("This replica cannot serve: its log says why (model, clock, or its peers' answers).")
        self._running: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._beginning = asyncio.Lock()

    async def answer(self, scope: Scope, body: bytes) -> AsyncIterator[list[Message]]:
        """Answer one request, in the messages that are there each time.

        Args:
            scope: of HTTP; what can be sent between processes.
            body: whole.
        """
        try:
            await self._begun()
        except Refused as err:
            yield await _messages_of(response(err.problem, scope["path"], ""), scope)
            return
        sent: asyncio.Queue[Message | None] = asyncio.Queue(_AHEAD)
        gone = asyncio.Event()
        bodies = [body]

        async def receive() -> Message:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message | None) -> None:
            if not gone.is_set():
                await sent.put(message)

        async def run() -> None:
            try:
                await self._app({**scope, "state": {}}, receive, send)
            finally:
                await send(None)

        running = asyncio.create_task(run())
        self._running.add(running)  # else it may be collected before it has noticed that its client is gone
        running.add_done_callback(self._running.discard)
        try:
            while True:
                messages = [await sent.get()]
                while not sent.empty():
                    messages.append(sent.get_nowait())
                yield [message for message in messages if message is not None]
                if messages[-1] is None:
                    break
            await running
        finally:
            gone.set()
            while not sent.empty():  # frees an application that waits to send
                sent.get_nowait()

    def check_health(self) -> None:
        """Tell Ray Serve, which replaces a replica that is not well.

        Raises:
            RuntimeError: something is decoded, and no step is taken.
        """
        if is_stuck(self._serving):
            raise RuntimeError("The batch that is decoded does not move.")

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Report the load to Ray Serve."""
        return load_of(self._serving)

    async def __del__(self) -> None:
        """End in order. Ray Serve calls it once what was being answered has ended, or had its time."""
        self._ending.set()
        if self._life is None:
            await asyncio.to_thread(self._serving.close)
        else:
            await self._life

    async def _begun(self) -> None:
        """Start the application's lifespan with the first request: in a task of its own, which also ends it.

        Raises:
            Refused: it did not start, or not within `BEGIN_S`. The next request tries anew.
        """
        async with self._beginning:
            if self._life is not None:
                return
            ready = asyncio.Event()
            life, waiting = asyncio.create_task(self._live(ready)), asyncio.create_task(ready.wait())
            try:
                await asyncio.wait({life, waiting}, timeout=BEGIN_S, return_when=asyncio.FIRST_COMPLETED)
            finally:  # whoever asked may have left meanwhile
                waiting.cancel()
                if ready.is_set():
                    self._life = life
                else:
                    life.cancel()
            if self._life is None:
                (why,) = await asyncio.gather(life, return_exceptions=True)
                _LOGGER.error("The application did not start within %g s, or failed.", BEGIN_S, exc_info=why)
                raise Refused(_NOT_BEGUN)

    async def _live(self, ready: asyncio.Event) -> None:
        async with self._app.router.lifespan_context(self._app):
            ready.set()
            await self._ending.wait()


async def _messages_of(answer: ASGIApp, scope: Scope) -> list[Message]:
    messages: list[Message] = []

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    async def keep(message: Message) -> None:
        messages.append(message)

    await answer(scope, nothing, keep)
    return messages


def plain(scope: Scope) -> dict[str, Any]:
    """Return the parts of a scope that can be sent between processes."""
    names = ("type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path")
    return {name: scope[name] for name in (*names, "headers", "client", "server") if name in scope}
