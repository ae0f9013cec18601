"""The way in, before replicas that are none: what it reads, whom it asks first, and what it says of Ray's errors."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray_plume import replica as replicas
from ray_plume.gateway import IMPORTS_AT_ONCE, Forwarder
from ray_plume.replica import Replica
from starlette.types import Message, Scope

from plume_memory.errors import MemoryNotFound
from plume_memory.server.settings import ServerSettings

SETTINGS = ServerSettings(archive_bytes=1000, archive_s=0.2, body_bytes=100)
WRITER = {"tenant": "default", "scopes": ["memory:write"], "memory": None}


class Handle:
    """A deployment's handle. What it answers is given by path; an error is raised."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers
        self.asked: list[tuple[str, bytes]] = []

    def options(self, **_: Any) -> "Handle":
        return self

    async def remote(self, scope: dict[str, Any], body: bytes) -> AsyncIterator[list[Message]]:
        self.asked.append((scope["path"], body))
        answer = self._answers[scope["path"]]
        if callable(answer):
            answer = await answer()
        for one in answer if isinstance(answer, list) else [answer]:
            if isinstance(one, Exception):
                raise one
            yield said(*one)


def said(status: int, body: Any) -> list[Message]:
    started: Message = {"type": "http.response.start", "status": status, "headers": []}
    return [started, {"type": "http.response.body", "body": json.dumps(body).encode(), "more_body": False}]


async def sent(handle: Handle, path: str, *parts: bytes, forwarder: Forwarder | None = None) -> tuple[int, Any, int]:
    """Status, body, and how many parts of the body were read."""
    scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"authorization", b"Bearer plk_a")]}
    waiting, answer = list(parts), list[Message]()

    async def receive() -> Message:
        if not waiting:
            await asyncio.sleep(600)
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": body != b"end"}

    async def send(message: Message) -> None:
        answer.append(message)

    await (forwarder or Forwarder(handle, SETTINGS))(scope, receive, send)
    body = b"".join(one.get("body", b"") for one in answer[1:])
    return answer[0]["status"], json.loads(body), len(parts) - len(waiting)


IMPORT = "/v1/memories:import"


@pytest.mark.parametrize(
    ("key", "status"),
    [
        ((401, {"detail": "Send a key."}), 401),
        ((429, {"detail": "Later."}), 429),
        ((200, {**WRITER, "scopes": ["memory:read"]}), 403),
        ((200, {**WRITER, "memory": "mem_1"}), 403),
    ],
)
async def test_no_archive_is_read_of_a_key_that_may_not_import(key: tuple[int, Any], status: int) -> None:
    handle = Handle({"/v1/key": key})
    found, _, read = await sent(handle, IMPORT, b"archive", b"end")
    assert (found, read) == (status, 0)
    assert [path for path, _ in handle.asked] == ["/v1/key"]


async def test_an_archive_is_handed_on_whole() -> None:
    handle = Handle({"/v1/key": (200, WRITER), IMPORT: (201, {"versions": 3})})
    assert await sent(handle, IMPORT, b"a" * 900, b"end") == (201, {"versions": 3}, 2)
    assert handle.asked[1] == (IMPORT, b"a" * 900 + b"end")


async def test_an_archive_is_no_larger_and_no_slower_than_is_allowed() -> None:
    handle = Handle({"/v1/key": (200, WRITER)})
    status, problem, _ = await sent(handle, IMPORT, b"a" * 900, b"a" * 900, b"end")
    assert (status, problem["type"]) == (413, "urn:plume:problem:body-too-large")
    status, problem, _ = await sent(handle, IMPORT, b"a")
    assert (status, problem["type"]) == (408, "urn:plume:problem:slow-body")
    assert [path for path, _ in handle.asked] == ["/v1/key"] * 2


async def test_a_gateway_holds_few_archives_at_once() -> None:
    come, go = asyncio.Event(), asyncio.Event()
    held = 0

    async def hold() -> tuple[int, Any]:
        nonlocal held
        held += 1
        if held == IMPORTS_AT_ONCE:
            come.set()
        await go.wait()
        return 201, {}

    tenants = iter(["a", "b", "b", "c", "c"])

    async def key() -> tuple[int, Any]:
        return 200, {**WRITER, "tenant": next(tenants)}

    handle = Handle({"/v1/key": key, IMPORT: hold})
    forwarder = Forwarder(handle, SETTINGS)
    first = [asyncio.create_task(sent(handle, IMPORT, b"end", forwarder=forwarder)) for _ in range(IMPORTS_AT_ONCE)]
    await come.wait()
    for _ in ("b", "c"):
        status, problem, read = await sent(handle, IMPORT, b"end", forwarder=forwarder)
        assert (status, problem["type"], read) == (503, "urn:plume:problem:busy", 0)
    go.set()
    assert [status for status, _, _ in await asyncio.gather(*first)] == [201] * IMPORTS_AT_ONCE
    assert (await sent(handle, IMPORT, b"end", forwarder=forwarder))[0] == 201


async def test_a_tenant_has_one_archive_read_at_a_time() -> None:
    come, go = asyncio.Event(), asyncio.Event()

    async def hold() -> tuple[int, Any]:
        come.set()
        await go.wait()
        return 201, {}

    handle = Handle({"/v1/key": (200, WRITER), IMPORT: hold})
    forwarder = Forwarder(handle, SETTINGS)
    first = asyncio.create_task(sent(handle, IMPORT, b"end", forwarder=forwarder))
    await come.wait()
    assert (await sent(handle, IMPORT, b"end", forwarder=forwarder))[0] == 503
    go.set()
    assert (await first)[0] == 201


@pytest.mark.parametrize("path", [IMPORT, "/v1/memories"])
async def test_what_a_client_left_in_the_middle_is_not_handed_on(path: str) -> None:
    handle, answer = Handle({"/v1/key": (200, WRITER)}), list[Message]()
    waiting = iter([{"type": "http.request", "body": b"half", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(waiting)

    async def send(message: Message) -> None:
        answer.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    await Forwarder(handle, SETTINGS)({**scope, "raw_path": path.encode()}, receive, send)
    assert [asked for asked, _ in handle.asked] == (["/v1/key"] if path == IMPORT else [])
    assert answer == []


def task_error(cause: Exception) -> Exception:
    return RayTaskError("answer", "Traceback: a secret place", cause, proctitle="p", pid=1, ip="127.0.0.1")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (task_error(ValueError("a secret place")), 500, "failed"),
        (task_error(MemoryNotFound("There is no memory m.")), 404, "memory-not-found"),
        (task_error(ValueError("a secret place")).as_instanceof_cause(), 500, "failed"),  # type: ignore[attr-defined]
        (BackPressureError(num_queued_requests=1, max_queued_requests=1), 503, "busy"),
        (DeploymentUnavailableError(SimpleNamespace()), 503, "no-replica"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/memories/m/updates", "/v1/chat/completions"])
async def test_errors_of_ray_are_problems_and_no_traceback(error: Exception, status: int, code: str, path: str) -> None:
    found, problem, _ = await sent(Handle({path: error}), path, b"end")
    assert found == status
    assert "secret" not in str(problem)
    named = problem["error"]["code"] if "error" in problem else problem["type"]
    assert named.endswith(code if "type" in problem else code.replace("-", "_"))


async def test_what_fails_behind_its_answer_was_answered() -> None:
    handle = Handle({"/v1/memories": [(201, {"id": "m"}), task_error(ValueError("late"))]})
    assert await sent(handle, "/v1/memories", b"end") == (201, {"id": "m"}, 1)


class Unbegun(Replica):
    """A replica that was put together by hand: there is nothing to end."""

    def __del__(self) -> None: ...  # type: ignore[override]


def replica_of(lifespan: Callable[[Any], Any]) -> Replica:
    """A replica whose application answers nothing but its start."""
    made = Unbegun.__new__(Unbegun)

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        for message in said(200, {}):
            await send(message)

    app.router = SimpleNamespace(lifespan_context=lifespan)  # type: ignore[attr-defined]
    made._app = app  # type: ignore[assignment]
    made._running, made._ending = set(), asyncio.Event()
    made._life, made._beginning = None, asyncio.Lock()
    return made


async def test_a_replica_that_cannot_begin_says_so_and_tries_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter(["hangs", "fails", "works"])

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        how = next(tries)
        if how == "hangs":
            await asyncio.sleep(600)
        if how == "fails":
            raise OSError("no port")
        yield

    replica = replica_of(lifespan)
    scope = {"type": "http", "method": "GET", "path": "/v1/memories"}
    for within_s, status in ((0.1, 503), (600, 503), (600, 200)):
        monkeypatch.setattr(replicas, "BEGIN_S", within_s)
        messages = [message for some in [each async for each in replica.answer(scope, b"")] for message in some]
        assert messages[0]["status"] == status
    replica._ending.set()
    assert replica._life is not None
    await replica._life
