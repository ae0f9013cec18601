"""Forgetting a part, and erasing: the text is gone from every row that held it, and the chain proves the rest."""

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.errors import (
    IdempotencyConflict,
    IntegrityError,
    InvalidInput,
    MemoryNotFound,
    StoreError,
    StoreUnavailable,
    VersionConflict,
    VersionNotFound,
)
from plume_memory.records import ErasureCertificate, Span
from plume_memory.store import purge
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.chain import sha256_of
from plume_memory.store.database import Database
from plume_memory.store.derivations import Derivations
from plume_memory.store.erasure import Erasures
from plume_memory.store.log import Log
from plume_memory.store.memories import get_memory
from plume_memory.store.purge import unfinished
from plume_memory.store.sources import Sources
from plume_memory.store.verifying import verify_rows

DATABASES = ("sqlite", "postgresql")
BERN = "Alice lives in Bern, Zytgloggelaube 7. She has a cat."
CAT = (39, 53)
HOME = (0, 38)


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path / "artifacts"))


@pytest.fixture
def erasures(database: Database, artifacts: ArtifactStore) -> Erasures:
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


def refuse(*_: object) -> None:
    raise StoreUnavailable("repeat the call")


def said(log: Log, memory: str = "alice", version: int | None = None) -> list[str]:
    return [transition.text for transition in log.history(memory, version).transitions]


def verified(log: Log, **lengths: int) -> None:
    assert {name: log.verify(name) for name in lengths} == lengths


# --- forgetting a part ---------------------------------------------------------------------------


def test_a_forgotten_part_is_left_out_from_there_on_and_a_rollback_brings_it_back(filled: Log) -> None:
    forgotten = filled.forget("alice", 1, span=HOME, reason="moved")
    assert (forgotten.kind, forgotten.forgets, forgotten.span) == ("forget", 1, Span(*HOME))
    assert filled.version("alice", 4) == forgotten
    assert said(filled) == ["She has a cat.", "Bob has a boat.", "Carol paints."]
    assert said(filled, version=3)[0] == filled.version("alice", 1).text == BERN

    filled.forget("alice", text="She has a ")
    assert said(filled)[0] == "cat."
    filled.rollback("alice", 4)
    assert said(filled)[0] == "She has a cat."
    filled.rollback("alice", 3)
    assert said(filled)[0] == BERN
    verified(filled, alice=7, before=1, fork=3)


def test_a_text_that_is_forgotten_part_by_part_leaves_the_history(filled: Log) -> None:
    filled.forget("alice", 1, span=HOME)
    filled.forget("alice", 1, span=CAT)
    assert said(filled) == ["Bob has a boat.", "Carol paints."]
    with pytest.raises(InvalidInput, match="nothing of characters 0 to 5 of version 1 holds any more"):
        filled.forget("alice", 1, span=(0, 5))
    assert filled.forget("alice", 1).span is None
    verified(filled, alice=6)


def test_a_span_is_part_of_the_hash(filled: Log) -> None:
    """The same forget of another part, at the same time, has another chain hash."""
    moment = datetime(2099, 1, 1, tzinfo=UTC)
    hashes = set()
    for span in (None, (0, 5), (0, 6)):
        with Database("sqlite://") as database:
            log = Log(database, clock=lambda: moment)
            log.append("alice", BERN)
            hashes.add(log.forget("alice", 1, span=span).chain_hash)
    assert len(hashes) == 3


def test_words_must_stand_in_one_place_of_what_holds(filled: Log) -> None:
    filled.append("alice", "Dora has a boat, Emil has a boat.")
    with pytest.raises(InvalidInput, match=r"stand in 4 places that hold now: version 1 at 43, version 2 at 4, .*"):
        filled.forget("alice", text="has a")
    with pytest.raises(InvalidInput, match=r"2 places.*version 4 at 5, version 4 at 22") as refused:
        filled.forget("alice", 4, text="has a boat")
    assert "has a" not in str(refused.value)
    with pytest.raises(InvalidInput, match="not in the updates that hold now letter for letter"):
        filled.forget("alice", text="HAS A")
    assert filled.forget("alice", 2, text="has a").span == Span(4, 9)
    filled.forget("alice", 4)
    assert filled.forget("alice", text="has a").forgets == 1
    assert said(filled) == [BERN.replace(" has a ", " "), "Bob boat.", "Carol paints."]


BAD_TARGETS = [
    ({}, "Name what to forget"),
    ({"span": (0, 1)}, "give the version with it"),
    ({"version": 1, "span": (0, 1), "text": "A"}, "and no text"),
    ({"version": 1, "span": (3, 3)}, "not empty"),
    ({"version": 1, "span": (-1, 3)}, "from 0"),
    ({"version": 1, "span": (0, 3.0)}, "span is"),
    ({"version": 1, "span": (0, True)}, "span is"),
    ({"version": 1, "span": "ab"}, "span is"),
    ({"version": 1, "span": (0, 54)}, "has 53 characters"),
    ({"version": 1, "text": ""}, "white space"),
    ({"text": "a\x00"}, "cannot be stored"),
]


def test_a_target_that_is_none_is_refused(filled: Log, erasures: Erasures) -> None:
    for arguments, reason in BAD_TARGETS:
        for call in (filled.forget, erasures.erase):
            with pytest.raises(InvalidInput, match=reason):
                call("alice", **arguments, idempotency_key="k")
    with pytest.raises(InvalidInput, match="white space aside: there is nothing to forget"):
        filled.forget("alice", 1, span=(14, 15))
    assert filled.head_number("alice") == 3


def test_a_repeated_key_forgets_a_part_once(filled: Log) -> None:
    first = filled.forget("alice", 1, span=CAT, idempotency_key="k")
    assert filled.forget("alice", 1, span=CAT, idempotency_key="k") == first
    words = filled.forget("alice", text="boat", idempotency_key="w")
    assert filled.forget("alice", text="boat", idempotency_key="w") == words
    for arguments in ({"version": 1}, {"version": 1, "span": (0, 3)}, {"version": 2, "text": "She has"}):
        with pytest.raises(IdempotencyConflict):
            filled.forget("alice", idempotency_key="k", **arguments)


def test_a_repeated_key_forgets_the_same_words_and_no_others_of_that_length(filled: Log, erasures: Erasures) -> None:
    first = filled.forget("alice", text="boat", idempotency_key="boat")
    across = filled.forget("alice", 1, text=" has a", idempotency_key="across")
    reached = filled.forget("alice", 1, text="She cat", idempotency_key="reached")
    for text, key in (
        ("Bob ", "boat"),
        ("boa", "boat"),
        ("oat.", "boat"),
        ("She ca!", "reached"),
        (" had a", "across"),
    ):
        with pytest.raises(IdempotencyConflict, match="says something else"):
            filled.forget("alice", text=text, idempotency_key=key)

    erasures.erase("alice", 1, text="Alice ")  # shifts what was forgotten
    assert filled.forget("alice", text="boat", idempotency_key="boat") == first
    assert filled.forget("alice", 1, text=" has a", idempotency_key="across") == across
    assert filled.forget("alice", text="She cat", idempotency_key="reached") == reached
    erasures.erase("alice", 1)
    with pytest.raises(IdempotencyConflict, match="can no longer be compared"):
        filled.forget("alice", text="She cat", idempotency_key="reached")
    assert filled.head_number("alice") == 8


# --- erasing --------------------------------------------------------------------------------------


def test_an_erased_version_is_gone_from_every_history_and_every_fork(filled: Log, erasures: Erasures) -> None:
    original = filled.version("alice", 1)
    certificate = erasures.erase("alice", 1, reason="asked for")

    assert (certificate.memory, certificate.version, certificate.reason) == ("alice", 4, "asked for")
    rows = [(text.memory, text.version, text.erased_by, text.span) for text in certificate.erased]
    assert rows == [("alice", 1, 4, None), ("before", 1, 2, None), ("fork", 1, 4, None)]
    for memory, erased_by in (("alice", 4), ("before", 2), ("fork", 4)):
        gone = filled.version(memory, 1)
        assert (gone.text, gone.metadata, gone.idempotency_key, gone.erased_by) == ("", {}, None, erased_by)
        assert (gone.text_sha256, gone.chain_hash) == (original.text_sha256, original.chain_hash)
        assert (gone.kind, gone.created_at, gone.parent_hash) == ("update", original.created_at, original.parent_hash)
        assert filled.version(memory, erased_by).kind == "erase"
    assert [said(filled, version=n) for n in range(1, 5)] == [[], ["Bob has a boat."], *[said(filled)] * 2]
    assert said(filled, "before") == []
    filled.rollback("alice", 3)
    assert said(filled) == ["Bob has a boat.", "Carol paints."]
    verified(filled, alice=5, before=2, fork=4)
    assert filled.version("before", 2).metadata.keys() == {"erased"}


def test_an_erased_part_leaves_the_rest(filled: Log, erasures: Erasures) -> None:
    certificate = erasures.erase("alice", text="Zytgloggelaube 7")

    left = BERN.replace("Zytgloggelaube 7", "")
    assert [text.span for text in certificate.erased] == [Span(21, 37)] * 3
    assert {text.left_sha256 for text in certificate.erased} == {sha256_of(left)}
    assert {text.text_sha256 for text in certificate.erased} == {sha256_of(BERN)}
    assert filled.version("fork", 1).text == left
    assert said(filled, version=1) == said(filled, "before") == ["Alice lives in Bern,. She has a cat."]
    verified(filled, alice=4, before=2, fork=4)


def test_forgets_and_erasures_of_parts_read_the_same_in_any_order(filled: Log, erasures: Erasures) -> None:
    filled.forget("alice", 1, text="She has")
    erasures.erase("alice", 1, text="in Bern")
    filled.forget("alice", 1, text=", Zytgloggelaube 7")
    erasures.erase("alice", 1, text="a cat")
    filled.fork("alice", "late", at=4)

    assert said(filled)[0] == "Alice lives.."
    assert said(filled, version=3)[0] == "Alice lives, Zytgloggelaube 7. She has."
    assert said(filled, version=4)[0] == "Alice lives, Zytgloggelaube 7.."
    assert said(filled, "late") == said(filled, version=4)
    erasures.erase("fork", 1)
    assert all(filled.version(memory, 1).text == "" for memory in ("alice", "before", "fork", "late"))
    verified(filled, alice=8, before=4, fork=6, late=7)


def test_a_fork_of_a_version_before_an_erasure_vouches_for_itself(filled: Log, erasures: Erasures) -> None:
    erasures.erase("alice", 1, span=HOME, expected_version=3)
    erasures.erase("alice", 2)
    assert filled.fork("alice", "late", at=2) == 4
    assert [filled.version("late", n).kind for n in (3, 4)] == ["erase", "erase"]
    assert (filled.version("late", 1).erased_by, filled.version("late", 2).erased_by) == (3, 4)
    assert said(filled, "late") == ["She has a cat."]
    assert filled.fork("late", "later") == 4
    verified(filled, late=4, later=4)


def test_what_no_longer_holds_can_be_erased_and_nothing_twice(filled: Log, erasures: Erasures) -> None:
    filled.forget("alice", 1)
    filled.rollback("alice", 1)
    first = erasures.erase("alice", 2)
    assert first.version == 6
    again = erasures.erase("alice", 2)
    assert (again.version, again.erased, again.erased_at) == (6, first.erased, first.erased_at)
    assert filled.head_number("alice") == 6
    with pytest.raises(InvalidInput, match="version 2 does not hold at version 6 any more, version 6 erased it"):
        filled.forget("alice", 2)
    erasures.erase("alice", 1)
    with pytest.raises(InvalidInput, match="version 1 does not hold at version 7 any more, version 7 erased it"):
        filled.forget("alice", 1)
    with pytest.raises(InvalidInput, match="has 0 characters"):
        erasures.erase("alice", 1, span=(0, 1), idempotency_key="k")
    for undo in (4, 5, 6):
        with pytest.raises(InvalidInput, match=f"version {undo} is a"):
            erasures.erase("alice", undo)


def test_arguments_are_checked_before_anything_is_erased(filled: Log, erasures: Erasures) -> None:
    with pytest.raises(MemoryNotFound):
        erasures.erase("nobody", 1)
    with pytest.raises(VersionNotFound):
        erasures.erase("alice", 9)
    with pytest.raises(VersionConflict):
        erasures.erase("alice", 1, expected_version=2)
    for arguments in ({"reason": "no Zytgloggelaube!"}, {"idempotency_key": "Zytgloggelaube"}):
        with pytest.raises(InvalidInput, match="repeats the words to be erased"):
            erasures.erase("alice", 1, text="Zytgloggelaube", **arguments)
    with pytest.raises(InvalidInput, match=r"2 places of the log, whether they hold or not,: version 1 at 43"):
        erasures.erase("alice", text="has a")
    assert filled.head_number("alice") == 3
    assert filled.version("alice", 1).text == BERN


def test_a_repeated_key_erases_once(filled: Log, erasures: Erasures) -> None:
    first = erasures.erase("alice", 1, span=(0, 5), idempotency_key="k", expected_version=3)
    again = erasures.erase("alice", 1, span=(0, 5), idempotency_key="k", expected_version=3)
    assert (again.version, again.erased) == (first.version, first.erased)
    assert filled.version("alice", 1).text == BERN[5:]
    with pytest.raises(IdempotencyConflict):
        erasures.erase("alice", 1, idempotency_key="k")


def test_a_repeated_key_erases_the_same_words_and_no_others_of_that_length(filled: Log, erasures: Erasures) -> None:
    filled.append("alice", "Dora drinks.")
    first = erasures.erase("alice", text="Alice", idempotency_key="k")
    second = erasures.erase("alice", text="Zytgloggelaube", idempotency_key="second")
    assert erasures.erase("alice", text="Zytgloggelaube", idempotency_key="second").version == second.version == 6
    for text, key in (("Dora ", "k"), ("Emil!", "second"), ("Zytgloggelaubx", "second")):
        with pytest.raises(IdempotencyConflict, match="says something else"):
            erasures.erase("alice", text=text, idempotency_key=key)
    with pytest.raises(IdempotencyConflict, match=f"version {first.version}.*can no longer be compared"):
        erasures.erase("alice", text="Alice", idempotency_key="k")
    assert filled.head_number("alice") == 6


def test_a_part_is_erased_by_its_place_only_by_a_call_that_can_be_repeated(filled: Log, erasures: Erasures) -> None:
    """Its place is another's once it is gone: sent twice, the call would erase twice as much."""
    with pytest.raises(InvalidInput, match=r"expected_version or idempotency_key.*text="):
        erasures.erase("alice", 1, span=(0, 5))
    for arguments in ({"expected_version": 3}, {"idempotency_key": "k"}):
        erasures.erase("alice", 1, span=(0, 5), **arguments)
    assert filled.version("alice", 1).text == BERN[10:]
    with pytest.raises(VersionConflict):
        erasures.erase("alice", 1, span=(0, 5), expected_version=3)
    assert filled.version("alice", 1).text == BERN[10:]


@pytest.mark.parametrize("again", [{"expected_version": 4}, {"idempotency_key": "new"}])
def test_another_part_at_the_place_of_an_unfinished_erasure_is_erased_too(
    filled: Log, erasures: Erasures, monkeypatch: pytest.MonkeyPatch, again: dict
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(purge, "compact", refuse)
        with pytest.raises(StoreUnavailable):
            erasures.erase("alice", 1, span=(0, 5), expected_version=3)
    assert erasures.erase("alice", 1, span=(0, 5), **again).version == 5
    assert filled.version("alice", 1).text == BERN[10:]


def test_an_unfinished_erasure_is_the_answer_to_its_own_words_alone(
    filled: Log, erasures: Erasures, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(purge, "compact", refuse)
        with pytest.raises(StoreUnavailable):
            erasures.erase("alice", text="Alice")
        with pytest.raises(StoreUnavailable):
            erasures.erase("alice", text="Carol")
    with pytest.raises(InvalidInput, match="not in the updates of the log"):
        erasures.erase("alice", text="Bobbi")
    assert filled.head_number("alice") == 4


def test_the_key_of_an_erased_update_brings_nothing_back(filled: Log, erasures: Erasures) -> None:
    filled.append("alice", "Dora has a dog.", idempotency_key="dora")
    erasures.erase("alice", 1)
    erasures.erase("alice", text=" a dog")
    filled.fork("alice", "late", at=4)
    filled.fork("alice", "later")
    for memory in ("alice", "before", "fork", "late", "later"):
        with pytest.raises(IdempotencyConflict, match=r"belonged to version 1, which was erased in version \d"):
            filled.append(memory, BERN, idempotency_key="Zytgloggelaube-1")
    for text in ("Dora has a dog.", "Dora has."):
        with pytest.raises(IdempotencyConflict, match="version 4, which was erased in version 6"):
            filled.append("alice", text, idempotency_key="dora")
    assert "Zytgloggelaube" not in json.dumps(filled.version("alice", 5).metadata)
    assert filled.append("alice", BERN, idempotency_key="of its own").number == 7
    verified(filled, alice=7, before=2, fork=4, late=6, later=6)


def test_other_versions_that_say_the_same_are_named(filled: Log, erasures: Erasures) -> None:
    filled.append("alice", "Dora, too, lives at Zytgloggelaube 7.")
    filled.append("alice", "Emil paints.", metadata={"at": "Zytgloggelaube 7"})
    certificate = erasures.erase("alice", 1, span=(21, 37), idempotency_key="k")
    assert certificate.still_said_by == (4, 5)


def test_the_certificate_is_json(filled: Log, erasures: Erasures) -> None:
    certificate = erasures.erase("alice", 1, span=HOME, expected_version=3)
    found = json.loads(certificate.to_json())
    assert found["erased"][0]["span"] == {"start": 0, "end": 38}
    assert found["erased_at"] == certificate.erased_at.isoformat()
    assert any("sha256" in limit for limit in found["limits"])
    assert "Zytgloggelaube" not in certificate.to_json()


# --- what was derived, and a call that is cut short -------------------------------------------------


def derive(database: Database, artifacts: ArtifactStore, memory: str, key: str, *, last_erasure: int = 0) -> str:
    sha256 = sha256_of(memory + key)
    if memory and not Sources(database, memory, last_erasure=last_erasure).note(key, sha256):
        return ""
    assert artifacts.put((memory + key).encode()) == sha256
    Derivations(database).record(key, "factors", sha256, 10)
    return sha256


def test_artifacts_of_every_copy_go_and_those_of_others_stay(
    filled: Log, database: Database, artifacts: ArtifactStore, erasures: Erasures
) -> None:
    filled.append("bob", "Bob is bald.")
    keys = {name: sha256_of(f"key {name}") for name in ("alice", "before", "bob", "", "cut short")}
    kept = derive(database, artifacts, "bob", keys["bob"])
    gone = [derive(database, artifacts, name, keys[name]) for name in ("alice", "before", "")]  # "": an older release
    orphan = sha256_of("x")
    Sources(database, "fork", last_erasure=0).note(keys["cut short"], orphan)
    artifacts.put(b"x")

    certificate = erasures.erase("alice", 1)

    assert certificate.artifacts == tuple(sorted([*gone, orphan]))
    assert [artifacts.has(sha256) for sha256 in [kept, *gone, orphan]] == [True, False, False, False, False]
    assert Derivations(database).lookup(keys["bob"]) is not None
    assert all(Derivations(database).lookup(keys[name]) is None for name in ("alice", "before", ""))
    assert unfinished(database) == []
    assert erasures.erase("alice", 2).artifacts == ()


def test_what_is_derived_while_its_text_is_erased_is_not_kept(
    filled: Log, database: Database, artifacts: ArtifactStore, erasures: Erasures
) -> None:
    key = sha256_of("key")
    reader = Sources(database, "alice", last_erasure=filled.last_erasure("alice"))
    assert reader.is_current()
    erasures.erase("alice", 1)
    assert not reader.is_current()
    assert not reader.note(key, sha256_of("x"))
    assert derive(database, artifacts, "alice", key, last_erasure=filled.last_erasure("alice"))
    assert filled.last_erasure("alice") == 4


@pytest.mark.parametrize(
    ("step", "target"),
    [
        ("_delete_derivations", {"version": 1}),
        ("delete", {"version": 1, "span": (21, 37), "expected_version": 3}),
        ("_cross_out", {"version": 1, "span": (21, 37), "idempotency_key": "k"}),
        ("compact", {"text": "Zytgloggelaube 7"}),
        ("_cross_out", {"version": 1, "text": "Zytgloggelaube 7"}),
    ],
)
def test_a_call_that_was_cut_short_is_completed_by_the_same_call(
    filled: Log,
    database: Database,
    artifacts: ArtifactStore,
    erasures: Erasures,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    target: dict,
) -> None:
    sha256 = derive(database, artifacts, "alice", sha256_of("key"))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(artifacts if step == "delete" else purge, step, die)
        with pytest.raises(KeyboardInterrupt):
            erasures.erase("alice", **target)
    assert "Zytgloggelaube" not in filled.version("fork", 1).text
    verified(filled, alice=4, before=2, fork=4)
    assert len(unfinished(database)) == 3

    certificate = erasures.erase("alice", **target)

    assert (certificate.version, len(certificate.erased)) == (4, 3)
    assert certificate.artifacts == (sha256,)
    assert not artifacts.has(sha256)
    assert unfinished(database) == []
    verified(filled, alice=4, before=2, fork=4)


def test_an_erasure_that_is_refused_changes_nothing(filled: Log, database: Database, erasures: Erasures) -> None:
    with database.write() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(
                "CREATE TRIGGER no BEFORE UPDATE ON versions BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        else:
            connection.exec_driver_sql("ALTER TABLE versions ADD CONSTRAINT no CHECK (erased_by IS NULL)")
    with pytest.raises(StoreUnavailable, match="nothing was erased"):
        erasures.erase("alice", 1)
    verified(filled, alice=3, before=1, fork=3)


# --- tampering ------------------------------------------------------------------------------------


def test_raw_sql_erases_nothing_and_restores_nothing(filled: Log, database: Database, erasures: Erasures) -> None:
    erasures.erase("alice", 1, span=HOME, expected_version=3)
    changes = [
        "text = 'x', erased_by = 4",
        "text = ''",
        "text = '', erased_by = 4, metadata_json = '{}', idempotency_key = NULL",
        "text = 'again'",
        "erased_by = NULL",
        "created_at = '2020-01-01 00:00:00'",
    ]
    statements = [f"UPDATE versions SET {change} WHERE number = {number}" for change in changes for number in (1, 2)]
    statements += ["DELETE FROM versions WHERE number = 1", "UPDATE versions SET kind = 'erase' WHERE number = 3"]
    for statement in statements:
        with pytest.raises((exc.DatabaseError, StoreUnavailable), match="immutable"), database.write() as connection:
            connection.exec_driver_sql(statement)
    verified(filled, alice=4, before=2, fork=4)


ALTERED = [
    ("text = 'other'", 1, "version 1: its left_sha256 is not what version 4"),
    (f"text = '{BERN}'", 1, "version 1: its left_sha256"),
    ("text_sha256 = chain_hash", 1, "version 1: its text_sha256"),
    ("chain_hash = text_sha256", 1, "version 1: its chain_hash"),
    ("created_at = '2020-01-01 00:00:00.000000'", 1, "version 1: its created_at"),
    ("metadata_json = '{\"a\":1}'", 1, "version 1: it has metadata or a key"),
    ("idempotency_key = 'k'", 1, "version 1: it has metadata or a key"),
    ("erased_by = NULL", 1, "version 1: version 4 erased it, but it is not marked"),
    ("erased_by = 3", 1, "version 1: it is marked as erased by version 3, and version 4 erased it"),
    ("erased_by = 4", 2, "version 2: it is marked as erased by version 4, and no version erases it"),
    ("erased_by = 4, text = ''", 2, "version 2: it is marked"),
    ("forgets = 2", 4, "version 1: it is marked as erased by version 4, and no version erases it"),
    ("span_end = 30", 4, "version 4: its fields"),
    ("metadata_json = '{}'", 4, "version 1: its"),
    ("metadata_json = 'no JSON'", 4, "version 1: its"),
]


def test_verify_names_an_altered_erasure(filled: Log, database: Database, erasures: Erasures) -> None:
    erasures.erase("alice", 1, span=HOME, expected_version=3)
    with database.write() as connection:
        alice = get_memory(connection, "alice")
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER versions_no_update")
            connection.exec_driver_sql("PRAGMA ignore_check_constraints=ON")
        else:
            connection.exec_driver_sql("DROP TRIGGER versions_no_change ON versions")
        for change, number, named in ALTERED:
            savepoint = connection.begin_nested()
            where = f"WHERE memory_id = {alice.id} AND number = {number}"
            connection.exec_driver_sql(f"UPDATE versions SET {change} {where}")
            with pytest.raises(IntegrityError, match=named):
                verify_rows(connection, "alice", alice.id, alice.head_number, alice.head_hash)
            savepoint.rollback()
        assert verify_rows(connection, "alice", alice.id, alice.head_number, alice.head_hash) == 4


@pytest.mark.parametrize(
    ("memory", "change"),
    [
        ("alice", "text = replace(text, 'cat', 'dog')"),
        ("fork", "text = replace(text, 'cat', 'dog')"),
        ("alice", "metadata_json = '{}'"),
        ("alice", "parent_hash = chain_hash"),
    ],
)
def test_an_erasure_vouches_for_no_row_that_was_altered(
    filled: Log, database: Database, erasures: Erasures, tamper: Callable[..., None], change: str, memory: str
) -> None:
    with database.read() as connection:
        where = f"memory_id = {get_memory(connection, memory).id} AND number = 1"
    tamper(f"UPDATE versions SET {change} WHERE {where}")
    for arguments in ({"text": "Zytgloggelaube"}, {}):
        with pytest.raises(IntegrityError, match=f"'{memory}', version 1: its"):
            erasures.erase("alice", 1, **arguments)
    assert [filled.head_number(name) for name in ("alice", "before", "fork")] == [3, 1, 3]


def test_an_erasure_vouches_for_no_rest_that_was_altered(
    filled: Log, database: Database, erasures: Erasures, tamper: Callable[..., None]
) -> None:
    erasures.erase("alice", 1, text="Zytgloggelaube")
    tamper("UPDATE versions SET text = 'Alice lives in Rome.' WHERE number = 1")
    with pytest.raises(IntegrityError, match="version 1: its left_sha256"):
        erasures.erase("alice", 1, text="Rome")
    tamper("DELETE FROM versions WHERE number = 2")
    with pytest.raises(IntegrityError, match="version 2: it is missing"):
        erasures.erase("alice", 3)


def test_time_never_falls_in_a_fork_that_is_erased(database: Database, artifacts: ArtifactStore) -> None:
    moments: list[datetime] = [datetime(2099, 1, 1, tzinfo=UTC)]
    clock: Callable[[], datetime] = lambda: moments[-1]  # noqa: E731
    log = Log(database, clock=clock)
    log.append("alice", BERN)
    log.fork("alice", "fork")
    moments.append(moments[0] - timedelta(days=1))
    certificate: ErasureCertificate = Erasures(database, artifacts, clock=clock).erase("alice", 1)
    assert certificate.erased_at == moments[0]
    assert log.version("fork", 2).created_at == moments[0]


def test_a_row_that_only_looks_like_a_copy_is_left_alone(filled: Log, erasures: Erasures) -> None:
    filled.append("bob", BERN)
    erasures.erase("alice", 1)
    assert filled.version("bob", 1).text == BERN
    verified(filled, alice=4, bob=1)


def test_the_table_refuses_marks_and_spans_where_none_can_be(filled: Log, database: Database) -> None:
    columns = "text, text_sha256, metadata_json, created_at, parent_hash, chain_hash"
    for fields, name in (
        ("'update', 0, 1, NULL", "ck_versions_span"),
        ("'update', NULL, NULL, 2", "ck_versions_erased_by"),
    ):
        insert = f"INSERT INTO versions (memory_id, number, kind, span_start, span_end, erased_by, {columns}) "
        insert += f"SELECT memory_id, 9, {fields}, {columns} FROM versions WHERE number = 3 AND memory_id = 1"
        with pytest.raises(sa.exc.IntegrityError, match=name), database.write() as connection:
            connection.exec_driver_sql(insert)


def test_no_fork_that_is_made_meanwhile_keeps_the_text(filled: Log, erasures: Erasures) -> None:
    """Forks and appends in other threads while a part, then the whole, is erased."""
    failed: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for number in range(6):
                filled.fork("alice", f"fork {worker} {number}", at=1 + number % 3)
                filled.append("alice", f"Text {number} of {worker}.")
        except StoreError as err:
            failed.append(err)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(3)]
    for thread in threads:
        thread.start()
    erasures.erase("alice", 1, text="Zytgloggelaube")
    erasures.erase("alice", 1)
    for thread in threads:
        thread.join()

    assert failed == []
    assert len(filled.names()) == 21
    for name in filled.names():
        assert filled.version(name, 1).text == ""
        assert filled.verify(name) == filled.head_number(name)
