"""Writers in threads and processes lose nothing, and neither does a writer that is killed."""

import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from plume_memory.errors import MemoryExists, VersionConflict
from plume_memory.store.database import Database
from plume_memory.store.log import Log

WRITER = """
import sys
from plume_memory.store.database import Database
from plume_memory.store.log import Log
url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Database(url) as database:
    log = Log(database)
    for i in range(count):
        version = log.append("alice", f"{name} {i}", idempotency_key=f"{name} {i}")
        print(version.number, f"{name} {i}", flush=True)
"""


def start_writer(url: str, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, url, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run_threads(work: Callable[[int], object], number: int) -> None:
    with ThreadPoolExecutor(number) as pool:
        list(pool.map(work, range(number)))


def test_threads_lose_nothing(log: Log):
    run_threads(lambda i: [log.append("alice", f"{i} {j}") for j in range(25)], 8)
    found = log.versions("alice")
    assert [version.number for version in found] == list(range(1, 201))
    assert {version.text for version in found} == {f"{i} {j}" for i in range(8) for j in range(25)}
    assert log.verify("alice") == 200


def test_threads_with_one_key_make_one_version(log: Log):
    numbers = []
    run_threads(lambda i: numbers.append(log.append("alice", "x", idempotency_key="k").number), 8)
    assert numbers == [1] * 8
    assert log.verify("alice") == 1


def test_of_threads_that_expect_the_same_head_one_wins(log: Log):
    log.append("alice", "x")
    outcomes = []

    def write(index: int) -> None:
        try:
            outcomes.append(log.append("alice", f"{index}", expected_version=1).number)
        except VersionConflict:
            outcomes.append(None)

    run_threads(write, 6)
    assert sorted(outcomes, key=str) == [2, *[None] * 5]


def test_of_threads_that_create_one_memory_one_wins(log: Log):
    outcomes = []

    def create(index: int) -> None:
        try:
            log.create("alice")
            outcomes.append("made")
        except MemoryExists:
            outcomes.append("was there")

    run_threads(create, 6)
    assert sorted(outcomes) == ["made", *["was there"] * 5]


def test_readers_see_whole_versions_while_a_writer_writes(log: Log):
    log.append("alice", "0")
    done = threading.Event()

    def work(index: int) -> None:
        if index == 0:
            for i in range(1, 60):
                log.append("alice", str(i))
            done.set()
        while not done.is_set():
            history = log.history("alice")
            assert [t.text for t in history.transitions] == [str(i) for i in range(history.version)]

    run_threads(work, 4)


def test_processes_that_open_an_empty_database_at_once_lose_nothing(url: str):
    writers = [start_writer(url, f"writer{i}", 30) for i in range(4)]
    acknowledged = [line.split(" ", 1) for writer in writers for line in writer.communicate()[0].splitlines()]
    assert [writer.returncode for writer in writers] == [0] * 4
    with Database(url) as database:
        log = Log(database)
        found = log.versions("alice")
        assert [version.number for version in found] == list(range(1, 121))
        assert {version.number: version.text for version in found} == {
            int(number): text.strip() for number, text in acknowledged
        }
        assert log.verify("alice") == 120


def test_a_killed_writer_loses_nothing_it_acknowledged(url: str):
    rng = random.Random(5)
    acknowledged: dict[int, str] = {}
    for turn in range(20):
        writer = start_writer(url, f"turn{turn}", 100_000)
        # The first line says that the writer is at work; then it is killed at a random moment.
        lines = [writer.stdout.readline()]
        time.sleep(rng.uniform(0, 0.06))
        writer.send_signal(signal.SIGKILL)
        lines += writer.communicate()[0].splitlines(keepends=True)
        for line in lines:
            if line.endswith("\n"):
                number, text = line.strip().split(" ", 1)
                acknowledged[int(number)] = text
    with Database(url) as database:
        log = Log(database)
        found = log.versions("alice")
        assert log.verify("alice") == len(found)
    texts = {version.number: version.text for version in found}
    assert acknowledged.items() <= texts.items()
    assert len(set(texts.values())) == len(texts)
    # Per kill, one version at most was written without its acknowledgement reaching anyone.
    assert len(texts) - len(acknowledged) <= 20


def append_times_ms(log: Log, count: int) -> list[float]:
    times = []
    for i in range(count):
        start = time.perf_counter()
        log.append("alice", f"This is update number {i} of many.")
        times.append(1000 * (time.perf_counter() - start))
    return times


def assert_flat(times: list[float]) -> None:
    tenth = len(times) // 10
    early, late = statistics.median(times[tenth : 2 * tenth]), statistics.median(times[-tenth:])
    assert late < 3 * early + 1, f"{early:.2f} ms at first, {late:.2f} ms at last"


def test_appends_stay_as_fast_as_the_log_grows(log: Log):
    assert_flat(append_times_ms(log, 1_000))


@pytest.mark.slow
def test_ten_thousand_appends_stay_as_fast_as_the_log_grows(log: Log):
    assert_flat(append_times_ms(log, 10_000))
    assert log.verify("alice") == 10_000
