"""A database and a log: in a temporary folder, or, for a module that says so, in each kind of database in turn.

A module whose claims hold for more than SQLite files names the kinds: `DATABASES = ("sqlite", "memory", "postgresql")`.
"""

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.erasure import Erasures
from plume_memory.store.log import Log
from plume_memory.testing import memory_database

BERN = "Alice lives in Bern, Zytgloggelaube 7. She has a cat."
"""The text of `filled` that is forgotten and erased; the modules that do so repeat it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that needs a database once for each kind that its module names."""
    kinds = getattr(metafunc.module, "DATABASES", ())
    if kinds and "url" in metafunc.fixturenames:
        metafunc.parametrize("url", kinds, indirect=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A running `PostgresServer` (tests/postgres.py), one for the session."""
    with _module("postgres").PostgresServer.running() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(postgres: Any) -> str:
    """The name of a database that has the schema: to copy one is faster than to migrate another."""
    name = postgres.create_database("migrated")
    with Database(postgres.url(name)) as database:
        database.upgrade()
    return name


@pytest.fixture
def cutter(postgres: Any) -> Iterator[Any]:
    """A `CommitCutter` (tests/postgres_proxy.py) in front of the server."""
    folder = Path(tempfile.mkdtemp(prefix="plume-cut-"))  # short: a socket's path is at most 107 bytes
    with _module("postgres_proxy").CommitCutter(folder, postgres.folder).serving() as cutter:
        yield cutter
    shutil.rmtree(folder)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database: a file that does not exist yet, unless the test asks for another kind.

    One of PostgreSQL has the schema already if the test uses it as `database` or `log`.
    """
    kind = getattr(request, "param", "sqlite")
    if kind == "postgresql":
        server = request.getfixturevalue("postgres")
        has_schema = "database" in request.fixturenames
        name = server.create_database(template=request.getfixturevalue("migrated") if has_schema else "template0")
        yield server.url(name)
        server.drop_database(name)
    else:
        yield {"sqlite": f"sqlite:///{tmp_path / 'plume.db'}", "memory": "sqlite://"}[kind]


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A database, closed at the end."""
    with memory_database() if url == "sqlite://" else Database(url) as database:
        yield database


@pytest.fixture
def log(database: Database) -> Log:
    """An empty log."""
    return Log(database)


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    """An empty store of artifacts."""
    return ArtifactStore(str(tmp_path / "artifacts"))


@pytest.fixture
def erasures(database: Database, artifacts: ArtifactStore) -> Erasures:
    """What erases from the database and the artifacts."""
    return Erasures(database, artifacts)


@pytest.fixture
def filled(log: Log) -> Log:
    """Memory alice: 1 is BERN, 2 and 3 are others; before (at 1) and fork (at 3) are her forks."""
    log.append("alice", BERN, metadata={"from": "Zytgloggelaube"}, idempotency_key="Zytgloggelaube-1")
    log.append("alice", "Bob has a boat.", idempotency_key="k2")
    log.append("alice", "Carol paints.")
    log.fork("alice", "before", at=1)
    log.fork("alice", "fork")
    return log


@pytest.fixture
def tamper(database: Database) -> Callable[..., None]:
    """Do to the database what an intruder who owns its tables would: triggers and checks off, then the statements."""

    def run(*statements: str) -> None:
        with database.write() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA ignore_check_constraints=ON")
                found = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").scalars()
                unlock = [f"DROP TRIGGER {name}" for name in found]
            else:
                query = "SELECT conrelid::regclass, conname FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0"
                found = connection.exec_driver_sql(query)
                unlock = [f"ALTER TABLE {table} DROP CONSTRAINT {name}" for table, name in found]
                unlock += [f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in ("memories", "versions")]
            for statement in [*unlock, *statements]:
                connection.exec_driver_sql(statement)

    return run


def _module(name: str) -> ModuleType:
    """Import a file of the folder above, which lies on no import path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
