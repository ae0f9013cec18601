"""The migrations build what the models say; a schema of another age is refused."""

import logging

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from plume_memory.errors import SchemaError
from plume_memory.store import schema
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.store.tables import Base

DATABASES = ("sqlite", "postgresql")


def test_the_migrations_build_exactly_the_models(database: Database):
    Log(database).create("alice")
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []


def test_the_models_checks_are_in_the_schema(database: Database):
    """Alembic does not compare these. PostgreSQL words a condition its own way, so there the names must do."""
    Log(database).create("alice")
    with database.read() as connection:
        inspector = sa.inspect(connection)
        for name, table in Base.metadata.tables.items():
            found = {check["name"]: check["sqltext"] for check in inspector.get_check_constraints(name)}
            modelled = [each for each in table.constraints if isinstance(each, sa.CheckConstraint)]
            assert set(found) == {each.name for each in modelled}
            if connection.dialect.name == "sqlite":
                assert found == {each.name: str(each.sqltext) for each in modelled}


def test_the_triggers_that_keep_versions_immutable_are_in_the_schema(database: Database):
    Log(database).create("alice")
    queries = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'versions'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE tgrelid = 'versions'::regclass AND NOT tgisinternal",
    }
    expected = {
        "sqlite": {"versions_no_update", "versions_no_delete", "versions_no_replace"},
        "postgresql": {"versions_no_change", "versions_no_truncate"},
    }
    with database.read() as connection:
        kind = connection.dialect.name
        assert set(connection.exec_driver_sql(queries[kind]).scalars()) >= expected[kind]


def set_revision(url: str, revision: str) -> None:
    with Database(url) as database:
        Log(database).create("alice")
        with database.write() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :to"), {"to": revision})


def test_a_newer_schema_is_refused_and_left_as_it_is(url: str):
    set_revision(url, "9999")
    with Database(url) as database:
        with pytest.raises(SchemaError, match=r"9999.*newer plume-memory; upgrade the package"):
            Log(database).names()
        with pytest.raises(SchemaError, match="newer"):
            database.upgrade()
        assert database.revision() == "9999"


def test_a_database_without_a_revision_is_refused(url: str):
    with Database(url) as database:
        Log(database).create("alice")
        with database.write() as connection:
            connection.execute(sa.text("DELETE FROM alembic_version"))
    with Database(url) as again, pytest.raises(SchemaError, match="holds 0"):
        Log(again).names()


def test_another_programs_database_is_refused(url: str):
    with Database(url) as database, database._made().connect() as connection:
        connection.execution_options(plume_write=True)
        connection.exec_driver_sql("CREATE TABLE recipes (name TEXT)")
        connection.commit()
        with pytest.raises(SchemaError, match="not a plume database: it has the tables recipes"):
            Log(database).names()
        assert sa.inspect(connection).get_table_names() == ["recipes"]


def test_upgrade_makes_the_schema_and_may_be_repeated(url: str):
    with Database(url) as database:
        assert database.revision() is None
        assert database.upgrade() == schema.latest_revision()
        assert database.upgrade() == schema.latest_revision()
        assert Log(database).names() == []


def test_migrations_that_are_not_there_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(schema, "__file__", str(tmp_path / "plume_memory" / "store" / "schema.py"))
    with pytest.raises(SchemaError, match="reinstall plume-memory"):
        schema.migrations_folder()


def test_the_wheels_migrations_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path):
    shipped = tmp_path / "plume_memory" / "_migrations"
    shipped.mkdir(parents=True)
    (shipped / "env.py").touch()
    monkeypatch.setattr(schema, "__file__", str(tmp_path / "plume_memory" / "store" / "schema.py"))
    assert schema.migrations_folder() == shipped


def test_opening_leaves_the_applications_logging_alone(url: str):
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("sqlalchemy").level)
    with Database(url) as database:
        Log(database).create("alice")
    assert (root.level, list(root.handlers), logging.getLogger("sqlalchemy").level) == before
