"""Brings a database to this package's schema through the alembic migrations. Nothing else creates a table.

The migrations ship in the wheel as `plume_memory/_migrations` and lie at the repository's root in an editable
install.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from plume_memory.errors import SchemaError
from plume_memory.forks import Lock

_VERSION_TABLE = "alembic_version"
# Alembic keeps its running environment in module globals (alembic.context, alembic.op): one upgrade at a
# time.
_ALEMBIC = Lock()


def migrations_folder() -> Path:
    """Find the migrations.

    Raises:
        SchemaError: If this installation has none.
    """
    package = Path(__file__).parents[1]
    places = (package / "_migrations", package.parent / "migrations")
    for place in places:
        if (place / "env.py").is_file():
            return place
    looked = " nor ".join(str(place) for place in places)
    raise SchemaError(f"The migrations are neither at {looked}: reinstall plume-memory.")


def latest_revision() -> str:
    """Return the schema revision this package works with."""
    head = _script().get_current_head()
    if head is None:
        raise SchemaError(f"{migrations_folder()} holds no migration: reinstall plume-memory.")
    return head


def revision_of(connection: Connection) -> str | None:
    """Return the database's revision; None for an empty database.

    Raises:
        SchemaError: If there are tables but none of them is alembic's: the database belongs to something
        else.
    """
    tables = sorted(inspect(connection).get_table_names())
    if _VERSION_TABLE in tables:
        found = connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalars().all()
        if len(found) == 1:
            return str(found[0])
        raise SchemaError(f"Table {_VERSION_TABLE} must hold one revision, it holds {len(found)}: {found}.")
    if tables:
        raise SchemaError(
            f"This is not a plume database: it has the tables {', '.join(tables[:5])} and no "
            f"{_VERSION_TABLE}. Give the URL of a plume database, or of an empty one."
        )
    return None


def check_revision(found: str, url: str) -> None:
    """Refuse a schema that is older or newer than this package's.

    Raises:
        SchemaError: Naming what to do.
    """
    wanted = latest_revision()
    if found != wanted:
        check_revision_is_known(found, url)
        raise SchemaError(
            f"The schema of {url} is at revision {found}, this package works with {wanted}: "
            f"run `plume db upgrade --db {url}`."
        )


def check_revision_is_known(found: str, url: str) -> None:
    """Refuse a schema that a newer package has written.

    Raises:
        SchemaError: Naming both revisions.
    """
    if found not in {script.revision for script in _script().walk_revisions()}:
        raise SchemaError(
            f"The schema of {url} is at revision {found}, which this package (latest {latest_revision()}) "
            "does not know: it was written by a newer plume-memory; upgrade the package."
        )


def upgrade(connection: Connection) -> None:
    """Run the missing migrations on the connection, inside its transaction."""
    config = _config()
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, "head")


def _script() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    # Interpolation is on: a % in the path must be doubled.
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    return config
