"""Nothing in the log can be altered without being refused or found."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from plume_memory.errors import IntegrityError, StoreUnavailable
from plume_memory.store.database import Database
from plume_memory.store.log import Log

DATABASES = ("sqlite", "memory", "postgresql")
REFUSED = (sa.exc.IntegrityError, StoreUnavailable)
"""What a trigger's refusal is to SQLite, and to PostgreSQL."""


@pytest.fixture
def filled(log: Log) -> Log:
    """Memory alice: five updates, a rollback to 2, one update."""
    for i in range(1, 6):
        log.append("alice", f"text {i}", idempotency_key=f"k{i}")
    log.rollback("alice", 2)
    log.append("alice", "text 7")
    return log


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE versions SET text = 'other' WHERE number = 2",
        "UPDATE versions SET created_at = created_at",
        "DELETE FROM versions WHERE number = 7",
        "DELETE FROM versions",
        "UPDATE versions SET number = 3 WHERE number = 2",
        "UPDATE versions SET memory_id = memory_id",
        "INSERT INTO versions SELECT * FROM versions WHERE number = 2 ON CONFLICT (memory_id, number) "
        "DO UPDATE SET text = 'other'",
        "DELETE FROM memories WHERE name = 'alice'",
    ],
)
def test_raw_sql_that_alters_a_version_is_refused(filled: Log, database: Database, statement: str):
    with pytest.raises(REFUSED, match=r"immutable|FOREIGN KEY|foreign key"), database.write() as connection:
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
        ("UPDATE versions SET kind = 'update', restores = NULL WHERE number = 6", "version 6: its fields"),
        ("UPDATE versions SET number = 8 WHERE number = 7", "version 7: it is missing, version 8 follows"),
        ("UPDATE versions SET text = 'other' WHERE number IN (2, 5)", "version 2: its text"),
        ("UPDATE memories SET head_number = 6", "version 7: the head is version 6"),
        ("UPDATE memories SET head_hash = '00'", "version 7: its chain hash is not the one the head"),
    ],
)
def test_verify_names_the_first_altered_row(filled: Log, tamper: Callable[..., None], statement: str, named: str):
    tamper(statement)
    with pytest.raises(IntegrityError, match=named):
        filled.verify("alice")


def test_nothing_is_appended_to_a_log_whose_tail_was_cut(filled: Log, tamper: Callable[..., None]):
    tamper("DELETE FROM versions WHERE number = 7")
    with pytest.raises(IntegrityError, match="version 7, is missing"):
        filled.append("alice", "text 8")
    for call in (lambda: filled.head("alice"), lambda: filled.history("alice")):
        with pytest.raises(IntegrityError, match=r"missing|are there"):
            call()


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM versions WHERE number = 1", "UPDATE versions SET restores = 6 WHERE number = 6"],
)
def test_a_history_with_a_hole_or_a_loop_is_refused(filled: Log, tamper: Callable[..., None], statement: str):
    tamper(statement)
    with pytest.raises(IntegrityError, match=r"version (1|6)"):
        filled.history("alice")
