"""An erasure reaches the processes that listen before its certificate says so, and a claim dies with its process."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plume_memory.pool import MemoryPool
from plume_memory.store import announcing
from plume_memory.store.announcing import LISTENER, Heard, Listener, announce
from plume_memory.store.database import Database
from plume_memory.testing import tiny_engine

DATABASES = ("postgresql",)
LONG_S = 300.0
"""Nothing here is measured in time: what has not come until then does not come."""

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


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is on a busy machine is waited for."""
    monkeypatch.setattr(announcing, "PATIENCE_S", LONG_S)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


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


def test_a_process_that_does_not_answer_is_counted(
    pools: tuple[MemoryPool, MemoryPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "PATIENCE_S", 1.0)
    one, other = pools
    stuck = threading.Event()
    other.on_erasure(lambda _: stuck.wait(LONG_S) and None)
    for pool in pools:
        pool.memory("alice")
    until(lambda: listening(one.database) == 2)
    until(lambda: announce(one.database, {"alice"}) == Heard(1, 1))  # of a busy machine both are silent
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


def test_a_process_opens_no_more_connections_than_it_says(url: str) -> None:
    """The statement of docs/scaling.md: 4 of its pool, 2 to claim, 1 to listen, 1 to announce."""
    counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = %s"
    most, is_over = 0, threading.Event()

    def write(number: int) -> None:
        for turn in range(4):
            with used.claimed(f"{number} {turn}"), used.write() as connection:
                connection.exec_driver_sql("SELECT pg_sleep(0.02)")
            with used.read() as connection:
                connection.exec_driver_sql("SELECT pg_sleep(0.02)")
            announce(used, {str(number)})

    with Database(url) as watching, Database(url, connections=4, busy_timeout_s=LONG_S) as used:
        listener = Listener(used, lambda _: None)
        listener.begin()
        until(lambda: listening(watching) == 1)
        threads = [threading.Thread(target=write, args=[number]) for number in range(16)]
        for thread in threads:
            thread.start()
        with watching.apart("test") as connection:
            while not is_over.is_set():
                most = max(most, connection.exec_driver_sql(counted, ("client backend",)).scalar_one())
                if not any(thread.is_alive() for thread in threads):
                    is_over.set()
        listener.close()
    pooled_by_watching = 1
    assert 4 < most - 1 - pooled_by_watching <= 4 + 2 + 2


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
    assert got.wait(LONG_S)
    waiting.join()
