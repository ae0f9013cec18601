"""A database of an older release comes along whole: rows, hashes, constraints and the triggers that protect them.

`schema_<revision>.sql` (SQLite) and `schema_<revision>_postgresql.sql` are databases as the release of that revision
wrote them: alice, her fork what-if, and empty, which is. A new revision's two files are put beside them and are
found; SQLite's is made with `.dump`, PostgreSQL's with `pg_dump --inserts --no-owner --no-privileges` in UTC, without
the lines that only psql understands.
"""

import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
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

DATABASES = ("sqlite", "postgresql")
FOLDER = Path(__file__).parent
REVISIONS = [script.revision for script in schema._script().walk_revisions()][::-1]
POSTGRESQL_OBJECTS = """
SELECT 'column', table_name || '.' || column_name,
       concat_ws(' ', data_type, character_maximum_length, is_nullable, column_default)
  FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'constraint', conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'trigger', tgname, pg_get_triggerdef(oid) || ' ' || tgenabled::text
  FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
ORDER BY 1, 2, 3
"""


class Found(NamedTuple):
    """What a database holds."""

    objects: dict[str, str]
    """The definitions that make the schema, by name."""
    rows: dict[str, list[dict[str, Any]]]
    """Every row of every table but alembic's, as stored."""


def fixture_file(kind: str, revision: str) -> Path:
    return FOLDER / (f"schema_{revision}.sql" if kind == "sqlite" else f"schema_{revision}_{kind}.sql")


def load(url: str, revision: str) -> None:
    """Fill an empty database as the release of a revision left it."""
    kind = "sqlite" if url.startswith("sqlite") else "postgresql"
    script = fixture_file(kind, revision).read_text(encoding="utf-8")
    if kind == "sqlite":
        with sqlite3.connect(sa.make_url(url).database) as connection:
            connection.executescript(script)
        connection.close()
    else:
        with psycopg.connect(url) as connection:
            connection.execute(script)


def look(database: Database) -> Found:
    with database._made().connect() as connection:
        tables = set(sa.inspect(connection).get_table_names()) - {"alembic_version"}
        rows = {}
        for table in tables:
            found = connection.exec_driver_sql(f"SELECT * FROM {table}").mappings()
            rows[table] = sorted((dict(row) for row in found), key=lambda row: str([*row.values()][:2]))
        if connection.dialect.name == "sqlite":
            # SQLite quotes the name of a table that was renamed.
            query = "SELECT name, replace(sql, '\"versions\"', 'versions') FROM sqlite_master WHERE sql IS NOT NULL"
            objects = {name: sql for name, sql in connection.exec_driver_sql(query)}
        else:
            objects = {f"{what} {name}": sql for what, name, sql in connection.exec_driver_sql(POSTGRESQL_OBJECTS)}
    return Found(objects, rows)


def narrowed(rows: dict[str, list[dict[str, Any]]], to: dict[str, list[dict[str, Any]]]) -> Any:
    """Leave out the tables and columns that `to` does not have."""
    return {
        table: [{column: row[column] for column in (old[0] if old else ())} for row in rows[table]]
        for table, old in to.items()
    }


def migrate(database: Database, run: Callable[..., None], revision: str) -> None:
    config = schema._config()
    with database._made().connect() as connection:
        connection.execution_options(plume_write=True)
        with connection.begin():
            config.attributes["connection"] = connection
            run(config, revision)


@pytest.fixture(params=REVISIONS)
def old(request: pytest.FixtureRequest, url: str) -> str:
    """The URL of a database of each revision in turn."""
    load(url, request.param)
    return url


@pytest.fixture
def first(url: str) -> str:
    """The URL of a database of 0001."""
    load(url, "0001")
    return url


@pytest.mark.parametrize("kind", DATABASES)
def test_every_revision_has_a_released_database(kind: str):
    pattern = "schema_????.sql" if kind == "sqlite" else f"schema_*_{kind}.sql"
    assert sorted(FOLDER.glob(pattern)) == [fixture_file(kind, revision) for revision in REVISIONS]


def test_an_older_database_is_refused_until_it_is_upgraded(old: str):
    with Database(old) as database:
        revision, latest = database.revision(), schema.latest_revision()
        if revision != latest:
            message = rf"at revision {revision}.*{latest}: run `plume db upgrade --db {old.partition(':')[0]}:"
            with pytest.raises(SchemaError, match=message):
                Log(database).names()
            assert database.revision() == revision
        assert database.upgrade() == latest
        assert Log(database).names() == ["alice", "empty", "what-if"]


def test_the_upgrade_keeps_every_row_and_hash(old: str):
    with Database(old) as database:
        before = look(database).rows
        database.upgrade()
        assert narrowed(look(database).rows, before) == before
        log = Log(database)
        heads = {row["name"]: (row["head_number"], row["head_hash"]) for row in before["memories"]}
        for name, (number, chain_hash) in heads.items():
            assert log.verify(name) == number
            assert number == 0 or log.head(name).chain_hash == chain_hash
        assert heads["empty"][0] == 0 < heads["alice"][0]


def test_an_upgraded_database_is_written_to_as_before(old: str):
    with Database(old) as database:
        database.upgrade()
        log = Log(database)
        number, first = log.head_number("alice"), log.version("alice", 1)
        assert first.text == 'Alice löst 漢字 🎉; it\'s "hard".'
        assert log.append("alice", first.text, idempotency_key="k1") == first
        assert log.append("alice", "Alice has a boat.").number == number + 1
        assert log.forget("alice", number + 1).number == number + 2
        assert log.rollback("alice", number + 1).number == number + 3
        assert log.history("alice").transitions[-1].text == "Alice has a boat."
        assert log.fork("alice", "copy") == log.verify("alice") == log.verify("copy") == number + 3


def test_rows_are_immutable_after_the_upgrade(old: str):
    refused = (sa.exc.IntegrityError, StoreUnavailable)
    with Database(old) as database:
        database.upgrade()
        number = Log(database).head_number("alice")
        for statement in (
            "UPDATE versions SET text = 'other' WHERE number = 2",
            "DELETE FROM versions WHERE number = 5",
            "DELETE FROM memories WHERE name = 'alice'",
        ):
            with pytest.raises(refused, match=r"(?i)immutable|foreign key"), database.write() as connection:
                connection.exec_driver_sql(statement)
        assert Log(database).verify("alice") == number


def test_an_upgraded_database_has_the_schema_of_a_new_one(old: str, request: pytest.FixtureRequest, tmp_path: Path):
    new, drop = another(old, request, tmp_path)
    with Database(old) as database, Database(new) as fresh:
        database.upgrade()
        fresh.upgrade()
        with database.read() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, Base.metadata) == []
            if connection.dialect.name == "sqlite":
                assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
                assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        assert look(database).objects == look(fresh).objects
    drop()


def another(url: str, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], None]]:
    """Return the URL of an empty database of the same kind, and what drops it."""
    if url.startswith("sqlite"):
        return f"sqlite:///{tmp_path / 'new.db'}", lambda: None
    server = request.getfixturevalue("postgres")
    name = server.create_database()
    return server.url(name), lambda: server.drop_database(name)


@pytest.mark.parametrize(("before", "after"), list(pairwise(REVISIONS)))
def test_each_revision_goes_up_and_down_with_its_predecessors_rows(url: str, before: str, after: str):
    load(url, before)
    with Database(url) as database:
        found = look(database)
        for _ in range(2):
            migrate(database, command.upgrade, after)
            assert database.revision() == after
            assert narrowed(look(database).rows, found.rows) == found.rows
            migrate(database, command.downgrade, before)
            assert database.revision() == before
            assert look(database) == found
        assert database.upgrade() == schema.latest_revision()
        assert Log(database).verify("alice") == len([row for row in found.rows["versions"] if row["memory_id"] == 1])


def test_the_first_revision_does_not_go_down(first: str):
    """There is nothing below it that could hold the rows."""
    with Database(first) as database:
        found = look(database)
        with pytest.raises(NotImplementedError, match="no predecessor"):
            migrate(database, command.downgrade, "base")
        assert look(database) == found


def test_a_downgrade_that_would_lose_a_forget_is_refused(url: str):
    load(url, "0002")
    with Database(url) as database:
        found = look(database)
        with pytest.raises(SchemaError, match=r"3 versions of kind 'forget'.*stay at 0002"):
            migrate(database, command.downgrade, "0001")
        assert database.revision() == "0002"
        assert look(database) == found


def test_an_upgrade_that_fails_leaves_the_older_database_as_it_was(first: str):
    """What it is about to make is there already; by then other things are dropped and made."""
    taken = {"sqlite": "CREATE TABLE versions_rebuilt (number INTEGER)", "postgresql": "CREATE INDEX {0} ON {1} (text)"}
    with Database(first) as database:
        with database._made().connect() as connection:
            connection.execution_options(plume_write=True)
            statement = taken[connection.dialect.name].format("ix_versions_undos", "versions")
            connection.exec_driver_sql(statement)
            connection.commit()
        found = look(database)
        with pytest.raises(StoreUnavailable, match="already exists"):
            database.upgrade()
        assert database.revision() == "0001"
        assert look(database) == found
    assert any("versions_no_update" in name or "versions_no_change" in name for name in found.objects)


def test_histories_of_the_first_release_read_as_they_did(first: str):
    with Database(first) as database:
        database.upgrade()
        log = Log(database)
        histories = [[t.version for t in log.history("alice", n).transitions] for n in range(1, 6)]
        assert histories == [[1], [1, 2], [1, 2, 3], [1, 2], [1, 2, 5]]
        assert [t.version for t in log.history("what-if").transitions] == [1, 2, 5]
        assert {name: log.head(name).chain_hash for name in ("alice", "what-if")} == {
            "alice": "e7e3cd5ba1fd3310c3d33ee6c7296c7091e200a71b9250d29b9b89289c5ef67c",
            "what-if": "df1f853f9b48cc4959567d798e2c417e146d626218498caa901be663df4f2895",
        }


def test_histories_of_the_second_release_read_as_they_did(url: str):
    load(url, "0002")
    with Database(url) as database:
        database.upgrade()
        log = Log(database)
        assert [t.version for t in log.history("alice").transitions] == [1, 5, 7]
        assert [t.version for t in log.history("what-if").transitions] == [1, 8]
        assert log.head("alice").chain_hash == "c67308a2a87201efd024b5e2149590527f0815d05bba0085488c94c7920f148d"
