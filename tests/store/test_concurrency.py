"""Writers in threads and processes lose nothing; readers wait for none of them; every wait and repetition ends."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from plume_memory.errors import MemoryExists, StoreUnavailable, TransactionUndone, VersionConflict
from plume_memory.store import database as database_module
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.store.tables import MemoryRow

DATABASES = ("sqlite", "postgresql")
SOAK = os.environ.get("PLUME_SOAK") == "1"  # `make soak`

WRITER = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from plume_memory.errors import VersionConflict
from plume_memory.store.database import Database
from plume_memory.store.log import Log
url, name, threads, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def work(thread):
    acknowledged = []
    def append(memory, text, **expected):
        acknowledged.append((memory, log.append(memory, text, **expected).number, text))
    for i in range(count):
        text = f"{name} {thread} {i}"
        append("one", text)
        append(f"own {thread % 2}", text)
        while True:  # on the head that was read, until nobody came between
            log.ensure("expecting")
            try:
                append("expecting", text, expected_version=log.head_number("expecting"))
            except VersionConflict:
                continue
            break
    return acknowledged

with Database(url) as database, ThreadPoolExecutor(threads) as pool:
    log = Log(database)
    print(json.dumps([each for found in pool.map(work, range(threads)) for each in found]))
"""


def start_writer(url: str, name: str, *, threads: int, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, url, name, str(threads), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run_threads(work: Callable[[int], object], number: int) -> None:
    with ThreadPoolExecutor(number) as pool:
        list(pool.map(work, range(number)))


@contextmanager
def writing_to_alice(database: Database) -> Iterator[sa.Connection]:
    """Hold a transaction open that has written to alice's row."""
    with database.write() as connection:
        connection.execute(sa.update(MemoryRow).where(MemoryRow.name == "alice").values(head_hash="not committed"))
        yield connection
        connection.rollback()


def test_processes_of_threads_that_open_an_empty_database_at_once_lose_nothing(url: str):
    """To one memory, to many, and to one with an expected head: dense and unique numbers, each acknowledged once."""
    processes, threads, count = (8, 8, 200) if SOAK else (3, 4, 5)
    writers = [start_writer(url, f"writer{i}", threads=threads, count=count) for i in range(processes)]
    outputs = [writer.communicate(timeout=120)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * processes
    acknowledged = {}
    for memory, number, text in (each for output in outputs for each in json.loads(output)):
        assert acknowledged.setdefault((memory, number), text) == text, "two were given one number"
    total = processes * threads * count
    assert len(acknowledged) == 3 * total
    with Database(url) as database:
        log = Log(database)
        sizes = {"one": total, "own 0": total // 2, "own 1": total // 2, "expecting": total}
        assert log.names() == sorted(sizes)
        for memory, size in sizes.items():
            found = log.versions(memory)
            assert [version.number for version in found] == list(range(1, size + 1))
            assert [version.text for version in found] == [acknowledged[memory, n] for n in range(1, size + 1)]
            assert log.verify(memory) == size


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


def test_a_reader_finishes_while_a_writer_holds_its_transaction_open(log: Log, database: Database):
    log.append("alice", "x")
    with writing_to_alice(database):
        assert log.head("alice").text == "x"
        assert log.verify("alice") == 1


def test_a_reader_finishes_while_more_writers_wait_than_there_are_connections(log: Log, database: Database):
    log.append("alice", "x")
    with ThreadPoolExecutor(40) as pool:
        with writing_to_alice(database):
            waiting = [pool.submit(log.append, "alice", f"text {i}") for i in range(40)]
            time.sleep(0.5)
            assert not any(each.done() for each in waiting)
            assert log.head("alice").text == "x"
            assert not any(each.done() for each in waiting), "it was read while they waited"
        assert sorted(each.result().number for each in waiting) == list(range(2, 42))
    assert log.verify("alice") == 41


def test_a_snapshot_does_not_move_while_others_write(log: Log, database: Database):
    log.append("alice", "x")
    heads = sa.select(MemoryRow.head_number)
    with database.read() as connection:
        before = connection.execute(heads).scalar_one()
        log.append("alice", "y")
        assert connection.execute(heads).scalar_one() == before == 1
    assert log.head_number("alice") == 2


def test_a_lock_that_is_held_too_long_is_an_error_that_says_so(log: Log, database: Database, url: str):
    log.append("alice", "x")
    with writing_to_alice(database), Database(url, busy_timeout_s=0.2) as other:
        with pytest.raises(StoreUnavailable, match="locked by another writer, longer than the busy timeout: try again"):
            Log(other).append("alice", "y")
        assert Log(other).head_number("alice") == 1
    assert log.append("alice", "y").number == 2


def test_a_transaction_that_is_always_undone_is_repeated_a_few_times(database: Database, log: Log):
    log.append("alice", "x")
    attempts = []

    def work(connection: sa.Connection) -> None:
        connection.execute(sa.update(MemoryRow).values(head_number=99))
        attempts.append(connection)
        raise TransactionUndone

    with pytest.raises(TransactionUndone):
        database.transact(work)
    assert len(attempts) == database_module._ATTEMPTS
    assert log.head_number("alice") == 1


def test_what_is_no_conflict_is_not_repeated(database: Database):
    attempts = []

    def work(connection: sa.Connection) -> None:
        attempts.append(connection)
        raise StoreUnavailable

    with pytest.raises(StoreUnavailable):
        database.transact(work)
    assert len(attempts) == 1
