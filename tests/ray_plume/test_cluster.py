"""Several replicas answer as one does, and lose nothing that was acknowledged."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx2
import psutil
import pytest
from ray import serve
from ray_plume.affinity import MARK_CHARS

from tests.ray_plume.conftest import Cluster

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


UNTIL_S = 250.0
"""Twice this is within a test's own limit; what has not come until then does not come."""


def replicas() -> int:
    """How many replicas run."""
    states = serve.status().applications["plume"].deployments["Replica"].replica_states
    return int(states.get("RUNNING", 0))


def until(holds: Callable[[], bool], seconds: float = UNTIL_S) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def made(client: httpx2.Client, name: str, *texts: str) -> str:
    """A memory that was told something."""
    number: str = client.post("/v1/memories", json={"name": name}).json()["id"]
    for text in texts:
        assert client.post(f"/v1/memories/{number}/updates", json={"text": text}).status_code == 201
    return number


def test_answers_are_those_of_one_process(cluster: Cluster) -> None:
    owners = [f"owner {n}" for n in range(6)]
    with cluster.client() as client, cluster.make_pool() as alone:
        for number, owner in enumerate(owners):
            path = (
                f"/v1/memories/{made(client, owner, f'{owner} lives in town {number}.', f'{owner} has {number} cats.')}"
            )
            asked = {"question": f"Where does {owner} live?"}
            answers = [client.post(f"{path}/ask", json=asked).json() for _ in range(3)]
            assert {one["text"] for one in answers} == {alone.memory(owner).ask(asked["question"]).text}
            assert len({mark_of(one) for one in answers}) == 1  # one replica knows a memory
            for one in answers:  # a trace is kept by that replica alone, and found from outside
                assert client.get(f"/v1/traces/{one['trace_id']}").json()["question"] == asked["question"]


def mark_of(answer: dict[str, Any]) -> str:
    """Which replica answered: what it keeps of the answer is marked with it."""
    mark: str = answer["trace_id"].removeprefix("trc_")[:MARK_CHARS]
    return mark


def test_a_stream_comes_in_pieces_and_says_the_same(cluster: Cluster) -> None:
    with cluster.client() as client:
        made(client, "streamed", "Streams run to the sea.")
        asked: dict[str, Any] = {"model": "plume@streamed", "messages": [{"role": "user", "content": "Where to?"}]}
        whole = client.post("/v1/chat/completions", json=asked).json()["choices"][0]["message"]["content"]
        with client.stream("POST", "/v1/chat/completions", json={**asked, "stream": True}) as stream:
            lines = [line for line in stream.iter_lines() if line.startswith("data: {")]
        assert len(lines) > 3
        deltas = [choice["delta"].get("content", "") for line in lines for choice in json.loads(line[6:])["choices"]]
        assert "".join(deltas) == whole


def test_the_page_keeps_its_session_on_the_replica_that_began_it(cluster: Cluster) -> None:
    with cluster.client(follow_redirects=True) as client:
        number = made(client, "looked at", "It is looked at.")
        for _ in range(4):
            assert client.get("/").status_code == 200
            page = client.get(f"/memories/{number}")
            assert page.status_code == 200
        token = re.search(r'name="token" value="([^"]+)"', page.text)
        assert token is not None
        sent = client.post(f"/memories/{number}/forget", data={"token": token.group(1), "version": "1"})
        assert sent.status_code != 403


def test_an_archive_comes_in_and_not_with_a_key_that_opens_nothing(cluster: Cluster) -> None:
    with cluster.client() as client:
        number = made(client, "taken along", "It is taken along.")
        archive = client.get(f"/v1/memories/{number}/export").content
        refused = client.post(
            "/v1/memories:import?name=refused", content=archive, headers={"authorization": "Bearer plk_nothing"}
        )
        assert (refused.status_code, refused.json()["type"]) == (401, "urn:plume:problem:unauthorized")
        taken = client.post("/v1/memories:import?name=taken", content=archive)
        assert (taken.status_code, taken.json()["versions"]) == (201, 1)


def test_replicas_come_with_load_and_go_without_losing_a_request(cluster: Cluster) -> None:
    is_over, most = threading.Event(), 12
    failed: list[str] = []

    def ask(number: int) -> None:
        with cluster.client() as client:
            path = f"/v1/memories/{made(client, f'asker {number}', f'Asker {number} is here.')}"
            while not is_over.is_set() or (number == 0 and replicas() > 2):  # one goes on asking while a replica goes
                assert time.monotonic() < deadline, "no replica went"
                asked = client.post(f"{path}/ask", json={"question": "Who is here?"})
                if asked.status_code != 200:
                    failed.append(asked.text)

    until(lambda: replicas() == 2)
    deadline = time.monotonic() + 2 * UNTIL_S  # one to come, one to go
    with ThreadPoolExecutor(most) as threads:
        running = [threads.submit(ask, number) for number in range(most)]
        try:
            until(lambda: replicas() == 3 or any(one.done() for one in running))
        finally:
            is_over.set()
        for one in running:
            one.result()
    assert replicas() == 2
    assert failed == []


def test_a_replica_that_is_killed_loses_nothing_that_was_acknowledged(cluster: Cluster) -> None:
    acknowledged: list[tuple[str, str]] = []
    told: list[int] = []
    is_over = threading.Event()

    def write(writer: int) -> None:
        with cluster.client() as client:
            path = f"/v1/memories/{made(client, f'writer {writer}')}"
            count = 0
            while not is_over.is_set():
                text = f"Fact {count} of writer {writer}."
                key = {"Idempotency-Key": text}
                sent = client.post(f"{path}/updates", json={"text": text, "derive": "later"}, headers=key)
                if sent.status_code == 201:
                    acknowledged.append((path, text))
                    count += 1
                else:  # told so, and sent again
                    told.append(sent.status_code)
                asked = client.post(f"{path}/ask", json={"question": "Which facts?"})
                assert asked.status_code in (200, 503), asked.text

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(write, writer) for writer in range(4)]
        try:
            until(lambda: len(acknowledged) > 8 or any(one.done() for one in running))
            os.kill(pids_of_replicas()[0], signal.SIGKILL)
            before = len(acknowledged)
            until(lambda: len(acknowledged) > before + 12 or any(one.done() for one in running))
        finally:
            is_over.set()
        for one in running:
            one.result()
    assert set(told) <= {503}
    with cluster.client() as client:
        for path in {path for path, _ in acknowledged}:
            head = client.get(path).json()["version"]
            texts = client.get(f"{path}/versions/{head}/text").json()["transitions"]
            texts = [one["text"] for one in texts]
            expected = [text for own, text in acknowledged if own == path]
            assert set(expected) <= set(texts)
            assert len(texts) == len(set(texts))  # none twice


def pids_of_replicas() -> list[int]:
    """The processes of the replicas, which Ray names so."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended since they were listed
            if "".join(one.cmdline()[:1]).startswith("ray::ServeReplica:plume:Replica"):
                found.append(one.pid)
    return found
