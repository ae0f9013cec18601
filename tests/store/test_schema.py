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


def test_the_migrations_build_exactly_the_models(database: Database):
    Log(database).create("alice")
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_checks_and_triggers_are_in_the_schema(database: Database):
    Log(database).create("alice")
    with database.read() as connection:
        names = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type='trigger'").scalars())
        checks = {check["name"]: check["sqltext"] for check in sa.inspect(connection).get_check_constraints("versions")}
    assert names == {"versions_no_update", "versions_no_delete", "versions_no_replace"}
    modelled = [each for each in Base.metadata.tables["versions"].constraints if isinstance(each, sa.CheckConstraint)]
    assert checks == {each.name: str(each.sqltext) for each in modelled}
    assert set(checks) == {"ck_versions_number", "ck_versions_kind"}


def set_revision(database: Database, revision: str) -> None:
    Log(database).create("alice")
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :to"), {"to": revision})
    database.close()


def test_a_newer_schema_is_refused(url: str):
    set_revision(Database(url), "9999")
    with Database(url) as database:
        with pytest.raises(SchemaError, match=r"9999.*newer plume-memory"):
            Log(database).names()
        with pytest.raises(SchemaError, match="newer"):
            database.upgrade()
        assert database.revision() == "9999"


def test_an_older_schema_names_the_command():
    with pytest.raises(SchemaError, match=r"0001.*0002: run `plume db upgrade --db sqlite:///x.db`"):
        schema.check_revision("0001", "sqlite:///x.db")


def test_a_database_without_a_revision_is_refused(url: str):
    database = Database(url)
    Log(database).create("alice")
    with database.write() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
    database.close()
    with Database(url) as again, pytest.raises(SchemaError, match="holds 0"):
        Log(again).names()


def test_upgrade_makes_the_schema_and_may_be_repeated(url: str):
    with Database(url) as database:
        assert database.revision() is None
        assert database.upgrade() == "0002"
        assert database.upgrade() == "0002"
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
