"""What is to be derived is derived once by several processes, and by another one where one of them is killed."""

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from plume_memory.pool import MemoryPool
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.store.sources import Sources
from plume_memory.testing import tiny_engine

DATABASES = ("postgresql",)
NAMES = [f"owner {n}" for n in range(6)]
PATIENT = "options=-c%20lock_timeout%3D600000"
"""A claim is waited for as long as a busy machine may take: who gives up derives without it."""

WORKER = """
import json, sys, time
from plume_memory.pool import MemoryPool
from plume_memory.testing import tiny_engine

url, artifacts, how, *names = sys.argv[1:]
engine = tiny_engine(shares_a=True)
with MemoryPool(url, engine=engine, artifacts=artifacts) as pool:
    made = engine.parameterizer.parameterize
    def stuck(texts):
        print("begun", flush=True)
        time.sleep(3600)
    if how == "stuck":
        engine.parameterizer.parameterize = stuck
    memories = [pool.memory(name) for name in names]
    print("ready", flush=True)
    sys.stdin.readline()
    for memory in memories:
        memory.derive_until(2)
    print(json.dumps(engine.parameterizer.calls), flush=True)
"""

Start = Callable[[str, list[str]], subprocess.Popen[str]]


@pytest.fixture
def told(url: str, tmp_path: Path) -> Path:
    """Memories of two texts each, nothing of them derived. Where their artifacts go."""
    artifacts = tmp_path / "artifacts"
    with MemoryPool(url, engine=tiny_engine(shares_a=True), artifacts=str(artifacts)) as pool:
        for name in NAMES:
            for text in (f"{name} lives in Bern.", f"{name} has a cat."):
                pool.memory(name).update(text, derive=False)
    return artifacts


@pytest.fixture
def start(url: str, told: Path) -> Iterator[Start]:
    """Start a worker that is ready to derive these memories."""
    begun: list[subprocess.Popen[str]] = []

    def begin(how: str, names: list[str]) -> subprocess.Popen[str]:
        call = [sys.executable, "-c", WORKER, f"{url}&{PATIENT}", str(told), how, *names]
        begun.append(subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert of(begun[-1].stdout).readline() == "ready\n"
        return begun[-1]

    yield begin
    for one in begun:
        one.kill()
        one.wait()
        of(one.stdin).close()
        of(one.stdout).close()


def of(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def go(worker: subprocess.Popen[str]) -> None:
    of(worker.stdin).write("go\n")
    of(worker.stdin).flush()


def derived_by(worker: subprocess.Popen[str]) -> list[str]:
    calls: list[str] = json.loads(of(worker.stdout).readline())
    return calls


def test_two_processes_derive_each_text_once(start: Start) -> None:
    workers = [start("works", NAMES), start("works", NAMES)]
    for worker in workers:
        go(worker)
    calls = [derived_by(worker) for worker in workers]
    counted = Counter(text for each in calls for text in each)
    assert len(counted) == 2 * len(NAMES)
    assert set(counted.values()) == {1}


def test_the_claim_of_a_killed_worker_is_taken_over(start: Start) -> None:
    stuck, waiting = start("stuck", NAMES[:1]), start("works", NAMES[:1])
    go(stuck)
    assert of(stuck.stdout).readline() == "begun\n"  # it has the claim, and is in the middle
    go(waiting)
    stuck.send_signal(signal.SIGKILL)
    assert sorted(derived_by(waiting)) == [f"{NAMES[0]} has a cat.", f"{NAMES[0]} lives in Bern."]


def test_readers_that_note_the_same_artifact_at_once_are_no_error(database: Database) -> None:
    Log(database).append("alice", "Alice lives in Bern.")
    readers, keys = 8, [f"{number:064x}" for number in range(40)]
    together = threading.Barrier(readers)

    def note(_: int) -> list[bool]:
        sources, noted = Sources(database, "alice", last_erasure=0), []
        with ExitStack() as failed:
            failed.callback(together.abort)  # nobody waits for one that failed; one that is done lets the others wake
            for key in keys:
                together.wait(300)
                noted.append(sources.note(key, key))
            failed.pop_all()
        return noted

    with ThreadPoolExecutor(readers) as threads:
        assert all(all(noted) for noted in threads.map(note, range(readers)))
