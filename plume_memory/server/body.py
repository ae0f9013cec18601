"""Bodies, read whole before anybody parses them: no larger and no slower than is allowed.

`Content-Length` may be absent or lie, so the bytes that come are counted. An archive is another matter: its route reads
it itself, into a file.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plume_memory.server.problems import Problem, response
from plume_memory.server.settings import ServerSettings

IMPORT_PATH = "/v1/memories:import"


class BodyLimit:
    """ASGI middleware that hands on what it has read."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the module."""
        if scope["type"] != "http" or scope["path"] == IMPORT_PATH:
            return await self._app(scope, receive, send)
        most, longest_s = self._settings.body_bytes, self._settings.body_s
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if declared.isdigit() and int(declared) > most:
            return await self._refuse(scope, receive, send, too_large(most))
        messages: list[Message] = []
        size = 0
        try:
            async with asyncio.timeout(longest_s):
                while not messages or messages[-1].get("more_body", False):
                    message = await receive()
                    messages.append(message)
                    size += len(message.get("body", b""))
                    if size > most:
                        return await self._refuse(scope, receive, send, too_large(most))
        except TimeoutError:
            detail = f"The body did not arrive within {longest_s:g} s."
            return await self._refuse(scope, receive, send, Problem(408, "slow-body", detail, should_retry=False))

        async def replayed() -> Message:
            return messages.pop(0) if messages else await receive()

        await self._app(scope, replayed, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, problem: Problem) -> None:
        request_id = scope.get("state", {}).get("request_id", "")
        refused = response(problem, scope["path"], request_id, headers={"connection": "close"})
        await refused(scope, receive, send)


def too_large(most: int) -> Problem:
    """Return the problem of a body that is."""
    return Problem(413, "body-too-large", f"A body has at most {most:,} bytes here; send less, or in parts.")
