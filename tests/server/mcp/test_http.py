"""`/mcp` over a real socket: both eras, keys, tenants, scopes, limits, foreign pages."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.server.conftest import Served, until

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
ACCEPTS = {"accept": "application/json, text/event-stream"}


@asynccontextmanager
async def connected(served: Served, key: str | None, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    sent = {} if key is None else {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers={**sent, **headers}, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{served.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def said(client: Client, tool: str, **arguments: Any) -> Any:
    """The structured result of a call, or the words of its refusal."""
    result = await client.call_tool(tool, arguments)
    return result.content[0].text if result.is_error else result.structured_content


@pytest.fixture
def alice(served: Served, request: pytest.FixtureRequest) -> str:
    """The id of a memory that was told something."""
    made = served.serving.directory.create("default", f"alice of {request.node.name}"[:200])
    served.serving.pool.memory(made.log_name).update("Alice lives in Bern.")
    return made.id


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_both_eras_are_served(served: Served, alice: str, mode: str, version: str) -> None:
    async with connected(served, served.key(memory=alice), mode) as client:
        assert client.protocol_version == version
        assert client.server_info.name == "plume"
        assert "memory" not in (await client.list_tools()).tools[0].input_schema["properties"]
        assert (await said(client, "remember", text="Bob has a boat."))["version"] == 2
        answer = await said(client, "ask", question="Where does Alice live?")
        assert (answer["known"], answer["evidence"][0]["text"]) == (True, "Alice lives in Bern.")
        assert (await said(client, "history"))["entries"][0]["text"] == "Bob has a boat."
        history = (await client.read_resource(f"plume://memories/{alice}/history")).contents[0]
        assert len(json.loads(history.text)["entries"]) == 2
        assert (await said(client, "erase", version=2, confirm="erase"))["erased"] == [2]


async def test_a_header_fixes_the_memory_and_without_it_each_call_names_one(served: Served, alice: str) -> None:
    async with connected(served, served.key(), **{"x-plume-memory": alice}) as client:
        assert (await said(client, "history"))["entries"][0]["version"] == 1
        assert "memory" in await said(client, "history", memory=alice)
    async with connected(served, served.key()) as client:
        assert "memory: Field required" in await said(client, "history")
        assert (await said(client, "history", memory=alice))["entries"][0]["version"] == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_scope_that_a_key_has_not_is_refused(served: Served, alice: str, mode: str) -> None:
    reader = served.key("memory:read", memory=alice)
    async with connected(served, reader, mode) as client:
        assert "forbidden" in await said(client, "remember", text="Alice swims.")
        assert "forbidden" in await said(client, "forget", version=1)
        assert "forbidden" in await said(client, "erase", version=1, confirm="erase")
        assert (await said(client, "ask", question="Where does Alice live?"))["known"]
    async with connected(served, served.key("memory:read", "memory:write", memory=alice), mode) as client:
        assert "forbidden" in await said(client, "erase", version=1, confirm="erase")
    async with connected(served, served.key("memory:write", memory=alice), mode) as client:
        for tool, arguments in (("ask", {"question": "x"}), ("recall", {"question": "x"}), ("history", {})):
            assert "forbidden" in await said(client, tool, **arguments)
    assert [one.text for one in served.serving.pool.memory(_log_name(served, alice)).history()] == [
        "Alice lives in Bern."
    ]


async def test_another_tenants_memory_is_not_found(served: Served, alice: str) -> None:
    stranger = served.key("admin", "act-as", tenant="initech")
    name = served.serving.directory.get("default", alice).name
    calls: list[tuple[str, dict[str, Any]]] = [
        ("remember", {"text": "Alice is dead."}),
        ("ask", {"question": "Where does Alice live?"}),
        ("recall", {"question": "Alice"}),
        ("history", {}),
        ("diff", {"from": 0, "to": 1}),
        ("forget", {"version": 1}),
        ("erase", {"version": 1, "confirm": "erase"}),
    ]
    async with connected(served, stranger) as client:
        for tool, arguments in calls:
            for named in (alice, name):
                there = await said(client, tool, memory=named, **arguments)
                nobody = await said(client, tool, memory="mem_" + "0" * 26, **arguments)
                assert there.replace(named, "X") == nobody.replace("mem_" + "0" * 26, "X")
                assert there.startswith("memory-not-found")
        with pytest.raises(Exception, match="memory-not-found"):
            await client.read_resource(f"plume://memories/{alice}/versions/1")
    with served.client(stranger) as http:
        for named in (alice, name.encode().decode("latin-1")):
            refused = http.post("/mcp", json=LIST, headers={**ACCEPTS, "x-plume-memory": named})
            assert (refused.status_code, refused.json()["type"]) == (404, "urn:plume:problem:memory-not-found")


async def test_a_key_of_one_memory_opens_no_other(served: Served, alice: str) -> None:
    other = served.serving.directory.create("default", f"not {alice}")
    async with connected(served, served.key(memory=alice)) as client:
        assert "memory" in await said(client, "history", memory=other.id)
        with pytest.raises(Exception, match="not-found"):
            await client.read_resource(f"plume://memories/{other.id}/history")
    with served.client(served.key(memory=alice)) as http:
        assert http.post("/mcp", json=LIST, headers={**ACCEPTS, "x-plume-memory": other.id}).status_code == 404


def test_without_a_key_that_opens_nobody_comes_in(served: Served) -> None:
    served.key()
    for key in (None, "plk_00000000_" + "0" * 32, "sk-123"):
        with served.client(key) as http:
            refused = http.post("/mcp", json=INITIALIZE, headers=ACCEPTS)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert refused.headers["content-type"] == "application/problem+json"
    revoked = served.key()
    served.serving.keys.revoke(revoked.split("_")[1])
    with served.client(revoked) as http:
        assert http.post("/mcp", json=INITIALIZE, headers=ACCEPTS).status_code == 401


def test_a_page_of_another_site_may_not_call(serve: Callable[..., Served]) -> None:
    served = serve()
    key = served.key()
    with served.client(key) as http:
        for origin, status in (
            ("http://evil.example", 403),
            ("null", 403),
            ("http://localhost.evil.example", 403),
            ("http://localhost:3000", 200),
            (served.url, 200),
        ):
            found = http.post("/mcp", json=INITIALIZE, headers={**ACCEPTS, "origin": origin})
            assert found.status_code == status, origin


def test_before_a_key_was_made_only_this_machine_is_served(serve: Callable[..., Served]) -> None:
    served = serve()
    with served.client() as http:
        assert http.post("/mcp", json=INITIALIZE, headers=ACCEPTS).status_code == 200
        for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
            assert http.post("/mcp", json=INITIALIZE, headers={**ACCEPTS, **headers}).status_code == 403


def test_what_is_no_call_is_refused(served: Served, alice: str) -> None:
    with served.client(served.key(memory=alice)) as http:
        for method in ("GET", "DELETE", "PUT"):
            refused = http.request(method, "/mcp", headers=ACCEPTS)
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        for body in (b"{", b"[]", b"null", b"\xff", b'{"jsonrpc": "2.0"}'):
            refused = http.post("/mcp", content=body, headers={**ACCEPTS, "content-type": "application/json"})
            assert 400 <= refused.status_code < 500, body
        assert http.post("/mcp", json={"x": "y" * (1 << 20)}, headers=ACCEPTS).status_code == 413
        versioned = http.post("/mcp", json=LIST, headers={**ACCEPTS, "x-plume-version": "1"})
        assert (versioned.status_code, "ask" in versioned.json()["detail"]) == (400, True)


def test_an_answer_is_json_and_no_session_is_kept(served: Served, alice: str) -> None:
    with served.client(served.key(memory=alice)) as http:
        begun = http.post("/mcp", json=INITIALIZE, headers=ACCEPTS)
        assert begun.headers["content-type"].startswith("application/json")
        assert "mcp-session-id" not in begun.headers
        assert begun.json()["result"]["protocolVersion"] == "2025-06-18"
        headers = {**ACCEPTS, "mcp-protocol-version": "2025-06-18"}
        tools = http.post("/mcp", json=LIST, headers=headers).json()["result"]["tools"]
        assert len(tools) == 7
        assert begun.headers["x-request-id"].startswith("req_")
        assert "x-ratelimit-remaining-requests" in begun.headers
    metrics = served.serving.metrics.requests
    assert metrics.labels("/mcp", "200")._value.get() >= 2


async def test_the_limits_are_rests(serve: Callable[..., Served]) -> None:
    served = serve(rows_per_minute=2, requests_per_minute=1000)
    made = served.serving.directory.create("default", "alice")
    async with connected(served, served.key(memory=made.id)) as client:
        await said(client, "remember", text="Alice lives in Bern.")
        assert (await said(client, "ask", question="Where does Alice live?"))["version"] == 1
        assert "rate-limited" in await said(client, "recall", question="Alice")
    few = serve(requests_per_minute=1)
    with few.client() as http:
        assert http.post("/mcp", json=INITIALIZE, headers=ACCEPTS).status_code == 200
        assert http.post("/mcp", json=INITIALIZE, headers=ACCEPTS).status_code == 429


async def test_an_erasure_ends_what_is_being_answered_from_it(serve: Callable[..., Served]) -> None:
    served = serve()
    made = served.serving.directory.create("default", "alice")
    key = served.key(memory=made.id)
    async with connected(served, key) as client:
        await said(client, "remember", text="Alice lives in Bern.")
        recalled = await said(client, "ask", question="Where does Alice live?")
        assert recalled["known"]
        assert len(served.serving.traces._kept) == 1
        await said(client, "erase", version=1, confirm="erase")
        assert len(served.serving.traces._kept) == 0
        assert (await said(client, "ask", question="Where does Alice live?"))["known"] is False


async def test_two_clients_of_either_era_write_at_once(served: Served, alice: str) -> None:
    key = served.key(memory=alice)

    async def writes(who: str, mode: str) -> None:
        async with connected(served, key, mode) as client:
            for at in range(8):
                await said(client, "remember", text=f"{who} says {at}.", idempotency_key=f"{who} {at}")
            await said(client, "ask", question=f"What does {who} say?")

    await asyncio.gather(writes("Alice", "auto"), writes("Bob", "legacy"))
    history = served.serving.pool.memory(_log_name(served, alice)).history()
    assert sorted(one.text for one in history[1:]) == sorted(
        f"{w} says {n}." for w in ("Alice", "Bob") for n in range(8)
    )


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_a_client_that_leaves_frees_its_rows(serve: Callable[..., Served], mode: str) -> None:
    from tests.server.conftest import new_engine

    served = serve(new_engine(max_new_tokens=4000))
    made = served.serving.directory.create("default", "alice")
    own = served.serving.pool.memory("alice")
    own.update("Alice lives in Bern.")
    own.ask("Where does Alice live?", max_new_tokens=1)
    begun = time.monotonic()
    own.ask("Where does Alice live?")
    whole_s = time.monotonic() - begun
    call: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "ask", "arguments": {"question": "Where does Alice live?"}},
    }
    headers = {**ACCEPTS, "mcp-protocol-version": mode}
    if mode == "2026-07-28":
        headers |= {"mcp-method": "tools/call", "mcp-name": "ask"}
        call["params"]["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": mode,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    with served.client(served.key(memory=made.id)) as http, pytest.raises(httpx2.ReadTimeout):
        http.post("/mcp", json=call, headers=headers, timeout=whole_s / 4)
    until(lambda: served.serving.pool.engine.scheduler.counters().cancelled == 1)
    until(lambda: len(served.serving.answers) == 0)
    until(lambda: served.serving.metrics.requests.labels("/mcp", "503")._value.get() == 1)
    until(lambda: served.serving.condition.in_flight == 0)


def _log_name(served: Served, number: str) -> str:
    return served.serving.directory.get("default", number).log_name
