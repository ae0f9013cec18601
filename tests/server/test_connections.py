"""Connections that ask for nothing, or never the whole of it, keep out nobody; pages of other sites, unless allowed."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.server import ServerState

from plume_memory.errors import InvalidInput
from plume_memory.server.connections import patience
from plume_memory.server.running import checked_origin
from tests.server.conftest import Served, until

IDLE = 1000
HALF_A_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


@pytest.fixture
def enough_files() -> Iterator[None]:
    """Both ends of a thousand connections are in this process."""
    resource = pytest.importorskip("resource", reason="this system sets no limits on a process")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * IDLE
    if hard not in (-1, resource.RLIM_INFINITY) and hard < wanted:
        pytest.skip(f"a process may open {hard} files here, and this needs {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_idle(served: Served, opened: ExitStack, count: int) -> list[socket.socket]:
    place = urlsplit(served.url)
    made = []
    for at in range(count):
        one = opened.enter_context(socket.create_connection((place.hostname, place.port), timeout=60))
        if at % 2:
            one.sendall(HALF_A_REQUEST)
        made.append(one)
    return made


def is_closed(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_a_thousand_idle_connections_keep_out_nobody_and_are_closed(
    serve: Callable[..., Served], enough_files: None
) -> None:
    served = serve(headers_s=5.0, connections=2 * IDLE)
    with ExitStack() as opened:
        idle = open_idle(served, opened, IDLE)
        with served.client(served.key()) as client:
            memory = client.post("/v1/memories", json={"name": "alice"}).json()
            path = f"/v1/memories/{memory['id']}"
            assert client.post(f"{path}/updates", json={"text": "Alice lives in Bern."}).status_code == 201
            assert client.post(f"{path}/ask", json={"question": "Where does Alice live?"}).status_code == 200
        until(lambda: all(is_closed(one) for one in idle))
    until(lambda: not served.server.server_state.connections)


def test_of_too_many_connections_the_one_that_was_idle_longest_is_closed(serve: Callable[..., Served]) -> None:
    served = serve(headers_s=3600.0, connections=8)
    with ExitStack() as opened:
        idle = open_idle(served, opened, 8)
        until(lambda: len(served.server.server_state.connections) == 8)
        with served.client() as client:
            assert client.get("/healthz").status_code == 200
            until(lambda: is_closed(idle[0]))
        assert not any(is_closed(one) for one in idle[1:])


class _Transport(asyncio.Transport):
    """Is closed only later, as asyncio's own are."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


def test_in_a_burst_each_connection_too_many_closes_another_one() -> None:
    async def burst() -> list[bool]:
        config, state = uvicorn.Config(lambda: None, lifespan="off", log_config=None), ServerState()
        config.load()
        protocol = patience(headers_s=3600.0, most=8)
        made = [_Transport() for _ in range(11)]
        for one in made:
            protocol(config, state, {}).connection_made(one)
        closed = [one.is_closing() for one in made]
        for left in list(state.connections):
            left.connection_lost(None)
        return closed

    assert asyncio.run(burst()) == [True] * 3 + [False] * 8


def test_an_answer_that_is_long_is_no_idle_connection(serve: Callable[..., Served]) -> None:
    served = serve(headers_s=0.2)
    with served.client(served.key()) as client:
        memory = client.post("/v1/memories", json={"name": "alice"}).json()
        path = f"/v1/memories/{memory['id']}"
        text = " ".join(f"Alice has {n} boats." for n in range(200))
        assert client.post(f"{path}/updates", json={"text": text}).status_code == 201
        for _ in range(3):
            assert client.post(f"{path}/ask", json={"question": "How many boats?"}).status_code == 200


def test_pages_of_other_sites_may_not_call_unless_they_are_listed(serve: Callable[..., Served]) -> None:
    asked: dict[str, Any] = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, x-plume-memory",
    }
    closed, open_to = serve(), serve(cors_origins=("https://app.example",))
    with closed.client() as client:
        assert "access-control-allow-origin" not in client.options("/v1/chat/completions", headers=asked).headers
    with open_to.client(open_to.key()) as client:
        allowed = client.options("/v1/chat/completions", headers=asked)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-credentials" not in allowed.headers
        other = client.options("/v1/chat/completions", headers={**asked, "origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
        got = client.get("/v1/memories", headers={"origin": "https://app.example"})
        assert got.headers["access-control-allow-origin"] == "https://app.example"
        assert "x-plume-version" in got.headers["access-control-expose-headers"].lower()
        refused = client.post("/v1/memories", json={}, headers={"origin": "https://app.example"})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (400, "https://app.example")


@pytest.mark.parametrize("origin", ["*", "https://", "app.example", "https://app.example/path", "null"])
def test_an_origin_that_is_none_is_refused(origin: str) -> None:
    with pytest.raises(InvalidInput, match="--cors-origin"):
        checked_origin(origin)
    assert checked_origin("http://localhost:3000") == "http://localhost:3000"
