"""Nothing of the integration may leave the process: every test here runs without a network. And an empty store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_plume.store import PlumeStore
from pytest_socket import disable_socket, enable_socket

from plume_memory.memory import ParametricMemory
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    """Nothing here may leave the process; asyncio's own socket pair is a Unix socket."""
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'plume.db'}"


@pytest.fixture
def memory(url: str) -> Iterator[ParametricMemory]:
    """An empty memory of the database; most modules have one of their own instead, with something in it."""
    with ParametricMemory.open("alice", url=url, engine=ENGINE) as opened:
        yield opened


@pytest.fixture
def store(memory: ParametricMemory, url: str) -> Iterator[PlumeStore]:
    """An empty store over the memory, its journal in the same database."""
    with PlumeStore(memory, url=url) as opened:
        yield opened
