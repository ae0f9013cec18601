"""What is SQLite's own: files that are damaged, read-only or another's, its settings, and raw SQL it alone knows."""

import os
import shutil
import sqlite3
import stat
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from plume_memory.errors import SchemaError, StoreUnavailable
from plume_memory.store import schema
from plume_memory.store.database import Database
from plume_memory.store.log import Log


def test_opening_an_empty_database_makes_the_schema_and_safe_settings(database: Database):
    with database.read() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2, "busy_timeout": 30_000}
    assert database.revision() == schema.latest_revision()


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


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR REPLACE INTO versions SELECT * FROM versions WHERE number = 2",
        "REPLACE INTO versions SELECT * FROM versions WHERE number = 2",
        "UPDATE OR REPLACE versions SET number = 3 WHERE number = 2",
        "UPDATE OR IGNORE versions SET text = 'other'",
    ],
)
def test_raw_sql_that_alters_a_version_is_refused(log: Log, database: Database, statement: str):
    for i in range(1, 4):
        log.append("alice", f"text {i}")
    with pytest.raises(sa.exc.IntegrityError, match="immutable"), database.write() as connection:
        connection.exec_driver_sql(statement)
    assert log.verify("alice") == 3


def test_a_version_that_takes_anothers_key_does_not_replace_it(log: Log, database: Database):
    log.append("alice", "text 1", idempotency_key="k")
    with database.read() as connection:
        columns = [column["name"] for column in sa.inspect(connection).get_columns("versions")]
    values = ", ".join("99" if column == "number" else column for column in columns)
    statement = f"REPLACE INTO versions ({', '.join(columns)}) SELECT {values} FROM versions"
    with pytest.raises(sa.exc.IntegrityError, match="immutable"), database.write() as connection:
        connection.exec_driver_sql(statement)
    assert log.verify("alice") == 1
