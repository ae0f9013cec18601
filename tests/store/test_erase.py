"""Erasing: the text is gone from every row that held it, in every fork, and the chain proves the rest."""

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from plume_memory.errors import (
    IdempotencyConflict,
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
from plume_memory.store.erasure import Erasures
from plume_memory.store.log import Log

DATABASES = ("sqlite", "postgresql")
BERN = "Alice lives in Bern, Zytgloggelaube 7. She has a cat."
HOME = (0, 38)


def refuse(*_: object) -> None:
    raise StoreUnavailable("repeat the call")


def said(log: Log, memory: str = "alice", version: int | None = None) -> list[str]:
    return [transition.text for transition in log.history(memory, version).transitions]


def verified(log: Log, **lengths: int) -> None:
    assert {name: log.verify(name) for name in lengths} == lengths


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


def test_a_reply_that_quotes_what_is_erased_is_named(filled: Log, erasures: Erasures) -> None:
    filled.append("alice", "I am back. Who owns the  billing service?")
    filled.append("alice", "Aisha", metadata={"plume": {"in_answer_to": "Who owns the billing service?"}})
    filled.append("alice", "Ghent", metadata={"plume": {"in_answer_to": "Where will the offsite be?"}})
    assert erasures.erase("alice", 4).still_said_by == (5,)


def test_the_certificate_is_json(filled: Log, erasures: Erasures) -> None:
    certificate = erasures.erase("alice", 1, span=HOME, expected_version=3)
    found = json.loads(certificate.to_json())
    assert found["erased"][0]["span"] == {"start": 0, "end": 38}
    assert found["erased_at"] == certificate.erased_at.isoformat()
    assert any("sha256" in limit for limit in found["limits"])
    assert "Zytgloggelaube" not in certificate.to_json()


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
