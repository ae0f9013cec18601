"""A database and a log in a temporary folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from plume_memory.store.database import Database
from plume_memory.store.log import Log


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a database file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'plume.db'}"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A database, closed at the end."""
    with Database(url) as database:
        yield database


@pytest.fixture
def log(database: Database) -> Log:
    """An empty log."""
    return Log(database)
