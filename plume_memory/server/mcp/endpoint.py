"""`/mcp`: stateless streamable HTTP, one JSON answer for each request, of either era of the protocol.

Keys, tenants, scopes and limits are REST's. A key of one memory, or the header `X-Plume-Memory`, fixes the memory;
else every call names one. Any replica can answer any request: nothing is kept between two.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from plume_memory.errors import Cancelled, MemoryNotFound
from plume_memory.server.answers import GONE, disconnected
from plume_memory.server.auth import Caller, is_local
from plume_memory.server.mcp.backend import Backend
from plume_memory.server.mcp.protocol import Context, mcp_server
from plume_memory.server.mcp.served import Served
from plume_memory.server.naming import VERSION_HEADER, addressed, sources_of
from plume_memory.server.problems import Problem, Refused, invalid
from plume_memory.server.state import Serving, identified, stored
from plume_memory.store.directory import ListedMemory

PATH = "/mcp"


class McpEndpoint:
    """An ASGI application for one path; `run` must be entered while it serves."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self.route = Route(PATH, endpoint=self, methods=["POST"])
        """POST alone: without sessions there is no stream to GET and nothing to DELETE."""
        self._manager = self._new_manager()

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve until the block is left; it may be entered again then."""
        self._manager = self._new_manager()  # the SDK's runs once
        async with self._manager.run():
            yield

    def _new_manager(self) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            app=mcp_server(_backend_of),
            json_response=True,
            stateless=True,
            # whose pages and names may call is asked below, where a key counts too
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=self._serving.settings.body_bytes,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, for who may ask.

        Raises:
            Refused: 401, 403, 429; 400 where two places name two memories.
            MemoryNotFound: the named memory is not this caller's.
        """
        scope["route"] = self.route  # for the log; FastAPI's own routes say so themselves
        request = Request(scope, receive)
        caller = await identified(request)
        _check_origin(request)
        memory = await stored(lambda: _memory_of(self._serving, caller, request))
        if memory is not None:
            request.state.memory = memory.id
        request.state.backend = Served(self._serving, caller, memory, request.state)
        await self._handled(scope, await request.body(), receive, send)

    async def _handled(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Let the SDK answer, as long as its client waits: of one that leaves it takes no notice by itself.

        Raises:
            Cancelled: the client went away.
        """
        gone = asyncio.ensure_future(disconnected(receive))
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        has_answered = False

        async def replayed() -> Message:
            if messages:
                return messages.pop()
            await asyncio.wait([gone])
            return {"type": "http.disconnect"}

        async def sent(message: Message) -> None:
            nonlocal has_answered
            has_answered = True
            await send(message)

        handling = asyncio.ensure_future(self._manager.handle_request(scope, replayed, sent))
        both: set[asyncio.Future[None]] = {handling, gone}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not handling.done() and not has_answered:
                raise Cancelled(f"The call was cancelled: {GONE}.")
            await handling  # whoever has his answer may leave before all is tidied up
        finally:
            handling.cancel()
            gone.cancel()


def _backend_of(context: Context) -> Backend:
    """The backend that the endpoint made for the request."""
    request: Request = context.request  # type: ignore[assignment]  # over HTTP there is always one
    found: Backend = request.state.backend
    return found


def _memory_of(serving: Serving, caller: Caller, request: Request) -> ListedMemory | None:
    """The memory that all calls of a request are about; None where each names one."""
    if VERSION_HEADER in request.headers:
        raise invalid(f"{VERSION_HEADER} does not hold for tools: `ask` takes the version.", param=VERSION_HEADER)
    found = addressed(serving.directory, caller, sources_of(caller, serving.settings, request.headers))
    if found is not None and found.memory is None:
        raise MemoryNotFound(f"There is no memory {found.new_name!r}: create it first.")
    return None if found is None else found.memory


def _check_origin(request: Request) -> None:
    """Refuse a page of another site, whatever key it has.

    A name that was made to point here (DNS rebinding) is refused before, where nobody needs a key (`auth.caller_of`);
    where one is needed such a page has none.

    Raises:
        Refused: 403.
    """
    origin = request.headers.get("origin")
    if origin is None:
        return
    site = urlsplit(origin).netloc
    if not site or (site != request.headers.get("host") and not is_local(site)):
        raise Refused(Problem(403, "forbidden", "A page of another site may not call this."))
