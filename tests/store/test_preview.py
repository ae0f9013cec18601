"""A preview finds what a forget or an erasure would, and writes nothing."""

import pytest

from plume_memory.errors import InvalidInput, MemoryNotFound, VersionNotFound
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.store.preview import previewed

DATABASES = ("sqlite", "postgresql")


@pytest.fixture
def log(database: Database) -> Log:
    made = Log(database)
    for text in ("Alice lives in Bern. Her cat is Mia.", "Bob has a boat.", "We know that Her cat is Mia. Yes."):
        made.append("alice", text)
    return made


def test_it_names_what_a_forget_takes(database: Database, log: Log) -> None:
    found = previewed(database, "alice", 1, text="Her cat is Mia.", erase=False)
    assert found.words == "Her cat is Mia."
    assert (found.version, found.head_number, found.still_said_by) == (1, 3, (3,))
    assert log.head_number("alice") == 3
    taken = log.forget("alice", 1, text="Her cat is Mia.")
    assert (taken.forgets, taken.span) == (found.version, found.span)


def test_copies_are_those_that_an_erasure_reaches(database: Database, log: Log) -> None:
    log.fork("alice", "after", at=2)
    log.fork("alice", "before", at=1)
    assert previewed(database, "alice", 2, text=None, erase=True).copies == ("after",)
    assert previewed(database, "alice", 1, text=None, erase=True).copies == ("after", "before")


def test_it_refuses_what_they_refuse(database: Database, log: Log) -> None:
    with pytest.raises(MemoryNotFound):
        previewed(database, "nobody", 1, text=None, erase=True)
    with pytest.raises(VersionNotFound):
        previewed(database, "alice", 9, text=None, erase=True)
    with pytest.raises(InvalidInput, match="2 places"):
        previewed(database, "alice", None, text="Her cat is Mia.", erase=False)
    log.forget("alice", 2)
    with pytest.raises(InvalidInput):
        previewed(database, "alice", 2, text=None, erase=False)
    assert previewed(database, "alice", 2, text=None, erase=True).words == "Bob has a boat."
