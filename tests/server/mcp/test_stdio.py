"""`plume mcp` as a program: on a database, and as a bridge to a server. stdout has messages and nothing else."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from plume_memory.pool import MemoryPool
from plume_memory.remote import RemotePool
from plume_memory.server.mcp.protocol import mcp_server
from plume_memory.server.mcp.stdio import bridge_backend
from tests.server.conftest import Served

ENVIRONMENT = {**os.environ, "PLUME_HYPERNETWORK": "none", "NO_PROXY": "*"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "plume_memory.cli", "mcp", *arguments]


def started(*arguments: str, mode: str = "auto", **environment: str) -> Client:
    """A client of a program of its own."""
    program, *rest = command(*arguments)
    return Client(StdioServerParameters(command=program, args=rest, env={**ENVIRONMENT, **environment}), mode=mode)


async def said(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    return result.content[0].text if result.is_error else result.structured_content


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_a_program_of_ones_own(tmp_path: Path, model_folder: Path, mode: str, version: str) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    options = ("--memory", "alice", "--db", url, "--model", str(model_folder))
    async with started(*options, mode=mode) as client:
        assert client.protocol_version == version
        assert (await said(client, "remember", text="Alice lives in Bern."))["version"] == 1
        answer = await said(client, "ask", question="Where does Alice live?")
        assert answer["evidence"][0]["text"] == "Alice lives in Bern."
        assert (await said(client, "erase", version=1, confirm="erase"))["erased"] == [1]
    with MemoryPool(url, model=str(model_folder), hypernetwork="none") as pool:
        assert [one.kind for one in pool.memory("alice", create=False).history()] == ["update", "erase"]


def test_stdout_has_messages_alone_and_the_model_loads_at_the_first_question(
    tmp_path: Path, model_folder: Path
) -> None:
    calls = [
        (
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
        ),
        ("tools/list", {}),
        ("tools/call", {"name": "remember", "arguments": {"text": "Alice lives in Bern."}}),
        ("tools/call", {"name": "ask", "arguments": {"question": "Where does Alice live?"}}),
    ]
    options = ("-m", "alice", "--db", f"sqlite:///{tmp_path / 'log.db'}", "--model", str(model_folder))
    with subprocess.Popen(
        command(*options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=ENVIRONMENT,
    ) as program:  # fmt: skip
        assert program.stdin is not None
        assert program.stdout is not None
        for number, (method, params) in enumerate(calls):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            program.stdin.write(json.dumps(message) + "\n")
            program.stdin.flush()
            reply = json.loads(program.stdout.readline())
            assert reply["id"] == number
            assert "result" in reply
            if method == "initialize":
                program.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
            maps = Path(f"/proc/{program.pid}/maps")
            if maps.exists():
                assert ("libtorch" in maps.read_text()) == (number == 3)
        program.stdin.close()
        assert program.stdout.read() == ""
        assert program.wait(60) == 0


async def test_two_programs_on_one_database_lose_nothing(tmp_path: Path, model_folder: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    options = ("--memory", "alice", "--db", url, "--model", str(model_folder))

    async def writes(client: Client, who: str) -> None:
        for at in range(10):
            await said(client, "remember", text=f"{who} says {at}.")

    async with started(*options) as one, started(*options) as other:
        await asyncio.gather(writes(one, "Alice"), writes(other, "Bob"))
        assert len((await said(one, "history", limit=100))["entries"]) == 20
        assert (await said(other, "ask", question="What does Alice say?"))["version"] == 20
    with MemoryPool(url, model=str(model_folder), hypernetwork="none") as pool:
        assert pool.memory("alice", create=False).verify().versions == 20


async def test_a_bridge_shares_the_servers_model(served: Served) -> None:
    made = served.serving.directory.create("default", "alice of the bridge")
    options = ("--server", served.url)
    key = served.key(memory=made.id)
    async with started(*options, PLUME_KEY=key) as one, started(*options, PLUME_KEY=key, mode="legacy") as other:
        assert (await said(one, "remember", text="Alice lives in Bern."))["version"] == 1
        first, second = await asyncio.gather(
            said(one, "ask", question="Where does Alice live?"),
            said(other, "ask", question="Where does Alice live?"),
        )
        assert first["answer"] == second["answer"]
        assert first["evidence"][0]["text"] == "Alice lives in Bern."


async def test_a_bridge_does_what_the_server_does(served: Served) -> None:
    """In this process: every tool over REST."""
    made = served.serving.directory.create("default", "bob of the bridge")
    with RemotePool.open(served.url, key=served.key()) as pool:
        backend = bridge_backend(pool, made.name)
        async with Client(mcp_server(lambda _: backend)) as client:
            assert "memory" not in (await client.list_tools()).tools[0].input_schema["properties"]
            for at in range(3):
                assert (await said(client, "remember", text=f"Bob has {at} boats."))["version"] == at + 1
            assert (await said(client, "ask", question="How many boats?", version=1))["version"] == 1
            found = await said(client, "recall", question="boats", k=2, since="2020-01-01")
            assert [one["version"] for one in found["notes"]] == [2, 3]
            assert [one["version"] for one in (await said(client, "history", limit=2, before=3))["entries"]] == [2, 1]
            assert [one["version"] for one in (await said(client, "diff", **{"from": 1, "to": 3}))["added"]] == [2, 3]
            assert (await said(client, "forget", version=1, reason="sold"))["forgets"] == 1
            erased = await said(client, "erase", version=2, confirm="erase")
            assert (erased["erased"], erased["copies"]) == ([2], 0)
            assert "version-not-found" in await said(client, "ask", question="?", version=99)
            whole = await client.read_resource(f"plume://memories/{made.id}/versions/3")
            assert "2 boats" in whole.contents[0].text
    with RemotePool.open(served.url, key=served.key("memory:read")) as reader:
        several = bridge_backend(reader, None)
        async with Client(mcp_server(lambda _: several)) as client:
            assert "memory: Field required" in await said(client, "history")
            assert (await said(client, "history", memory=made.name))["entries"]
            assert (await said(client, "remember", memory=made.id, text="x")).startswith("forbidden")
            assert (await said(client, "history", memory="nobody")).startswith("memory-not-found")


@pytest.mark.parametrize(
    ("arguments", "said_so", "code"),
    [
        (["--server", "http://127.0.0.1:9", "-m", "alice"], "ServerUnreachable", 1),
        (["--server", "nowhere"], "InvalidInput", 2),
        (["--key", "plk_x"], "InvalidInput", 2),
        (["--model", "no-such-model"], "ModelNotFound", 3),
    ],
)
def test_what_cannot_be_served_ends_with_a_reason(
    tmp_path: Path, arguments: list[str], said_so: str, code: int
) -> None:
    done = subprocess.run(
        command(*arguments),
        cwd=tmp_path,
        env=ENVIRONMENT,
        input="",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert said_so in done.stderr
