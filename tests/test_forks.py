"""What a process finds of what its parent made: the log and the locks, and a sentence in place of the model."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import pytest
from langchain_plume.background import Deriver

from plume_memory import forks
from plume_memory.errors import ForkedEngine
from plume_memory.forks import FairLock, ForkGate, Lock, ModelLock
from plume_memory.lru import LRUCache
from plume_memory.pool import MemoryPool
from plume_memory.store.database import Database
from plume_memory.testing import tiny_engine

# Python warns of every fork of a process with threads; that is what is tested.
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]

HANGS_S = 60  # a child still there by then waits for ever


def in_child(work: Callable[[], None]) -> str:
    """Fork, run `work` in the child, and return the traceback that it ended with: empty for none."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 — told to the parent, whatever it is: a failed assertion too
            os.write(writing, traceback.format_exc()[-4000:].encode())
        finally:
            os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + HANGS_S
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    with os.fdopen(reading, "rb") as told:
        return told.read().decode()


@contextmanager
def held(lock: Lock) -> Iterator[None]:
    """Hold a lock in another thread."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[MemoryPool]:
    with MemoryPool(f"sqlite:///{tmp_path / 'plume.db'}", engine=tiny_engine()) as opened:
        opened.memory("alice").update("Alice sails.")
        opened.memory("alice").ask("What does Alice do?")
        yield opened


@pytest.mark.parametrize("kind", [Lock, FairLock])
def test_a_lock_that_another_thread_holds_is_open_in_the_child(kind: type[Lock]) -> None:
    lock = kind()

    def take() -> None:
        with lock:
            pass

    with held(lock):
        assert in_child(take) == ""


def waits_for(use: Callable[[], AbstractContextManager[object]]) -> None:
    """Assert that a fork waits for another thread that is in the midst of a use, and that the child can use it."""
    inside, left = threading.Event(), threading.Event()

    def use_on() -> None:
        with use():
            inside.set()
            time.sleep(0.1)
            left.set()

    def use_again() -> None:
        assert left.is_set(), "forked while a thread was inside"
        with use():
            pass

    thread = threading.Thread(target=use_on)
    thread.start()
    inside.wait()
    assert in_child(use_again) == ""
    thread.join()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may keep a thread from leaving for more than a second."""
    monkeypatch.setattr(forks, "_WAITS_S", HANGS_S)


@pytest.mark.usefixtures("patient")
def test_a_fork_waits_for_a_thread_inside_a_library_with_locks_of_its_own() -> None:
    gate = ForkGate()
    with gate.used(), gate.used():
        assert not gate._others(), "who forks would wait for itself"
    waits_for(gate.used)


@pytest.mark.usefixtures("patient")
def test_a_fork_waits_for_who_reads_a_sqlite_database(tmp_path: Path) -> None:
    """The hang that it prevents, in `sqlite3_malloc`, came once in 3,000 forks."""
    with Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
        waits_for(database.read)


def test_a_fork_does_not_wait_for_ever() -> None:
    gate, inside, done = ForkGate(), threading.Event(), threading.Event()

    def use() -> None:
        with gate.used():
            inside.set()
            done.wait()

    thread = threading.Thread(target=use)
    thread.start()
    inside.wait()
    assert in_child(lambda: None) == ""
    done.set()
    thread.join()


class Interrupted(BaseException):
    """What the handler of a signal raises."""


@contextmanager
def interrupts() -> Iterator[Callable[[float], None]]:
    """Gives what sets the timer of a signal whose handler raises; 0 stops it."""

    def handler(_: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_filename == forks.__file__:  # elsewhere it proves nothing
            raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds, seconds) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", [FairLock, ModelLock])
def test_an_exception_at_any_moment_leaves_no_lock_held(kind: type[Lock]) -> None:
    lock, hits = kind(), 0
    deadline = time.monotonic() + HANGS_S
    with interrupts() as every, ThreadPoolExecutor(1) as other:  # this thread would be let in again
        while hits < 200:
            every(0.0002)
            try:
                while time.monotonic() < deadline:
                    with lock, lock:
                        pass
            except Interrupted:
                every(0)
                hits += 1
            assert other.submit(take, lock).result() == "let in", f"held after {hits} interrupts"


def take(lock: Lock) -> str:
    if not lock.acquire(blocking=True, timeout=HANGS_S):
        return "kept out"
    lock.release()
    return "let in"


def test_no_lock_of_this_package_is_a_plain_one() -> None:
    """A new one by `threading.Lock()` would be held for ever in some child."""
    root = Path(__file__).parent.parent
    files = [*(root / "plume_memory").rglob("*.py"), *(root / "integrations").rglob("*.py")]
    plain = [
        f.name for f in files if f.name != "forks.py" and "threading.Lock(" in f.read_text().replace("RLock", "Lock")
    ]
    assert plain == []


def test_a_child_forked_while_another_thread_asks_hears_that_the_model_is_its_parents(pool: MemoryPool) -> None:
    memory = pool.memory("alice")
    stop = threading.Event()

    def ask_on() -> None:
        while not stop.is_set():
            memory.ask("What does Alice do?")

    def try_all(owner: str) -> None:
        for call in (
            lambda: memory.ask("What does Alice do?"),
            lambda: list(memory.stream("What does Alice do?")),
            lambda: pool.memory(owner).update("Bob rows."),
        ):
            with pytest.raises(ForkedEngine, match="after the fork"):
                call()
        assert pool.memory(owner).version == 0, "an update that could not be derived was written all the same"
        assert pool.memory(owner).update("Bob rows.", derive=False).number == 1
        assert memory.text_at().text == "Alice sails."

    thread = threading.Thread(target=ask_on)
    thread.start()
    try:
        for owner in ("bob", "bert", "bill"):
            assert in_child(partial(try_all, owner)) == ""
    finally:
        stop.set()
        thread.join()
    assert pool.memory("bob").ask("What does Bob do?").version == 1, "the parent goes on"


def test_the_worker_processes_of_a_prefork_pool_hear_it_too(pool: MemoryPool) -> None:
    """Celery's workers and `multiprocessing.Pool` are forked from a process that has loaded everything."""
    global _ASKED
    _ASKED = pool
    with multiprocessing.get_context("fork").Pool(2) as workers:
        told = workers.map_async(_ask_in_worker, range(4)).get(timeout=HANGS_S)
    assert told == ["ForkedEngine"] * 4


_ASKED: MemoryPool | None = None


def _ask_in_worker(_: int) -> str:
    assert _ASKED is not None
    try:
        return _ASKED.memory("alice").ask("What does Alice do?").text
    except ForkedEngine as err:
        return type(err).__name__


def test_a_deriver_begins_a_thread_of_its_own_in_the_child(pool: MemoryPool) -> None:
    deriver = Deriver("background")
    deriver.begin(pool.memory("alice"))
    deriver.flush()

    pool.memory("alice").update("Alice rows.", derive=False)

    def derive() -> None:
        deriver.begin(pool.memory("alice"))  # the tiny engine's parameterizer runs no model
        deriver.flush()

    try:
        assert in_child(derive) == ""
    finally:
        deriver.close()


def test_what_is_kept_can_be_dropped_in_the_child() -> None:
    kept = LRUCache()
    with held(kept._lock):
        assert in_child(lambda: kept.release("here")) == ""


_APPLICATION = """
import threading
from plume_memory.pool import MemoryPool
from plume_memory.store.database import Database
from plume_memory.testing import tiny_engine

pool = MemoryPool("sqlite:///{file}", engine=tiny_engine())
{preload}

def application(environ, start_response):
    try:
        said = pool.memory("alice").ask("What does Alice do?").text
        status = "200 OK"
    except Exception as err:
        said, status = type(err).__name__, "500 Internal Server Error"
    start_response(status, [("Content-Type", "text/plain")])
    return [said.encode()]
"""
_ASK_IN_MASTER = """
pool.memory("alice").update("Alice sails.")
threading.Thread(target=lambda: [pool.memory("alice").ask("What?") for _ in range(20)]).start()
"""


@pytest.mark.parametrize(("options", "status"), [(["--preload"], 500), ([], 200)])
def test_gunicorn_with_and_without_preload(tmp_path: Path, options: list[str], status: int) -> None:
    source = _APPLICATION.format(file=tmp_path / "plume.db", preload=_ASK_IN_MASTER if options else "")
    (tmp_path / "application.py").write_text(source)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--workers", "2", *options]
    with subprocess.Popen([*command, "application:application"], cwd=tmp_path, stderr=subprocess.PIPE) as server:
        try:
            got, said = _get(f"http://127.0.0.1:{port}/")
        finally:
            server.terminate()
            server.communicate(timeout=HANGS_S)
    assert (got, said == "ForkedEngine") == (status, status == 500), said


def _get(url: str) -> tuple[int, str]:
    deadline = time.monotonic() + 2 * HANGS_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=HANGS_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as err:
            return err.code, err.read().decode()
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
