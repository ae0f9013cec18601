"""The log: what is appended stays, in order, once; an undo is an entry of its own."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plume_memory.errors import (
    IdempotencyConflict,
    InvalidInput,
    MemoryExists,
    MemoryNotFound,
    VersionConflict,
    VersionNotFound,
)
from plume_memory.records import NOTICE, History, Transition
from plume_memory.store.database import Database
from plume_memory.store.log import Log, Origin

DATABASES = ("sqlite", "memory", "postgresql")

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """A clock set by the test."""

    def __init__(self, *moments: datetime) -> None:
        self.moments = list(moments)

    def __call__(self) -> datetime:
        return self.moments.pop(0) if len(self.moments) > 1 else self.moments[0]


def texts(history: History) -> list[str]:
    return [transition.text for transition in history.transitions]


def test_a_version_is_read_back_as_it_was_appended(log: Log):
    written = log.append(
        "alice", "Alice löst 漢字 🎉\r\n ", metadata={"b": [1, None], "a": {"é": 1.5}}, idempotency_key="k"
    )
    assert written.number == 1
    assert written.created_at.utcoffset() == timedelta(0)
    assert log.version("alice", 1) == log.head("alice") == log.versions("alice")[0] == written


def test_the_same_text_again_is_a_new_version(log: Log):
    assert [log.append("alice", "same").number for _ in range(3)] == [1, 2, 3]
    assert texts(log.history("alice")) == ["same"] * 3


def test_history_joins_its_transitions_with_the_notice(log: Log):
    log.append("alice", "old")
    log.append("alice", "new")
    assert log.history("alice").text == f"old\n{NOTICE}\nnew"
    assert log.history("alice").predecessor == (Transition(1, "old"),)


def test_memories_do_not_see_each_other(log: Log):
    log.append("bob", "b")
    log.append("alice", "a")
    log.append("bob", "b2")
    assert log.names() == ["alice", "bob"]
    assert texts(log.history("alice")) == ["a"]
    assert log.head("bob").number == 2


def test_a_created_memory_is_empty(log: Log):
    log.create("alice")
    assert log.exists("alice")
    assert not log.exists("bob")
    assert log.history("alice") == History("alice", 0, ())
    assert log.head_number("alice") == log.verify("alice") == 0
    assert log.origin("alice") is None
    with pytest.raises(VersionNotFound, match="is empty"):
        log.head("alice")
    with pytest.raises(VersionNotFound, match="is empty"):
        log.version("alice", 1)
    with pytest.raises(MemoryExists, match="'alice' exists"):
        log.create("alice")


def test_a_memory_that_is_not_there_is_an_error_and_is_not_created(log: Log):
    for call in (
        lambda: log.head("nobody"),
        lambda: log.history("nobody"),
        lambda: log.versions("nobody"),
        lambda: log.verify("nobody"),
        lambda: log.rollback("nobody", 1),
        lambda: log.fork("nobody", "other"),
        lambda: log.append("nobody", "x", create=False),
    ):
        with pytest.raises(MemoryNotFound, match="'nobody'"):
            call()
    assert log.names() == []


def test_a_text_that_cannot_be_stored_is_refused(log: Log):
    for text in ("", " \n\t\u2003", "a\x00b", "a\ud800b", None, 7):
        with pytest.raises(InvalidInput, match="update's text"):
            log.append("alice", text)
    assert log.names() == []


def test_a_name_that_cannot_be_stored_is_refused(log: Log):
    for name in ("", "   ", "a\nb", "x" * 201, "a\x00", "\ud800", "a\x85", None):
        for call in (log.create, lambda name: log.append(name, "x"), log.head, log.exists):
            with pytest.raises(InvalidInput, match="name"):
                call(name)
    assert log.names() == []


def test_any_other_name_is_a_name(log: Log):
    names = ["x" * 200, "用" * 200, "../etc", "用户 1", "it's; DROP TABLE versions", "%", "a", "A", "a "]
    for name in names:
        log.append(name, f"of {name}")
    assert log.names() == sorted(names)
    assert [texts(log.history(name)) for name in names] == [[f"of {name}"] for name in names]


def test_metadata_and_keys_are_checked_before_anything_is_written(log: Log):
    with pytest.raises(InvalidInput, match="metadata"):
        log.append("alice", "x", metadata={"a": float("inf")})
    with pytest.raises(InvalidInput, match="idempotency key"):
        log.append("alice", "x", idempotency_key="")
    assert log.names() == []


def test_a_repeated_key_answers_with_the_first_version(log: Log):
    first = log.append("alice", "x", idempotency_key="k", metadata={"try": 1}, expected_version=0)
    log.append("alice", "y")
    again = log.append("alice", "x", idempotency_key="k", metadata={"try": 2}, expected_version=0)
    assert again == first
    assert log.head("alice").number == 2
    assert log.append("bob", "z", idempotency_key="k").number == 1


def test_a_key_with_another_text_or_for_a_rollback_is_a_conflict(log: Log):
    log.append("alice", "x", idempotency_key="k")
    with pytest.raises(IdempotencyConflict, match="'k' belongs to version 1"):
        log.append("alice", "y", idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        log.rollback("alice", 1, idempotency_key="k")
    assert log.rollback("alice", 1, idempotency_key="r") == log.rollback("alice", 1, idempotency_key="r")
    assert log.head("alice").number == 2


def test_an_unexpected_head_is_a_conflict_that_names_both(log: Log):
    log.append("alice", "x", expected_version=0)
    log.append("alice", "y", expected_version=1)
    with pytest.raises(VersionConflict, match="is at version 2, expected was 1"):
        log.append("alice", "z", expected_version=1)
    with pytest.raises(VersionConflict, match="is at version 2, expected was 0"):
        log.rollback("alice", 1, expected_version=0)
    assert log.head("alice").number == 2


def test_rollback_appends_and_keeps_history(log: Log):
    for text in "abc":
        log.append("alice", text)
    undone = log.rollback("alice", 1, metadata={"why": "wrong"})
    assert (undone.number, undone.kind, undone.restores, undone.text) == (4, "rollback", 1, "")
    assert texts(log.history("alice")) == ["a"]
    assert [texts(log.history("alice", n)) for n in (1, 2, 3)] == [["a"], ["a", "b"], ["a", "b", "c"]]
    log.append("alice", "d")
    assert texts(log.history("alice")) == ["a", "d"]
    log.rollback("alice", 3)
    assert texts(log.history("alice")) == ["a", "b", "c"]
    log.rollback("alice", 5)
    assert texts(log.history("alice")) == ["a", "d"]
    assert log.verify("alice") == 7


def test_a_rollback_to_a_version_that_is_not_there_is_refused(log: Log):
    log.append("alice", "x")
    for to in (0, -1, 2, 10**30):
        with pytest.raises(VersionNotFound, match=r"versions 1 to 1"):
            log.rollback("alice", to)
    assert log.head("alice").number == 1


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(st.one_of(st.none(), st.integers(0, 30)), min_size=1, max_size=25))
def test_replaying_the_log_gives_the_state(steps: list[int | None]):
    with Database("sqlite://") as database:
        log = Log(database)
        states: list[list[str]] = [[]]
        for number, step in enumerate(steps, start=1):
            if step is None or number == 1:
                log.append("alice", f"text {number}")
                states.append([*states[-1], f"text {number}"])
            else:
                to = 1 + step % (number - 1)
                log.rollback("alice", to)
                states.append(states[to])
        for number, state in enumerate(states):
            assert texts(log.history("alice", number)) == state
        assert log.verify("alice") == len(steps)


def test_a_fork_has_the_same_hashes_and_goes_its_own_way(log: Log):
    for text in "abc":
        log.append("alice", text, idempotency_key=text, metadata={"t": text})
    log.rollback("alice", 2)
    assert log.fork("alice", "what-if", at=3) == 3
    assert log.fork("alice", "copy") == 4
    for name, count in (("what-if", 3), ("copy", 4)):
        copied = [v.chain_hash for v in log.versions(name)]
        assert copied == [v.chain_hash for v in log.versions("alice")][:count]
        assert log.origin(name) == Origin("alice", count)
        assert log.verify(name) == count
    log.append("what-if", "d")
    assert texts(log.history("what-if")) == ["a", "b", "c", "d"]
    assert texts(log.history("alice")) == ["a", "b"]
    assert log.append("what-if", "b", idempotency_key="b").number == 2


def test_a_fork_of_what_is_not_there_or_onto_what_is_there_is_refused(log: Log):
    log.append("alice", "a")
    log.create("empty")
    assert log.fork("empty", "empty too") == 0
    with pytest.raises(MemoryExists, match="'empty'"):
        log.fork("alice", "empty")
    for at in (0, 2):
        with pytest.raises(VersionNotFound):
            log.fork("alice", "other", at=at)
    assert log.names() == ["alice", "empty", "empty too"]


def test_versions_are_listed_from_either_end(log: Log):
    for i in range(1, 8):
        log.append("alice", f"text {i}")

    def numbers(**arguments) -> list[int]:
        return [version.number for version in log.versions("alice", **arguments)]

    assert numbers() == [1, 2, 3, 4, 5, 6, 7]
    assert numbers(start=3, stop=5) == [3, 4, 5]
    assert numbers(newest_first=True, limit=2) == [7, 6]
    assert numbers(start=6, stop=10**30) == [6, 7]
    assert numbers(start=-(10**30), limit=0) == []
    assert numbers(start=10**30) == numbers(start=5, stop=4) == []


def test_numbers_that_are_not_there_are_refused(log: Log):
    log.append("alice", "x")
    for number in (0, -1, 2, 10**30):
        with pytest.raises(VersionNotFound, match=f"no version {number}"):
            log.version("alice", number)
    for number in (-1, 2):
        with pytest.raises(VersionNotFound):
            log.history("alice", number)
    for number in ("1", 1.0, True):
        with pytest.raises(InvalidInput, match="is an int"):
            log.version("alice", number)


def test_time_travel_finds_the_newest_version_of_a_moment(database: Database):
    clock = Clock(START)
    log = Log(database, clock=clock)
    for hours in (0, 1, 1, 2):
        clock.moments = [START + timedelta(hours=hours)]
        log.append("alice", f"after {hours} h")
    assert log.at_time("alice", START) == 1
    assert log.at_time("alice", START + timedelta(minutes=59)) == 1
    assert log.at_time("alice", START + timedelta(hours=1)) == 3
    assert log.at_time("alice", (START + timedelta(hours=1)).astimezone(timezone(timedelta(hours=9)))) == 3
    assert log.at_time("alice", START + timedelta(days=9)) == 4
    with pytest.raises(VersionNotFound, match="no version yet"):
        log.at_time("alice", START - timedelta(microseconds=1))
    with pytest.raises(InvalidInput, match="no time zone"):
        log.at_time("alice", datetime(2026, 1, 1))


def test_time_never_falls_when_the_clock_does(database: Database):
    clock = Clock(START)
    log = Log(database, clock=clock)
    moments = [START, START - timedelta(days=1), START + timedelta(microseconds=1), START]
    for moment in moments:
        clock.moments = [moment]
        log.append("alice", "x")
    found = [version.created_at for version in log.versions("alice")]
    assert found == [START, START, START + timedelta(microseconds=1), START + timedelta(microseconds=1)]
    assert log.verify("alice") == 4
