"""A database of an older release comes along whole: rows, hashes, constraints and the triggers that protect them."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from plume_memory.errors import SchemaError, StoreUnavailable
from plume_memory.store import schema
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.store.tables import Base

HEADS = {
    "alice": "e7e3cd5ba1fd3310c3d33ee6c7296c7091e200a71b9250d29b9b89289c5ef67c",
    "what-if": "df1f853f9b48cc4959567d798e2c417e146d626218498caa901be663df4f2895",
}
"""Chain hashes that release 0001 wrote."""


@pytest.fixture
def old(tmp_path: Path, url: str) -> str:
    """The URL of a database of 0001: alice has updates and a rollback, what-if is her fork, empty is empty."""
    with sqlite3.connect(tmp_path / "plume.db") as connection:
        connection.executescript((Path(__file__).parent / "schema_0001.sql").read_text(encoding="utf-8"))
    connection.close()
    return url


def rows(tmp_path: Path) -> list[tuple[Any, ...]]:
    """Every version as SQLite stores it, types included, without the column that is new."""
    columns = "memory_id number kind text text_sha256 restores metadata_json created_at idempotency_key parent_hash"
    quoted = ", ".join(f"quote({column})" for column in [*columns.split(), "chain_hash"])
    with sqlite3.connect(tmp_path / "plume.db") as connection:
        found = connection.execute(f"SELECT {quoted} FROM versions ORDER BY rowid").fetchall()
    connection.close()
    return found


def objects(tmp_path: Path) -> dict[str, str]:
    """The statements that make the schema, by name; SQLite quotes the name of a table that was renamed."""
    with sqlite3.connect(tmp_path / "plume.db") as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: sql.replace('"versions"', "versions") for name, sql in found}


def migrate(database: Database, run: Callable[..., None], revision: str) -> None:
    config = schema._config()
    with database._made().connect() as connection:
        connection.execution_options(plume_write=True)
        with connection.begin():
            config.attributes["connection"] = connection
            run(config, revision)


def test_an_older_database_is_refused_until_it_is_upgraded(old: str):
    with Database(old) as database:
        with pytest.raises(SchemaError, match=r"at revision 0001.*0002: run `plume db upgrade --db sqlite:///"):
            Log(database).names()
        assert database.upgrade() == "0002"
        assert Log(database).names() == ["alice", "empty", "what-if"]


def test_the_upgrade_keeps_every_row_hash_and_history(old: str, tmp_path: Path):
    before = rows(tmp_path)
    with Database(old) as database:
        database.upgrade()
        log = Log(database)
        assert [log.verify(name) for name in ("alice", "what-if", "empty")] == [5, 5, 0]
        assert {name: log.head(name).chain_hash for name in HEADS} == HEADS
        histories = [[t.version for t in log.history("alice", n).transitions] for n in range(1, 6)]
        assert histories == [[1], [1, 2], [1, 2, 3], [1, 2], [1, 2, 5]]
        assert [t.version for t in log.history("what-if").transitions] == [1, 2, 5]
        first = log.version("alice", 1)
        assert (first.text, first.forgets) == ('Alice löst 漢字 🎉; it\'s "hard".', None)
        assert log.append("alice", first.text, idempotency_key="k1") == first
    assert len(before) == 10
    assert rows(tmp_path) == before


def test_an_upgraded_database_forgets(old: str):
    with Database(old) as database:
        database.upgrade()
        log = Log(database)
        assert log.forget("alice", 2).number == 6
        assert [t.version for t in log.history("alice").transitions] == [1, 5]
        assert [t.version for t in log.history("what-if").transitions] == [1, 2, 5]
        assert log.verify("alice") == 6


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE versions SET text = 'other' WHERE number = 2",
        "DELETE FROM versions WHERE number = 5",
        "INSERT OR REPLACE INTO versions SELECT * FROM versions WHERE number = 2",
        "UPDATE versions SET forgets = 1 WHERE number = 3",
        "DELETE FROM memories WHERE name = 'alice'",
    ],
)
def test_rows_are_immutable_after_the_upgrade(old: str, statement: str):
    with Database(old) as database:
        database.upgrade()
        with pytest.raises(sa.exc.IntegrityError, match=r"immutable|FOREIGN KEY"), database.write() as connection:
            connection.exec_driver_sql(statement)
        assert Log(database).verify("alice") == 5


def test_an_upgraded_database_has_the_schema_of_a_new_one(old: str, tmp_path: Path):
    with Database(old) as database, Database(f"sqlite:///{tmp_path / 'new' / 'plume.db'}") as new:
        database.upgrade()
        (tmp_path / "new").mkdir()
        new.upgrade()
        with database.read() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, Base.metadata) == []
            assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    assert objects(tmp_path) == objects(tmp_path / "new")


def test_an_upgrade_that_fails_leaves_the_older_database_as_it_was(old: str, tmp_path: Path):
    """The name of the new table is taken: the triggers are dropped by then."""
    with sqlite3.connect(tmp_path / "plume.db") as connection:
        connection.execute("CREATE TABLE versions_rebuilt (number INTEGER)")
    connection.close()
    before = objects(tmp_path), rows(tmp_path)
    with Database(old) as database:
        with pytest.raises(StoreUnavailable, match="versions_rebuilt already exists"):
            database.upgrade()
        assert database.revision() == "0001"
    assert (objects(tmp_path), rows(tmp_path)) == before
    assert "versions_no_update" in before[0]


def test_a_downgrade_gives_the_older_schema_back(old: str, tmp_path: Path):
    before = objects(tmp_path), rows(tmp_path)
    with Database(old) as database:
        database.upgrade()
        migrate(database, command.downgrade, "0001")
        assert database.revision() == "0001"
    assert (objects(tmp_path), rows(tmp_path)) == before
    with Database(old) as database:
        assert database.upgrade() == "0002"
        assert Log(database).verify("alice") == 5


def test_a_downgrade_that_would_lose_a_forget_is_refused(old: str):
    with Database(old) as database:
        database.upgrade()
        Log(database).forget("alice", 2)
        with pytest.raises(SchemaError, match=r"1 versions of kind 'forget'.*stay at 0002"):
            migrate(database, command.downgrade, "0001")
        assert database.revision() == "0002"
        assert [t.version for t in Log(database).history("alice").transitions] == [1, 5]
