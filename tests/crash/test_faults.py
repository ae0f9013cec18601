"""What fails around a memory has a defined result: a full disk, places that may not be written to, cut files, clocks.

What is asserted of each: one of our errors, nothing half written, nothing wrong read, and all is well again once the
cause is gone. Beside what test_sqlite.py, test_artifacts.py and test_memory_factors.py say of files that are damaged.
"""

import errno
import logging
import os
import random
import resource
import shutil
import signal
import sqlite3
import stat
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.answering.pinned import Snapshot
from plume_memory.errors import ArtifactError, InvalidInput, PlumeError, StoreUnavailable, VersionNotFound
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.erasure import Erasures
from plume_memory.store.failures import mapped
from plume_memory.store.log import Log
from plume_memory.testing import HashParameterizer, tiny_base, tiny_engine

SOAK = os.environ.get("PLUME_SOAK") == "1"
SEED = int(os.environ.get("PLUME_SEED", "20261121"))
LENGTHS = 400 if SOAK else 40
"""At which a file is cut."""
NOBODY = 65534
QUESTION = "Where does Alice live?"
LARGE = "Alice keeps this. " * 12_000


def opened(folder: Path, engine: Engine | None = None) -> ParametricMemory:
    return ParametricMemory.open("alice", url=f"sqlite:///{folder / 'plume.db'}", engine=engine or tiny_engine())


# --- a full disk --------------------------------------------------------------------------------


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: a write says so, as on a disk that is full."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("room", [-(10**6), 0, 1, 24, 4096, 4120, 20_000, 100_000])
def test_an_append_that_finds_no_room_is_an_error_and_writes_nothing(tmp_path: Path, room: int) -> None:
    """`room` is what the write-ahead log may still grow, in bytes: the write stops in any part of a transaction."""
    with Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
        log = Log(database)
        kept = [log.append("alice", f"Note {n}.") for n in range(3)]
        with no_file_beyond(max(0, (tmp_path / "plume.db-wal").stat().st_size + room)):
            for _ in range(2):  # the second meets what the first has left behind
                with pytest.raises(StoreUnavailable):
                    log.append("alice", LARGE, idempotency_key="large")
                assert log.versions("alice") == kept
                assert log.verify("alice") == 3
        assert log.append("alice", LARGE, idempotency_key="large").number == 4
    with Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
        assert Log(database).versions("alice")[:3] == kept
        assert Log(database).verify("alice") == 4


def test_a_database_that_finds_no_room_when_it_is_made_can_be_made_later(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'plume.db'}"
    for size in (0, 512, 4096, 20_000):
        with no_file_beyond(size), pytest.raises(StoreUnavailable), Database(url) as database:
            Log(database).append("alice", "x")
    with Database(url) as database:
        assert Log(database).append("alice", "x").number == 1


def test_an_artifact_that_finds_no_room_is_a_warning_and_its_answer_is_given(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    base = tiny_base()
    engine = Engine(base, HashParameterizer(base, rank=512), AnswerPolicy(max_new_tokens=8, unit_tokens=64))
    with opened(tmp_path, engine) as memory:
        with no_file_beyond(300_000), caplog.at_level(logging.WARNING):
            memory.update("Alice lives in Bern.", idempotency_key="move")
            without = memory.ask(QUESTION)
        assert caplog.text.count("cannot be kept") == 1
        assert [version.text for version in memory.history()] == ["Alice lives in Bern."]
        assert [path for path in (tmp_path / "plume.db.artifacts").rglob("*") if path.is_file()] == []
        assert memory.update("Alice lives in Bern.", idempotency_key="move").number == 1
        memory.rebuild()
        answer = memory.ask(QUESTION)
        assert answer.text == without.text
        assert memory.verify().versions == 1
        assert any(path.is_file() for path in (tmp_path / "plume.db.artifacts").rglob("*"))
    (tmp_path / "calm").mkdir()
    with opened(tmp_path / "calm", engine) as calm:
        calm.update("Alice lives in Bern.")
        assert calm.ask(QUESTION).text == answer.text


# --- places that may not be written to ----------------------------------------------------------


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's are not."""
    folder = Path(tempfile.mkdtemp(prefix="plume-place-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_anyone(work: Callable[[], None]) -> None:
    """Do something in a child that is not root: root may write everywhere. What it needs must be imported already."""
    closed = [str(folder) for folder in Path(__file__).parents if not folder.stat().st_mode & stat.S_IXOTH]
    if os.geteuid() == 0 and closed:
        pytest.skip(f"root's clone stands in {closed[-1]}, which nobody else can enter; migrations are read there")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setegid(NOBODY)
                os.seteuid(NOBODY)
            work()
            code = 0
        except BaseException:  # noqa: BLE001 — a child must not come back into pytest
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def filled(folder: Path) -> Path:
    """Make a database with one version in a folder, whole in one file."""
    with Database(f"sqlite:///{folder / 'plume.db'}") as database:
        Log(database).append("alice", "x")
    return folder / "plume.db"


def test_no_database_is_made_in_a_read_only_folder(place: Path, tmp_path: Path) -> None:
    filled(tmp_path)  # imports what makes one
    place.chmod(0o555)

    def work() -> None:
        with pytest.raises(StoreUnavailable, match="cannot be opened"), Database(f"sqlite:///{place}/plume.db") as made:
            Log(made).append("alice", "x")

    as_anyone(work)
    assert list(place.iterdir()) == []


def test_a_read_only_database_file_is_read_and_a_write_says_that_it_is(place: Path) -> None:
    path = filled(place)
    place.chmod(0o777)
    path.chmod(0o444)

    def work() -> None:
        with Database(f"sqlite:///{path}") as database:
            log = Log(database)
            assert log.head("alice").text == "x"
            with pytest.raises(StoreUnavailable, match="is read-only"):
                log.append("alice", "y")
            assert log.verify("alice") == 1

    as_anyone(work)
    path.chmod(0o644)
    with Database(f"sqlite:///{path}") as database:
        assert Log(database).append("alice", "y").number == 2


def test_a_database_in_a_read_only_folder_is_read_whole_or_refused(place: Path) -> None:
    path = filled(place)
    path.chmod(0o444)
    place.chmod(0o555)

    def work() -> None:
        with Database(f"sqlite:///{path}") as database:
            log = Log(database)
            with suppress(StoreUnavailable):  # SQLite may need to make the write-ahead log even to read
                assert log.head("alice").text == "x"
            with pytest.raises(StoreUnavailable):
                log.append("alice", "y")

    as_anyone(work)
    place.chmod(0o755)
    path.chmod(0o644)
    with Database(f"sqlite:///{path}") as database:
        assert Log(database).append("alice", "y").number == 2


def test_a_read_only_artifact_folder_is_an_error_and_nothing_is_left_in_it(place: Path) -> None:
    store = ArtifactStore(str(place))
    kept = store.put(b"before")
    for path in [place, *place.rglob("*")]:
        path.chmod(0o555)

    def work() -> None:
        assert store.get(kept) == b"before"
        with pytest.raises(ArtifactError, match="cannot be used"):
            store.put(b"after")
        with pytest.raises(ArtifactError, match="cannot be used"):
            store.delete(kept)

    as_anyone(work)
    for path in [place, *place.rglob("*")]:
        path.chmod(0o755)
    assert [path.name for path in place.rglob("*") if path.is_file()] == [kept]


@contextmanager
def no_folder_writes(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of artifacts on a mount that is read-only."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    with monkeypatch.context() as patched:
        patched.setattr("plume_memory.store.artifacts.tempfile.mkstemp", refuse)
        yield


@contextmanager
def a_file_in_its_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the folder's name is, is somebody's file."""
    path.write_text("mine")
    yield
    assert path.read_text() == "mine"
    path.unlink()


@contextmanager
def no_database_writes(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A database file that may only be read."""

    @contextmanager
    def refuse(self: Database) -> Iterator[None]:
        raise StoreUnavailable(f"{self.url} is read-only: give a place you may write to.")
        yield

    with monkeypatch.context() as patched:
        patched.setattr(Database, "write", refuse)
        yield


@pytest.mark.parametrize("hindrance", [no_folder_writes, a_file_in_its_place, no_database_writes])
def test_an_answer_needs_no_place_for_what_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hindrance: Any
) -> None:
    """Asked, routed, streamed and exported without, with one warning; kept again when it is over."""
    with opened(tmp_path) as memory:
        for text in ("Alice lives in Bern.", "Alice has a boat.", "Bob has a cat."):
            memory.update(text, derive=False)
        folder = tmp_path / "plume.db.artifacts"
        with hindrance(folder, monkeypatch), caplog.at_level(logging.WARNING):
            answer = memory.ask(QUESTION)
            memory.let_go()
            assert memory.at(version=2).ask(QUESTION).version == 2
            assert memory.route(QUESTION)
            memory.export_adapter(tmp_path / "adapter")
        assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
            "The factors cannot be kept, and are made again by every process"
        ]
        memory.let_go()
        assert memory.ask(QUESTION).text == answer.text
        assert any(path.is_file() for path in folder.rglob("*"))


def test_a_full_disk_says_what_was_written_and_what_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an append that nothing was; of an update whose reading failed, not."""
    url = sa.make_url("sqlite:///plume.db")
    full = exc.OperationalError("x", {}, sqlite3.OperationalError("database or disk is full"))

    def met(writes: bool) -> str:
        with pytest.raises(StoreUnavailable) as raised, mapped(url, writes=writes):
            raise full
        return str(raised.value)

    assert "nothing was written" in met(writes=True)
    assert "written" not in met(writes=False)
    with opened(tmp_path) as memory:

        def derive(_: object) -> None:
            raise StoreUnavailable(met(writes=False))

        monkeypatch.setattr(Snapshot, "derive", derive)
        with pytest.raises(StoreUnavailable, match="is in the log, as version 1") as raised:
            memory.update("Alice lives in Bern.")
    assert "nothing was written" not in str(raised.value)


# --- files that were cut or taken away ----------------------------------------------------------


def cuts(size: int) -> list[int]:
    """Return lengths to cut a file to: around its pages, and anywhere."""
    rng = random.Random(SEED)
    pages = [page + near for page in range(0, size, 4096) for near in (-1, 0, 1) if 0 < page + near < size]
    return sorted(
        {1, 15, 16, 99, 100, size - 1, *rng.sample(pages, min(len(pages), LENGTHS // 2))}
        | {rng.randrange(1, size) for _ in range(LENGTHS // 2)}
    )


def long_log(folder: Path) -> list[str]:
    """Write versions that fill many pages; returns their texts."""
    texts = [f"Note {n} {'x' * 400}." for n in range(60)]
    with Database(f"sqlite:///{folder / 'plume.db'}") as database:
        for text in texts:
            Log(database).append("alice", text)
    return texts


def test_a_database_file_cut_anywhere_is_refused_or_whole(tmp_path: Path) -> None:
    texts = long_log(tmp_path)
    path, whole = tmp_path / "plume.db", (tmp_path / "plume.db").read_bytes()
    refused = 0
    for length in cuts(len(whole)):
        for extra in tmp_path.glob("plume.db-*"):
            extra.unlink()
        path.write_bytes(whole[:length])
        with Database(f"sqlite:///{path}") as database:
            log = Log(database)
            try:
                assert log.verify("alice") == len(texts), f"cut to {length}"
                assert [version.text for version in log.versions("alice")] == texts, f"cut to {length}"
            except PlumeError:
                refused += 1
    assert refused > LENGTHS // 2


def test_an_empty_database_file_holds_no_memory(tmp_path: Path) -> None:
    """Nothing tells it from a new one; what must not be is that it speaks for the memory that was there."""
    long_log(tmp_path)
    (tmp_path / "plume.db").write_bytes(b"")
    with pytest.raises(PlumeError, match="No memory 'alice'"):
        ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'plume.db'}", create=False)


def test_a_write_ahead_log_cut_anywhere_leaves_the_first_versions_whole(tmp_path: Path) -> None:
    """Cut where no commit was acknowledged, or where a disk has lost what it acknowledged: SQLite cannot tell."""
    with Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
        Log(database).append("alice", "Note 0.")
    with Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
        texts = ["Note 0.", *(f"Note {n}." for n in range(1, 20))]
        for text in texts[1:]:
            Log(database).append("alice", text)
        whole = {path.name: path.read_bytes() for path in tmp_path.glob("plume.db*") if path.suffix != ".db-shm"}
    lengths = set()
    for number, length in enumerate(cuts(len(whole["plume.db-wal"]))):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in {**whole, "plume.db-wal": whole["plume.db-wal"][:length]}.items():
            (folder / name).write_bytes(content)
        with Database(f"sqlite:///{folder / 'plume.db'}") as database:
            log = Log(database)
            found = [version.text for version in log.versions("alice")]
            assert found == texts[: len(found)]
            assert log.verify("alice") == len(found) >= 1
            assert log.append("alice", "Afterwards.").number == len(found) + 1
        lengths.add(len(found))
    assert len(lengths) > 3


@pytest.mark.parametrize("returns", ["never", "as a file"])
def test_an_artifact_folder_that_goes_away_while_it_is_used_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, returns: str
) -> None:
    folder = tmp_path / "plume.db.artifacts"
    with opened(tmp_path) as memory:
        memory.update("Alice lives in Bern.")
        expected = memory.ask(QUESTION).text
        shutil.rmtree(folder)
        memory.let_go()  # what this process keeps answers on without it
        if returns == "as a file":
            folder.write_text("mine")
            assert memory.ask(QUESTION).text == expected
            memory.let_go()
            assert folder.read_text() == "mine"
            folder.unlink()
        with caplog.at_level(logging.WARNING):
            assert memory.ask(QUESTION).text == expected
        assert any(path.is_file() for path in folder.rglob("*"))
        memory.let_go()
        assert memory.ask(QUESTION).text == expected
    assert returns == "as a file" or "Rebuilding factors from the log" in caplog.text


# --- clocks -------------------------------------------------------------------------------------


class Clock:
    """A clock that is set by hand."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment


def test_a_clock_that_was_ahead_hides_nothing_from_a_look_at_now(tmp_path: Path) -> None:
    """Versions behind it bear its time, for a log's times never fall; they were written by now all the same."""
    clock = Clock(datetime(2026, 1, 1, tzinfo=UTC))
    with Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
        log = Log(database, clock=clock)
        log.append("alice", "One.")
        clock.moment = datetime.max.replace(tzinfo=UTC)
        log.append("alice", "Two.")
        clock.moment = datetime(2026, 1, 3, tzinfo=UTC)
        log.append("alice", "Three.")
        assert log.verify("alice") == 3
        assert log.at_time("alice", datetime(2026, 1, 2, tzinfo=UTC)) == 1
        assert log.at_time("alice", clock.moment) == 3
        assert log.at_time("alice", datetime.max.replace(tzinfo=timezone(timedelta(hours=-9)))) == 3
        with pytest.raises(VersionNotFound, match="had no version yet"):
            log.at_time("alice", datetime.min.replace(tzinfo=timezone(timedelta(hours=9))))
        log.create("nobody")
        with pytest.raises(VersionNotFound, match="had no version yet"):
            log.at_time("nobody", clock.moment)


def test_a_process_out_of_files_is_told_so(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
        Log(database).append("alice", "One.")
    store = ArtifactStore(str(tmp_path / "artifacts"))
    kept = store.put(b"bytes")
    taken: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))
    try:
        with Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
            with suppress(OSError):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            with pytest.raises(StoreUnavailable, match="as many files open as it may"):
                Log(database).names()
            with pytest.raises(ArtifactError, match="as many files open as it may"):
                store.get(kept)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_clock_that_goes_back_makes_no_version_older_than_the_one_before(tmp_path: Path) -> None:
    """Forgets, erasures and forks keep the order too; a time that several share is that of the newest of them."""
    noon = datetime(2025, 6, 1, 12, tzinfo=UTC)
    clock = Clock(noon)
    with Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
        log = Log(database, clock=clock)
        log.append("alice", "one")
        clock.moment = noon - timedelta(days=365)
        log.append("alice", "two")
        log.forget("alice", 1)
        Erasures(database, ArtifactStore(str(tmp_path / "artifacts")), clock=clock).erase("alice", 1)
        log.rollback("alice", 2)
        log.fork("alice", "copy", at=2)  # gets an erasure of its own
        clock.moment = noon + timedelta(seconds=1)
        log.append("alice", "six")
        for name, head in (("alice", 6), ("copy", 3)):
            times = [version.created_at for version in log.versions(name)]
            assert times == sorted(times)
            assert log.verify(name) == head
        assert log.at_time("alice", noon) == 5
        assert log.at_time("alice", noon + timedelta(seconds=1)) == 6
        assert log.at_time("copy", noon) == 3
        with pytest.raises(VersionNotFound):
            log.at_time("alice", noon - timedelta(days=365))
        with pytest.raises(InvalidInput):
            log.at_time("alice", datetime(2025, 6, 1))
