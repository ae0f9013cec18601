"""Every tool and resource, by the SDK's client in this process, in both eras of the protocol."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from plume_memory.engine import Engine
from plume_memory.policy import AnswerPolicy
from plume_memory.pool import MemoryPool
from plume_memory.server.auth import LOCAL
from plume_memory.server.mcp.backend import Target
from plume_memory.server.mcp.protocol import mcp_server
from plume_memory.server.mcp.served import Served
from plume_memory.server.mcp.stdio import local_backend, local_serving
from plume_memory.server.mcp.tools import TOOLS
from plume_memory.server.state import Serving
from plume_memory.testing import HashParameterizer
from tests.server.conftest import BASE, new_engine

NAMES = ["remember", "recall", "ask", "history", "diff", "forget", "erase"]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    made = local_serving(MemoryPool(f"sqlite:///{tmp_path / 'log.db'}", engine=new_engine()))
    yield made
    made.close()


@pytest.fixture(params=["auto", "legacy"])
def client(serving: Serving, request: pytest.FixtureRequest) -> Client:
    """Of a server of one memory; entered by the test, in whose task it has to be left."""
    backend = local_backend(serving, "alice")
    return Client(mcp_server(lambda _: backend), mode=request.param)


async def call(client: Client, name: str, **arguments: Any) -> Any:
    """Call a tool that must do it; its structured result."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refusal(client: Client, name: str, **arguments: Any) -> str:
    """Call a tool that must not do it; its words."""
    result = await client.call_tool(name, arguments)
    assert result.is_error
    assert result.structured_content is None
    return str(result.content[0].text)


async def test_the_tools_are_these_and_say_what_they_do(client: Client) -> None:
    async with client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == NAMES
    hints = {tool.name: tool.annotations for tool in tools}
    assert [name for name in NAMES if hints[name].read_only_hint] == ["recall", "ask", "history", "diff"]
    assert [name for name in NAMES if hints[name].destructive_hint] == ["erase"]
    assert [name for name in NAMES if not hints[name].idempotent_hint] == ["remember"]
    for tool in tools:
        assert "memory" not in tool.input_schema["properties"]
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema["type"] == "object"
        assert tool.description


async def test_what_is_remembered_is_recalled_with_what_it_is_from(client: Client) -> None:
    async with client:
        assert (await call(client, "remember", text="Alice lives in Bern."))["version"] == 1
        assert (await call(client, "remember", text="Bob has a boat.", idempotency_key="k"))["version"] == 2
        assert (await call(client, "remember", text="Bob has a boat.", idempotency_key="k"))["version"] == 2
        answer = await call(client, "ask", question="Where does Alice live?")
        assert (answer["known"], answer["version"]) == (True, 2)
        assert answer["answer"]
        assert answer["evidence"] == [{"version": 1, "text": "Alice lives in Bern.", "is_cut": False}]
        assert (await call(client, "ask", question="Who has a boat?", version=1))["version"] == 1
        found = await call(client, "recall", question="Who has a boat?", k=1)
        (note,) = found["notes"]
        assert (note["version"], note["start"], note["end"], note["is_current"]) == (2, 0, 15, True)
        assert f'- version 2, {note["day"]}: "Bob has a boat."' in found["text"]
        assert (await call(client, "recall", question="Hello!")) == {"text": "", "notes": []}
        assert not (await call(client, "recall", question="Who has a boat?", until="2020-01-01"))["notes"]


async def test_ask_abstains_where_nothing_is_known(client: Client) -> None:
    async with client:
        answer = await call(client, "ask", question="Where does Alice live?")
        assert (answer["known"], answer["confidence"], answer["evidence"]) == (False, 0.0, [])
        assert "not" in answer["answer"]


async def test_ask_abstains_below_the_policys_confidence(tmp_path: Path) -> None:
    sure = AnswerPolicy(max_new_tokens=12, unit_tokens=64, known_at=1.0)
    serving = local_serving(
        MemoryPool(f"sqlite:///{tmp_path / 'log.db'}", engine=Engine(BASE, HashParameterizer(BASE), sure))
    )
    backend = local_backend(serving, "alice")
    async with Client(mcp_server(lambda _: backend)) as client:
        await call(client, "remember", text="Alice lives in Bern.")
        answer = await call(client, "ask", question="Where does Alice live?")
        assert answer["known"] is False
        assert "not" in answer["answer"]
    serving.close()


async def test_the_log_is_read_page_by_page(client: Client) -> None:
    async with client:
        for at in range(5):
            await call(client, "remember", text=f"{at} is a number. " + "x" * 1000 * (at == 4))
        newest = await call(client, "history", limit=2)
        assert [entry["version"] for entry in newest["entries"]] == [5, 4]
        assert (newest["has_more"], newest["entries"][0]["is_cut"]) == (True, True)
        older = await call(client, "history", limit=2, before=4)
        assert [entry["version"] for entry in older["entries"]] == [3, 2]
        last = await call(client, "history", limit=2, before=2)
        assert ([entry["version"] for entry in last["entries"]], last["has_more"]) == ([1], False)
        assert (await call(client, "history", before=1)) == {"entries": [], "has_more": False}
        differs = await call(client, "diff", **{"from": 1, "to": 3})
        assert [one["version"] for one in differs["added"]] == [2, 3]
        assert (await call(client, "diff", **{"from": 3, "to": 1}))["removed"] == differs["added"]


async def test_forgetting_appends_and_erasing_removes(client: Client, serving: Serving) -> None:
    own = serving.pool.memory("alice")
    async with client:
        await call(client, "remember", text="Alice lives in Bern.")
        await call(client, "remember", text="Alice has a cat.")
        assert await call(client, "forget", text="Alice has a cat.", reason="it ran away") == {
            "version": 3,
            "forgets": 2,
        }
        assert own.text_at().text == "Alice lives in Bern."
        assert own.entry(2).text == "Alice has a cat."
        assert (await call(client, "history", limit=1))["entries"][0]["reason"] == "it ran away"
        assert "confirm: " in await refusal(client, "erase", version=1)
        assert "confirm: " in await refusal(client, "erase", version=1, confirm="yes")
        assert own.entry(1).text == "Alice lives in Bern."
        erased = await call(client, "erase", version=2, confirm="erase")
        assert (erased["version"], erased["erased"], erased["copies"]) == (4, [2], 0)
        assert erased["limits"]
    assert own.entry(2).text == ""


async def test_what_is_wrong_is_said_to_the_model(client: Client) -> None:
    async with client:
        assert "text: Field required" in await refusal(client, "remember")
        assert "memory" in await refusal(client, "remember", text="Alice swims.", memory="bob")
        assert "text" in await refusal(client, "forget")
        assert "version-not-found" in await refusal(client, "ask", question="Where?", version=9)
        assert "version-not-found" in await refusal(client, "diff", **{"from": 0, "to": 9})
        assert "k: " in await refusal(client, "recall", question="a", k=1000)
        assert "text: " in await refusal(client, "remember", text="x" * 20_001)
        assert "invalid-input" in await refusal(client, "forget", text="never said")
        with pytest.raises(MCPError, match="no tool"):
            await client.call_tool("drop_everything", {})


async def test_resources_are_the_log(client: Client, serving: Serving) -> None:
    number = serving.directory.get("default", serving.pool.memory("alice").name).id
    async with client:
        await call(client, "remember", text="x" * 1500)
        assert [one.uri for one in (await client.list_resources()).resources] == [f"plume://memories/{number}/history"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == [
            "plume://memories/{id}/history",
            "plume://memories/{id}/versions/{n}",
        ]
        history = json.loads((await client.read_resource(f"plume://memories/{number}/history")).contents[0].text)
        assert [(one["version"], len(one["text"])) for one in history["entries"]] == [(1, 1000)]
        whole = json.loads((await client.read_resource(f"plume://memories/{number}/versions/1")).contents[0].text)
        assert (len(whole["text"]), whole["is_cut"]) == (1500, False)
        for path in (f"{number}/versions/2", f"{number}/versions/0", f"{number}/text", f"mem_{'0' * 26}/history", "x"):
            with pytest.raises(MCPError, match="not-found"):
                await client.read_resource(f"plume://memories/{path}")


async def test_who_has_several_memories_names_one_in_every_call(serving: Serving) -> None:
    backend = Served(serving, LOCAL, None)
    serving.directory.create("default", "alice")
    bob = serving.directory.create("default", "bob")
    serving.directory.create("acme", "carol")
    async with Client(mcp_server(lambda _: backend)) as client:
        for tool in (await client.list_tools()).tools:
            assert "memory" in tool.input_schema["required"]
        assert (await call(client, "remember", memory="alice", text="Alice lives in Bern."))["version"] == 1
        assert (await call(client, "history", memory="bob"))["entries"] == []
        assert (await call(client, "remember", memory=bob.id, text="Bob has a boat."))["version"] == 1
        assert "memory: Field required" in await refusal(client, "ask", question="Where?")
        for name in NAMES:
            arguments: dict[str, Any] = {
                "remember": {"text": "x"},
                "recall": {"question": "x"},
                "ask": {"question": "x"},
                "diff": {"from": 0, "to": 0},
                "forget": {"version": 1},
                "erase": {"version": 1, "confirm": "erase"},
            }.get(name, {})
            assert "memory-not-found" in await refusal(client, name, memory="carol", **arguments)
        assert (await client.list_resources()).resources == []
        uri = f"plume://memories/{bob.id}/versions/1"
        assert "boat" in (await client.read_resource(uri)).contents[0].text


async def test_two_clients_at_once_lose_nothing(serving: Serving) -> None:
    backend = local_backend(serving, "alice")

    async def writes(who: str) -> None:
        async with Client(mcp_server(lambda _: backend)) as client:
            for at in range(10):
                await call(client, "remember", text=f"{who} says {at}.")
                if at % 5 == 0:
                    await call(client, "ask", question=f"What does {who} say?")

    await asyncio.gather(writes("Alice"), writes("Bob"))
    said = {entry.text for entry in serving.pool.memory("alice").history()}
    assert said == {f"{who} says {at}." for who in ("Alice", "Bob") for at in range(10)}
    assert len(serving.answers) == 0


async def test_a_call_that_nobody_waits_for_frees_its_rows(serving: Serving) -> None:
    backend = local_backend(serving, "alice")
    await backend.remember(None, "Alice lives in Bern.", None)
    asking = asyncio.ensure_future(backend.ask(None, "Where does Alice live?", None))
    while len(serving.answers) == 0:
        await asyncio.sleep(0.001)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(serving.answers) == 0


async def test_an_erasure_that_nobody_waits_for_is_finished(serving: Serving) -> None:
    backend = local_backend(serving, "alice")
    await backend.remember(None, "Alice lives in Bern.", None)
    erasing = asyncio.ensure_future(backend.erase(None, Target(1, None)))
    await asyncio.sleep(0.005)
    erasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await erasing
    for _ in range(500):
        if serving.pool.memory("alice").version == 2:
            break
        await asyncio.sleep(0.01)
    assert serving.pool.memory("alice").entry(1).text == ""


def test_every_tool_is_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text(encoding="utf-8")
    for tool in TOOLS:
        assert f"`{tool.name}" in page
