"""Several replicas answer as one does, and lose nothing that was acknowledged."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import psutil
import pytest
from ray import serve

from tests.ray_plume.conftest import Cluster

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]


def replicas() -> int:
    """How many replicas run."""
    states = serve.status().applications["plume"].deployments["Replica"].replica_states
    return int(states.get("RUNNING", 0))


def until(holds: Callable[[], bool], seconds: float = 240.0) -> None:
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
            path = f"/v1/memories/{made(client, owner, f'{owner} lives in town {number}.', f'{owner} has {number} cats.')}"
            answered = client.post(f"{path}/ask", json={"question": f"Where does {owner} live?"}).json()
            assert answered["text"] == alone.memory(owner).ask(f"Where does {owner} live?").text
            assert client.get(f"/v1/traces/{answered['trace_id']}").json()["question"]  # kept by one replica alone


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
        until(lambda: len(acknowledged) > 8)
        os.kill(pids_of_replicas()[0], signal.SIGKILL)
        before = len(acknowledged)
        until(lambda: len(acknowledged) > before + 12)
        is_over.set()
        for one in running:
            one.result()
    assert set(told) <= {503}
    with cluster.client() as client:
        for path in {path for path, _ in acknowledged}:
            versions = client.get(f"{path}/versions", params={"limit": 200}).json()["versions"]
            texts = [client.get(f"{path}/versions/{one['number']}/text").json()["text"] for one in versions]
            expected = [text for own, text in acknowledged if own == path]
            assert set(expected) <= set(texts)
            assert len(texts) == len(set(texts))  # none twice
    until(lambda: replicas() >= 2)  # it was replaced


def pids_of_replicas() -> list[int]:
    """The processes of the replicas, which Ray names so."""
    below = psutil.Process().children(recursive=True)
    return [one.pid for one in below if one.cmdline()[:1] == ["ray::ServeReplica:plume:Replica"]]
