"""Nothing in the log can be altered without being refused or found; long logs stay fast."""

import sqlite3
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from plume_memory.errors import IntegrityError
from plume_memory.store.database import Database
from plume_memory.store.log import Log, _Entry


@pytest.fixture
def filled(log: Log) -> Log:
    """Memory alice: five updates, a rollback to 2, one update."""
    for i in range(1, 6):
        log.append("alice", f"text {i}", idempotency_key=f"k{i}")
    log.rollback("alice", 2)
    log.append("alice", "text 7")
    return log


def tamper(tmp_path: Path, *statements: str) -> None:
    """Do to the file what an intruder with a SQL shell would."""
    connection = sqlite3.connect(tmp_path / "plume.db")
    for name in ("versions_no_update", "versions_no_delete", "versions_no_replace"):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("PRAGMA ignore_check_constraints=ON")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE versions SET text = 'other' WHERE number = 2",
        "UPDATE versions SET created_at = created_at",
        "DELETE FROM versions WHERE number = 7",
        "DELETE FROM versions",
        "INSERT OR REPLACE INTO versions SELECT * FROM versions WHERE number = 2",
        "REPLACE INTO versions SELECT memory_id, 99, kind, 'new', text_sha256, restores, metadata_json, created_at, "
        "idempotency_key, parent_hash, chain_hash, forgets FROM versions WHERE number = 3",
        "UPDATE OR REPLACE versions SET number = 3 WHERE number = 2",
        "DELETE FROM memories WHERE name = 'alice'",
    ],
)
def test_raw_sql_that_alters_a_version_is_refused(filled: Log, database: Database, statement: str):
    with pytest.raises(sa.exc.IntegrityError, match=r"immutable|FOREIGN KEY"), database.write() as connection:
        connection.exec_driver_sql(statement)
    assert filled.verify("alice") == 7


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE versions SET text = 'other' WHERE number = 3", "version 3: its text"),
        ("UPDATE versions SET metadata_json = '{\"a\":1}' WHERE number = 4", "version 4: its fields"),
        ("UPDATE versions SET created_at = '2020-01-01 00:00:00.000000' WHERE number = 1", "version 1: its fields"),
        ("UPDATE versions SET restores = 3 WHERE number = 6", "version 6: its fields"),
        ("UPDATE versions SET restores = 6 WHERE number = 6", "version 6: it restores 6"),
        ("UPDATE versions SET parent_hash = chain_hash WHERE number = 5", "version 5: its parent_hash"),
        ("UPDATE versions SET chain_hash = parent_hash WHERE number = 5", "version 5: its fields"),
        ("DELETE FROM versions WHERE number = 4", "version 4: it is missing, version 5 follows"),
        ("DELETE FROM versions WHERE number = 7", "version 7: it is missing, the head is version 7"),
        ("DELETE FROM versions WHERE number >= 6", "version 6: it is missing"),
        ("UPDATE memories SET head_number = 6", "version 7: the head is version 6"),
        ("UPDATE memories SET head_hash = '00'", "version 7: its chain hash is not the one the head"),
    ],
)
def test_verify_names_the_first_altered_row(filled: Log, tmp_path: Path, statement: str, named: str):
    tamper(tmp_path, statement)
    with pytest.raises(IntegrityError, match=named):
        filled.verify("alice")


def test_nothing_is_appended_to_a_log_whose_tail_was_cut(filled: Log, tmp_path: Path):
    tamper(tmp_path, "DELETE FROM versions WHERE number = 7")
    with pytest.raises(IntegrityError, match="version 7, is missing"):
        filled.append("alice", "text 8")
    for call in (lambda: filled.head("alice"), lambda: filled.history("alice")):
        with pytest.raises(IntegrityError, match=r"missing|are there"):
            call()


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM versions WHERE number = 1", "UPDATE versions SET restores = 6 WHERE number = 6"],
)
def test_a_history_with_a_hole_or_a_loop_is_refused(filled: Log, tmp_path: Path, statement: str):
    tamper(tmp_path, statement)
    with pytest.raises(IntegrityError, match=r"version (1|6)"):
        filled.history("alice")


def test_ten_thousand_updates_are_read_in_a_second(log: Log, database: Database):
    fill(log, database, 10_000, rollback_every=None)
    start = time.perf_counter()
    history = log.history("alice")
    assert time.perf_counter() - start < 1
    assert [transition.version for transition in history.transitions] == list(range(1, 10_001))


def test_texts_that_a_rollback_took_back_are_not_read(log: Log, database: Database):
    fill(log, database, 2_000, rollback_every=2)
    read = []
    with database.read() as connection:
        engine = connection.engine
    sa.event.listen(engine, "after_cursor_execute", lambda *event: read.append(event[2]))
    history = log.history("alice")
    assert [transition.version for transition in history.transitions] == [1]
    assert len([statement for statement in read if statement.startswith("SELECT")]) == 3


def fill(log: Log, database: Database, count: int, *, rollback_every: int | None) -> None:
    """Append within one transaction: one fsync instead of thousands."""
    with database.write() as connection:
        for i in range(count):
            undo = rollback_every and i % rollback_every == 1
            entry = ("rollback", "", 1, None) if undo else ("update", f"This is update number {i}. " * 5, None, None)
            log._append_row(connection, "alice", _Entry(*entry, None, None, None), "{}", create=True)
