"""A history at hand is extended by the updates since, and by nothing else; where it cannot be, it says so."""

import random
from typing import Any

import pytest

from plume_memory.errors import MemoryNotFound, VersionNotFound
from plume_memory.records import History
from plume_memory.store.derivations import Derivations
from plume_memory.store.erasure import Erasures
from plume_memory.store.log import Log
from plume_memory.store.sources import Sources


def told(log: Log, *texts: str) -> None:
    log.ensure("alice")
    for text in texts:
        log.append("alice", text)


def test_it_is_what_the_log_says_and_shares_what_was_there(log: Log):
    told(log, "One.", "Two.")
    known = log.history("alice", 1)
    log.append("alice", "Three.", metadata={"plume": {"keeps": [1]}})
    found = log.history_behind(known, 3)
    assert found == log.history("alice", 3)
    assert found is not None
    assert found.transitions[0] is known.transitions[0]
    assert log.history_behind(History("alice", 0, ()), 2) == log.history("alice", 2)


@pytest.mark.parametrize("undo", ["forget", "part", "rollback", "erase"])
def test_anything_but_updates_is_left_to_the_whole_reading(log: Log, erasures: Erasures, undo: str):
    told(log, "One.", "Two and more.", "Three.")
    known = log.history("alice", 1)
    if undo == "rollback":
        log.rollback("alice", 2)
    elif undo == "erase":
        erasures.erase("alice", 2)
    else:
        log.forget("alice", 2, span=(0, 3) if undo == "part" else None)
    assert log.history_behind(known, 4) is None
    log.append("alice", "Four.")
    assert log.history_behind(known, 5) is None
    after = log.history("alice", 4)
    assert log.history_behind(after, 5) == log.history("alice", 5)
    if undo == "erase":
        assert log.history_behind(known, 3) is None, "the text is less than it was"


def test_an_older_version_and_one_that_is_not_there(log: Log):
    told(log, "One.", "Two.")
    known = log.history("alice", 2)
    assert log.history_behind(known, 2) is None
    assert log.history_behind(known, 1) is None
    with pytest.raises(VersionNotFound):
        log.history_behind(known, 3)
    with pytest.raises(MemoryNotFound):
        log.history_behind(History("nobody", 0, ()), 1)


def test_any_log_from_any_version(log: Log):
    rng = random.Random(0)
    log.ensure("alice")
    for number in range(1, 60):
        held = [one.version for one in log.history("alice").transitions]
        if held and rng.random() < 0.15:
            log.forget("alice", rng.choice(held))
        elif number > 2 and rng.random() < 0.1:
            log.rollback("alice", rng.randrange(1, number))
        else:
            log.append("alice", f"Text {number}.")
    whole = {number: log.history("alice", number) for number in range(60)}
    found = [(a, b, log.history_behind(whole[a], b)) for a in range(0, 60, 3) for b in range(a + 1, 60, 2)]
    assert all(history in (None, whole[b]) for _, b, history in found)
    assert sum(history is not None for _, _, history in found) > 20


def test_the_newest_version_and_erasure_are_of_one_moment(log: Log, erasures: Erasures):
    log.ensure("alice")
    assert log.newest("alice") == (0, 0)
    told(log, "One.", "Two.")
    erasures.erase("alice", 1)
    assert log.newest("alice") == (3, 3)
    log.append("alice", "Three.")
    assert log.newest("alice") == (4, 3)
    assert log.last_erasure("alice") == 3


def test_what_is_kept_of_a_kind_and_what_is_shared(log: Log, database: Any):
    told(log, "One.")
    log.ensure("bob")
    derivations = Derivations(database)
    keys = [digit * 64 for digit in "abc"]
    for key, kind in zip(keys, ("sum", "factors", "sum"), strict=True):
        Sources(database, "alice", last_erasure=0).note(key, "0" * 64)
        derivations.record(key, kind, "0" * 64, 1)
    assert set(derivations.keys("sum", "alice")) == {keys[0], keys[2]}
    assert derivations.keys("sum", "bob") == []
    Sources(database, "bob", last_erasure=0).note(keys[0], "1" * 64)
    assert derivations.keys("sum", "bob") == [], "of other bytes"
    assert derivations.is_shared(keys[0], "alice")
    assert not derivations.is_shared(keys[2], "alice")
