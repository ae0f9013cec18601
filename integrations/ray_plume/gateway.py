"""The way in: reads a request whole, finds the replica that knows its memory, and hands on what comes back.

No model and no database. A replica that dies while it answers is noticed here: what may be sent twice is sent to
another one, and of the rest the caller is told what is not known. An archive, which may be large, is read once a
replica has said that its key may import.
"""

import asyncio
import json
import logging
import secrets
from typing import Any

from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError
from ray.serve.exceptions import BackPressureError, RayServeException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plume_memory.errors import ServerError
from plume_memory.server.auth import Caller
from plume_memory.server.body import IMPORT_PATH, BodyLimit, too_large
from plume_memory.server.problems import (
    RETRY_S,
    Problem,
    Refused,
    is_openai,
    openai_error,
    problem_document,
    problem_of,
    response,
)
from plume_memory.server.settings import ServerSettings
from plume_memory.server.streams import event
from ray_plume.affinity import word_of
from ray_plume.replica import plain

_LOGGER = logging.getLogger(__name__)
_ATTEMPTS = 4
_PAUSE_S = 0.25
"""Before another attempt: Ray Serve hears of a death within about that time."""
_QUESTIONS = ("/ask", "/route", "/recall")
_CHATS = ("/v1/chat/completions", "/v1/responses")
_KEY_PATH = "/v1/key"
_OF_A_KEY = (b"authorization", b"host", b"origin")
"""Headers that decide who calls."""
IMPORTS_AT_ONCE = 2
"""Archives that one gateway holds at most, of different tenants."""
_MEMORY = "/v1/memories/"
_KEYED = ("/updates", "/rollback", "/forget")
"""Writes to a memory that are done once, however often sent with one Idempotency-Key; no other path reads it."""
BUSY = Problem(503, "busy", "Every replica has as much as it takes; ask again.", RETRY_S, should_retry=True)
LOST = Problem(
    503,
    "replica-lost",
    "A replica ended while it worked on this, and whether it was done is not known. Look at the memory first; an "
    "update, a rollback or a forget that was sent with an Idempotency-Key can be sent again with it.",
    RETRY_S,
    should_retry=False,
)
NONE = Problem(503, "no-replica", "No replica can be reached; ask again.", RETRY_S)
LOST_MIDWAY = Problem(503, "replica-lost", "The replica ended while it answered; ask again.", RETRY_S)


class Gateway:
    """The deployment that HTTP comes in by.

    Args:
        replicas: handle of the deployment of `Replica`.
        settings: of the server.
    """

    def __init__(self, replicas: Any, settings: ServerSettings) -> None:
        self._replicas, self._settings = replicas, settings

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Return the application; Ray Serve's name for it."""
        return BodyLimit(Forwarder(self._replicas, self._settings), self._settings)


class Forwarder:
    """ASGI application that hands requests on.

    Args:
        replicas: handle of the deployment of `Replica`.
        settings: of the server.
    """

    def __init__(self, replicas: Any, settings: ServerSettings) -> None:
        self._replicas, self._settings = replicas, settings
        self._importing = asyncio.Semaphore(IMPORTS_AT_ONCE)
        self._tenants: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the module."""
        if scope["type"] == "lifespan":
            return await _live(receive, send)
        try:
            if scope["path"] == IMPORT_PATH and scope["method"] == "POST":
                return await self._import(scope, receive, send)
            body = await _body(receive, self._settings.body_bytes)
        except Refused as err:
            return await _refuse(err.problem, scope, receive, send)
        if body is not None:
            await self._hand_on(scope, body, receive, send)

    async def _import(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on an archive.

        Raises:
            Refused: its key may not import, it is too large or too slow, or others are being read.
        """
        kept = [(name, value) for name, value in scope["headers"] if name in _OF_A_KEY]
        asked = {**scope, "method": "GET", "path": _KEY_PATH, "raw_path": _KEY_PATH.encode(), "query_string": b""}
        answer = _Kept()
        await self._hand_on({**asked, "headers": kept}, b"", receive, answer)
        if answer.status != 200:
            return await answer.send_to(send)
        key = json.loads(answer.body)
        caller = Caller(None, key["tenant"], frozenset(key["scopes"]), key["memory"], writes=False)
        caller.check("memory:write")
        caller.check_unbound()
        if self._importing.locked() or caller.tenant in self._tenants:
            raise Refused(BUSY)
        async with self._importing:
            self._tenants.add(caller.tenant)
            try:
                await self._read_and_hand_on(scope, receive, send)
            finally:
                self._tenants.discard(caller.tenant)

    async def _read_and_hand_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        most, longest_s = self._settings.archive_bytes, self._settings.archive_s
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > most:
            raise Refused(too_large(most))
        try:
            async with asyncio.timeout(longest_s):
                body = await _body(receive, most)
        except TimeoutError as err:
            detail = f"The archive did not arrive within {longest_s:g} s."
            raise Refused(Problem(408, "slow-body", detail, should_retry=False)) from err
        if body is not None:
            await self._hand_on(scope, body, receive, send)

    async def _hand_on(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        word = word_of(scope["path"], headers, body)
        replicas = self._replicas.options(method_name="answer", stream=True, session_id=word)
        sent, attempts = _Sent(send), _ATTEMPTS if is_repeatable(scope["method"], scope["path"], headers) else 1
        for attempt in range(1, attempts + 1):
            try:
                async for messages in replicas.remote(plain(scope), body):
                    for message in messages:
                        await sent(message)
                return
            except BackPressureError:
                return await _refuse(BUSY, scope, receive, send)
            except (ActorDiedError, ActorUnavailableError):
                _LOGGER.warning("A replica ended while it answered (attempt %d of %d).", attempt, attempts)
                if sent.is_begun:
                    return await sent.broken_off(scope["path"], LOST_MIDWAY)
                if attempt == attempts:
                    return await _refuse(LOST, scope, receive, send)
            except (RayError, RayServeException) as err:  # Ray's own words, a traceback, are for the log
                _LOGGER.error("A request failed in Ray or in a replica.", exc_info=err)
                problem = _problem_of(err)
                return await (
                    sent.broken_off(scope["path"], problem) if sent.is_begun else _refuse(problem, scope, receive, send)
                )
            await asyncio.sleep(_PAUSE_S * attempt)


class _Sent:
    """What a client was sent of an answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_begun = False
        self._is_over = False
        self._is_events = False

    async def __call__(self, message: Message) -> None:
        """Send a message."""
        self.is_begun = True
        if message["type"] == "http.response.start":
            self._is_events = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
        else:
            self._is_over = not message.get("more_body", False)
        await self._send(message)

    async def broken_off(self, path: str, problem: Problem) -> None:
        """End an answer that will not be finished: a stream of events says why, another is cut.

        Raises:
            ServerError: the connection is to be cut.
        """
        if self._is_over:  # it failed behind its answer
            return
        if not self._is_events:
            raise ServerError(problem.detail)
        if is_openai(path):
            said = event(openai_error(problem), name="error")
        else:
            said = event(problem_document(problem, ""), name="error")
        await self._send({"type": "http.response.body", "body": said, "more_body": False})


class _Kept:
    """An answer that nobody is sent yet."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self._messages.append(message)

    @property
    def status(self) -> int:
        return int(self._messages[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self._messages[1:])

    async def send_to(self, send: Send) -> None:
        for message in self._messages:
            await send(message)


def _problem_of(error: Exception) -> Problem:
    """What a caller is told of an error that Ray hands on."""
    if isinstance(error, RayTaskError):
        return problem_of(error.cause)  # its own text is a traceback
    return NONE if isinstance(error, RayServeException) else problem_of(error)


def is_repeatable(method: str, path: str, headers: Headers) -> bool:
    """Tell whether a request can be sent twice and be done once."""
    if method != "POST":
        return method in ("GET", "HEAD", "OPTIONS")
    if "idempotency-key" in headers and path.startswith(_MEMORY) and path.endswith(_KEYED):
        return True
    # A chat that writes makes the key of its write from the words: sent again it is one update.
    return path.endswith(_QUESTIONS) or path in _CHATS


async def _body(receive: Receive, most: int) -> bytes | None:
    """Read a body; None: its client left before it ended.

    Raises:
        Refused: it is too large.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise Refused(too_large(most))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    request_id = f"req_{secrets.token_hex(12)}"
    refused = response(problem, scope["path"], request_id, headers={"x-request-id": request_id})
    _LOGGER.warning(json.dumps({"request": request_id, "status": problem.status, "code": problem.code}))
    await refused(scope, receive, send)


async def _live(receive: Receive, send: Send) -> None:
    while True:
        phase = (await receive())["type"]
        await send({"type": f"{phase}.complete"})
        if phase == "lifespan.shutdown":
            return
