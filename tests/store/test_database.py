"""A database opens lazily, is used until it is closed, and speaks in this package's errors."""

import os
from pathlib import Path

import pytest

from plume_memory.errors import InvalidInput, MemoryClosed
from plume_memory.store import schema
from plume_memory.store.database import Database
from plume_memory.store.log import Log

DATABASES = ("sqlite", "postgresql")


def test_the_constructor_touches_nothing(tmp_path: Path):
    Database(f"sqlite:///{tmp_path / 'plume.db'}")
    Database("postgresql://nobody@host.invalid/x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["no url", "mysql://localhost/x", ""])
def test_a_url_of_something_else_is_refused(given: str):
    with pytest.raises(InvalidInput, match=r"database URL|not supported"):
        Database(given)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["busy_timeout_s", "statement_timeout_s"])
def test_a_timeout_that_is_none_is_refused(name: str, seconds: float):
    with pytest.raises(InvalidInput, match=f"{name} must be a number of seconds more than 0"):
        Database("sqlite://", **{name: seconds})


def test_the_first_use_makes_the_schema(url: str):
    with Database(url) as database:
        assert database.revision() is None
        assert Log(database).names() == []
        assert database.revision() == schema.latest_revision()


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
