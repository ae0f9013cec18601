"""A database opens lazily, gets its schema once, and speaks in this package's errors."""

import os
import shutil
import sqlite3
import stat
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from plume_memory.errors import InvalidInput, MemoryClosed, MissingExtra, SchemaError, StoreUnavailable
from plume_memory.store.database import Database
from plume_memory.store.log import Log


def test_the_constructor_touches_nothing(tmp_path: Path):
    Database(f"sqlite:///{tmp_path / 'plume.db'}")
    assert list(tmp_path.iterdir()) == []


def test_opening_an_empty_database_makes_the_schema_and_safe_settings(database: Database):
    with database.read() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2, "busy_timeout": 30_000}
    assert database.revision() == "0002"


def test_a_database_in_memory_is_shared_by_threads():
    with Database("sqlite://") as database:
        log = Log(database)
        threads = [threading.Thread(target=log.append, args=("alice", f"text {i}")) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert log.verify("alice") == 8


def test_a_copied_database_opens_elsewhere(tmp_path: Path, url: str):
    with Database(url) as database:
        Log(database).append("alice", "Alice lives in Bern.")
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(tmp_path / "plume.db", tmp_path / "elsewhere" / "copy.db")
    with Database(f"sqlite:///{tmp_path / 'elsewhere' / 'copy.db'}") as copy:
        log = Log(copy)
        assert log.verify("alice") == 1
        assert log.append("alice", "And in Zurich.").number == 2


@pytest.mark.parametrize("url", ["no url", "mysql://localhost/x", ""])
def test_a_url_of_something_else_is_refused(url: str):
    with pytest.raises(InvalidInput, match=r"database URL|not supported"):
        Database(url)


@pytest.mark.skipif(find_spec("psycopg") is not None, reason="psycopg is installed")
def test_a_missing_driver_names_the_extra():
    with pytest.raises(MissingExtra, match=r"plume-memory\[postgres\]"):
        Log(Database("postgresql://user:secret@localhost/x")).names()


def test_a_password_is_not_shown():
    assert "secret" not in Database("postgresql://user:secret@localhost/x").url


def test_a_missing_folder_is_named(tmp_path: Path):
    with (
        pytest.raises(StoreUnavailable, match="absent does not exist"),
        Database(f"sqlite:///{tmp_path / 'absent' / 'plume.db'}") as database,
    ):
        Log(database).names()


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, url: str):
    (tmp_path / "plume.db").write_text("These are my holiday notes. " * 100)
    with pytest.raises(StoreUnavailable, match="is not a SQLite database"), Database(url) as database:
        Log(database).append("alice", "x")
    assert (tmp_path / "plume.db").read_text().startswith("These are my holiday notes.")


def test_a_truncated_file_is_refused(tmp_path: Path, url: str):
    with Database(url) as database:
        for i in range(50):
            Log(database).append("alice", f"text {i} " * 200)
    path = tmp_path / "plume.db"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreUnavailable, match="damaged or cut short"), Database(url) as database:
        Log(database).history("alice")


def test_another_programs_database_is_refused_and_left_as_it_is(tmp_path: Path, url: str):
    connection = sqlite3.connect(tmp_path / "plume.db")
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.commit()
    connection.close()
    before = (tmp_path / "plume.db").read_bytes()
    with pytest.raises(SchemaError, match="not a plume database: it has the tables recipes"), Database(url) as database:
        Log(database).names()
    assert (tmp_path / "plume.db").read_bytes() == before


def test_a_read_only_database_can_be_read_and_says_so_when_written_to(tmp_path: Path, url: str):
    with Database(url) as database:
        Log(database).append("alice", "x")
    with Database(f"sqlite:///file:{tmp_path / 'plume.db'}?mode=ro&uri=true") as database:
        log = Log(database)
        assert log.head("alice").text == "x"
        with pytest.raises(StoreUnavailable, match="is read-only"):
            log.append("alice", "y")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_an_error(tmp_path: Path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(StoreUnavailable), Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
        Log(database).names()


def test_a_lock_held_too_long_is_an_error(tmp_path: Path, url: str):
    with Database(url) as database:
        Log(database).create("alice")
    other = sqlite3.connect(tmp_path / "plume.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with Database(url, busy_timeout_s=0.1) as database:
            assert Log(database).names() == ["alice"]  # readers do not wait
            with pytest.raises(StoreUnavailable, match="locked by another writer"):
                Log(database).append("alice", "x")
    finally:
        other.close()


def test_a_thread_that_writes_too_long_is_an_error(url: str):
    with Database(url, busy_timeout_s=0.1) as database, database.write():
        failures = []

        def write() -> None:
            try:
                Log(database).append("alice", "x")
            except StoreUnavailable as err:
                failures.append(str(err))

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        assert "another thread" in failures[0]


def test_too_many_open_reads_are_an_error():
    with Database("sqlite://", busy_timeout_s=0.1) as database:
        Log(database).names()
        with database.read(), pytest.raises(StoreUnavailable, match="every connection"), database.read():
            pass


def test_use_after_close_is_an_error(database: Database):
    Log(database).create("alice")
    database.close()
    database.close()
    with pytest.raises(MemoryClosed, match="was closed"):
        Log(database).names()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_makes_connections_of_its_own(database: Database):
    log = Log(database)
    log.append("alice", "parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            log.append("alice", "child")
            database.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    log.append("alice", "parent again")
    assert log.verify("alice") == 3
