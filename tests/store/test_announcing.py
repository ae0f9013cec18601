"""An erasure reaches the processes that listen before its certificate says so, and a claim dies with its process."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plume_memory.pool import MemoryPool
from plume_memory.store.announcing import LISTENER, Heard, announce
from plume_memory.store.database import Database
from plume_memory.testing import tiny_engine

DATABASES = ("postgresql",)

HOLDER = """
import sys, time
from plume_memory.store.database import Database
with Database(sys.argv[1]) as database, database.claimed("one"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def pools(url: str, tmp_path: Path) -> Any:
    """Two pools on one database and one folder of artifacts, as two processes have them."""
    with (
        MemoryPool(url, engine=tiny_engine(shares_a=True), artifacts=str(tmp_path / "artifacts")) as one,
        MemoryPool(url, engine=tiny_engine(shares_a=True), artifacts=str(tmp_path / "artifacts")) as other,
    ):
        yield one, other


def until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come")


def listening(database: Database) -> int:
    query = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{LISTENER}'"
    query += " AND datname = current_database()"
    with database.read() as connection:
        return int(connection.exec_driver_sql(query).scalar_one())


def test_an_erasure_is_heard_before_its_certificate_says_so(pools: tuple[MemoryPool, MemoryPool]) -> None:
    one, other = pools
    heard: list[frozenset[str] | None] = []
    other.on_erasure(heard.append)
    one.memory("alice").update("Alice lives in Bern.")
    other.memory("alice")
    until(lambda: heard == [None])  # it has begun to listen, and let go of what it may have missed
    before = other.memory("alice").at()
    assert other.memory("alice").at() is before, "it is kept"
    until(lambda: listening(one.database) == 2)
    certificate = one.memory("alice").erase(1)
    assert (certificate.confirmed_by, certificate.unconfirmed_by) == (2, 0)
    assert frozenset({"alice"}) in heard
    pinned = other.memory("alice")._snapshots
    assert pinned is not None
    assert not pinned._kept, "nobody has asked, and nothing is held"


def test_a_process_that_does_not_answer_is_counted(pools: tuple[MemoryPool, MemoryPool]) -> None:
    one, other = pools
    stuck = threading.Event()
    other.on_erasure(lambda _: stuck.wait(60) and None)
    for pool in pools:
        pool.memory("alice")
    until(lambda: listening(one.database) == 2)
    assert announce(one.database, {"alice"}) == Heard(1, 1)
    stuck.set()


def test_what_is_no_announcement_ends_no_listening(pools: tuple[MemoryPool, MemoryPool]) -> None:
    one, other = pools
    other.memory("alice")
    until(lambda: listening(other.database) == 1)
    with one.database.apart("test") as connection:
        for said in ("", "{", "{}", "[]", '{"id": "1", "names": 1}'):
            connection.exec_driver_sql("SELECT pg_notify('plume_erased', %s)", (said,))
    assert announce(one.database, {"alice"}) == Heard(1, 0)


def test_threads_that_begin_together_listen_once(pools: tuple[MemoryPool, MemoryPool]) -> None:
    one, _ = pools
    threads = [threading.Thread(target=one._listener.begin) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(thread.name == LISTENER for thread in threading.enumerate()) == 1


def test_what_one_process_writes_the_other_answers_from(pools: tuple[MemoryPool, MemoryPool]) -> None:
    one, other = pools
    for number in range(1, 4):
        writer, reader = (one, other) if number % 2 else (other, one)
        writer.memory("alice").update(f"Fact {number}.")
        answer = reader.memory("alice").ask("Which fact?")
        assert answer.version == number
        assert answer.text == writer.memory("alice").ask("Which fact?").text


def test_versions_are_derived_once_by_processes_that_begin_together(pools: tuple[MemoryPool, MemoryPool]) -> None:
    one, other = pools
    one.memory("alice").update("Alice lives in Bern.", derive="later")
    one.flush()
    number = one.memory("alice").update("Alice has a cat.", derive="later").number
    deriving = threading.Thread(target=other.memory("alice").derive_until, args=[number])
    deriving.start()
    one.flush()
    deriving.join()
    calls = [text for pool in pools for text in pool.engine.parameterizer.calls]
    assert sorted(calls) == ["Alice has a cat.", "Alice lives in Bern."]


def test_a_claim_ends_with_the_process_that_has_it(database: Database, url: str) -> None:
    held = subprocess.Popen([sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE, text=True)
    assert held.stdout is not None
    assert held.stdout.readline() == "held\n"
    got = threading.Event()

    def claim() -> None:
        with database.claimed("one"):
            got.set()

    waiting = threading.Thread(target=claim)
    waiting.start()
    assert not got.wait(0.3)
    held.send_signal(signal.SIGKILL)
    held.wait()
    held.stdout.close()
    assert got.wait(60)
    waiting.join()
