"""Forgetting appends: the text no longer holds from there on, and everything before stays as it was."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.errors import (
    IdempotencyConflict,
    IntegrityError,
    InvalidInput,
    MemoryNotFound,
    VersionConflict,
    VersionNotFound,
)
from plume_memory.store.database import Database
from plume_memory.store.log import Log

DATABASES = ("sqlite", "memory", "postgresql")


def numbers(log: Log, version: int | None = None, memory: str = "alice") -> list[int]:
    history = log.history(memory, version)
    assert all(transition.text == f"text {transition.version}" for transition in history.transitions)
    return [transition.version for transition in history.transitions]


@pytest.fixture
def filled(log: Log) -> Log:
    """Memory alice: updates 1 to 4."""
    for i in range(1, 5):
        log.append("alice", f"text {i}")
    return log


def test_forget_appends_and_keeps_history(filled: Log):
    forgotten = filled.forget("alice", 2, reason="Alice asked")
    assert (forgotten.number, forgotten.kind, forgotten.forgets, forgotten.restores) == (5, "forget", 2, None)
    assert (forgotten.text, forgotten.metadata) == ("", {"reason": "Alice asked"})
    assert filled.version("alice", 5) == forgotten
    assert filled.forget("alice", 4).metadata == {}
    filled.append("alice", "text 7")
    assert [numbers(filled, n) for n in range(4, 8)] == [[1, 2, 3, 4], [1, 3, 4], [1, 3], [1, 3, 7]]
    assert filled.version("alice", 2).text == "text 2"
    assert filled.verify("alice") == 7


def test_the_last_text_may_be_forgotten(log: Log):
    log.append("alice", "text 1")
    log.forget("alice", 1)
    assert numbers(log) == []
    log.append("alice", "text 3")
    assert numbers(log) == [3]


def test_a_rollback_to_before_a_forget_undoes_it_and_one_to_after_keeps_it(filled: Log):
    filled.forget("alice", 2)
    filled.append("alice", "text 6")
    filled.rollback("alice", 4)
    assert numbers(filled) == [1, 2, 3, 4]
    filled.rollback("alice", 5)
    assert numbers(filled) == [1, 3, 4]
    filled.rollback("alice", 7)
    filled.forget("alice", 2)
    assert numbers(filled) == [1, 3, 4]
    filled.rollback("alice", 6)
    assert numbers(filled) == [1, 3, 4, 6]
    assert filled.verify("alice") == 11


def test_a_fork_takes_its_forgets_along_and_forgets_for_itself(filled: Log):
    filled.forget("alice", 1)
    filled.fork("alice", "before", at=4)
    filled.fork("alice", "after")
    filled.forget("after", 3)
    assert numbers(filled) == [2, 3, 4]
    assert numbers(filled, memory="before") == [1, 2, 3, 4]
    assert numbers(filled, memory="after") == [2, 4]
    assert filled.verify("after") == 6


def test_a_version_that_is_not_there_cannot_be_forgotten(filled: Log):
    for version in (0, -1, 5, 10**30):
        with pytest.raises(VersionNotFound, match=r"versions 1 to 4"):
            filled.forget("alice", version)
    assert filled.head_number("alice") == 4


def test_only_a_text_that_holds_can_be_forgotten(filled: Log):
    filled.forget("alice", 4)
    filled.rollback("alice", 2)
    with pytest.raises(InvalidInput, match=r"version 6 is a rollback, which has no text.*Name an update"):
        filled.forget("alice", 6)
    with pytest.raises(InvalidInput, match="version 5 is a forget"):
        filled.forget("alice", 5)
    with pytest.raises(InvalidInput, match="version 3 does not hold at version 6 any more, a rollback took it back"):
        filled.forget("alice", 3)
    filled.forget("alice", 1)
    with pytest.raises(InvalidInput, match="version 1 does not hold at version 7 any more, version 7 forgot it"):
        filled.forget("alice", 1)
    assert filled.head_number("alice") == 7


def test_arguments_are_checked_before_anything_is_written(filled: Log):
    with pytest.raises(MemoryNotFound, match="'nobody'"):
        filled.forget("nobody", 1)
    for version in ("1", 1.0, True):
        with pytest.raises(InvalidInput, match="is an int"):
            filled.forget("alice", version)
    for reason in ("", "  ", "a\x00b", "\ud800", 7):
        with pytest.raises(InvalidInput, match="A reason"):
            filled.forget("alice", 1, reason=reason)
    with pytest.raises(VersionConflict, match="is at version 4, expected was 3"):
        filled.forget("alice", 1, expected_version=3)
    assert filled.head_number("alice") == 4


def test_a_repeated_key_forgets_once(filled: Log):
    first = filled.forget("alice", 2, idempotency_key="k", reason="first", expected_version=4)
    assert filled.forget("alice", 2, idempotency_key="k", reason="again", expected_version=4) == first
    for call in (
        lambda: filled.forget("alice", 3, idempotency_key="k"),
        lambda: filled.rollback("alice", 2, idempotency_key="k"),
        lambda: filled.append("alice", "text 2", idempotency_key="k"),
    ):
        with pytest.raises(IdempotencyConflict, match="'k' belongs to version 5"):
            call()
    assert filled.head_number("alice") == 5


STEP = st.tuples(st.sampled_from(["update", "update", "rollback", "forget", "forget", "fork"]), st.integers(0, 99))


@settings(max_examples=60)
@given(steps=st.lists(STEP, min_size=1, max_size=25))
def test_every_mix_of_entries_and_forks_replays_to_the_state(steps: list[tuple[str, int]]):
    """Against lists: states[v] are the updates that hold at version v."""
    with Database("sqlite://") as database:
        log, name = Log(database), "memory 0"
        log.create(name)
        memories: dict[str, list[list[int]]] = {name: [[]]}
        for kind, choice in steps:
            states = memories[name]
            held, number = states[-1], len(states)
            if kind == "fork" and number > 1:
                at = 1 + choice % (number - 1)
                source, name = name, f"memory {len(memories)}"
                log.fork(source, name, at)
                memories[name] = [list(state) for state in states[: at + 1]]
            elif kind == "rollback" and number > 1:
                to = 1 + choice % (number - 1)
                log.rollback(name, to)
                states.append(states[to])
            elif kind == "forget" and held:
                gone = held[choice % len(held)]
                assert log.forget(name, gone).forgets == gone
                states.append([update for update in held if update != gone])
            else:
                log.append(name, f"text {number}")
                states.append([*held, number])
        for memory, states in memories.items():
            assert [numbers(log, n, memory) for n in range(len(states))] == states
            assert log.verify(memory) == len(states) - 1
            for update in set(range(1, len(states))) - set(states[-1]):
                with pytest.raises(InvalidInput):
                    log.forget(memory, update)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE versions SET forgets = 3 WHERE number = 5", "version 5: its fields"),
        ("UPDATE versions SET forgets = 5 WHERE number = 5", "version 5: it forgets 5, which is no version before"),
        ("UPDATE versions SET forgets = NULL WHERE number = 5", "version 5: it forgets None"),
        (
            "UPDATE versions SET restores = 2, forgets = NULL WHERE number = 5",
            "version 5: it restores 2, being of kind forget",
        ),
        ("UPDATE versions SET kind = 'rollback', restores = 2, forgets = NULL WHERE number = 5", "5: its fields"),
        ("UPDATE versions SET forgets = 1 WHERE number = 3", "version 3: it forgets 1, being of kind update"),
    ],
)
def test_verify_names_an_altered_forget(filled: Log, tamper: Callable[..., None], statement: str, named: str):
    filled.forget("alice", 2)
    tamper(statement)
    with pytest.raises(IntegrityError, match=named):
        filled.verify("alice")


@pytest.mark.parametrize(
    "fields",
    ["'forget', NULL, NULL", "'forget', NULL, 5", "'forget', 1, 1", "'rollback', 1, 1", "'update', NULL, 1"],
)
def test_the_table_refuses_a_row_that_names_the_wrong_version(filled: Log, database: Database, fields: str):
    columns = "text, text_sha256, metadata_json, created_at, parent_hash, chain_hash"
    insert = f"INSERT INTO versions (memory_id, number, kind, restores, forgets, {columns}) "
    insert += f"SELECT memory_id, 5, {fields}, {columns} FROM versions WHERE number = 4"
    with pytest.raises(sa.exc.IntegrityError, match="ck_versions_kind"), database.write() as connection:
        connection.exec_driver_sql(insert)
