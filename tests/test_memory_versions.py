"""The versions of a ParametricMemory: pinned, rolled back, forgotten, forked and compared."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.answering.pinned import Snapshot
from plume_memory.errors import (
    ArtifactError,
    IdempotencyConflict,
    InvalidInput,
    MemoryExists,
    VersionConflict,
    VersionNotFound,
)
from plume_memory.records import Answer
from plume_memory.store import log
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()
QUESTION = "Where does Alice live?"


def opened(folder: Path, name: str = "alice", engine: Engine = ENGINE) -> ParametricMemory:
    return ParametricMemory.open(name, url=f"sqlite:///{folder / 'log.db'}", engine=engine)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ParametricMemory]:
    with opened(tmp_path) as made:
        yield made


def said(answer: Answer) -> tuple[str, tuple[float, ...]]:
    return answer.text, tuple(token.js for token in answer.trace)


def test_an_older_version_answers_as_it_did(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.")
    first = memory.ask(QUESTION)
    after = datetime.now(UTC)
    memory.update("Alice lives in Zurich.")

    assert said(memory.at(version=1).ask(QUESTION)) == said(first)
    assert said(memory.at(time=after).ask(QUESTION)) == said(first)
    assert said(memory.ask(QUESTION)) != said(first)


def test_a_pinned_snapshot_is_not_changed_by_an_update_during_its_decode(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.")
    expected = memory.ask(QUESTION).text
    stream = memory.stream(QUESTION)
    pieces = [next(stream)]

    memory.update("Alice lives in Zurich.")  # neither waits for the open stream nor disturbs it
    pieces += list(stream)

    assert "".join(p.text for p in pieces) == expected
    assert pieces[-1].answer is not None
    assert pieces[-1].answer.version == 1
    assert memory.ask(QUESTION).version == 2


def test_threads_that_ask_while_others_update_each_see_exactly_one_version(memory: ParametricMemory) -> None:
    memory.update("Alice lives in place 1.")
    seen: list[Answer] = []

    def read() -> None:
        seen.extend(memory.ask(QUESTION) for _ in range(6))

    def write() -> None:
        for i in range(2, 8):
            memory.update(f"Alice lives in place {i}.")

    threads = [threading.Thread(target=read) for _ in range(3)] + [threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == 18
    for answer in seen:
        assert answer.text == memory.at(version=answer.version).ask(QUESTION).text


def test_a_rollback_appends_and_answers_as_the_restored_version(memory: ParametricMemory) -> None:
    for city in ("Bern", "Zurich", "Basel"):
        memory.update(f"Alice lives in {city}.")
    then = memory.at(version=2).ask(QUESTION)

    version = memory.rollback(to=2)

    assert (version.number, version.kind, version.restores) == (4, "rollback", 2)
    assert memory.ask(QUESTION).text == then.text
    memory.update("Alice lives in Chur.")
    assert [t.version for t in memory.text_at().transitions] == [1, 2, 5]
    assert [v.number for v in memory.history()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("gone", [1, 2, 3])
@pytest.mark.parametrize(
    ("additive", "chunking"), [(False, "near_equal"), (False, "append_only"), (True, "near_equal")]
)
def test_after_a_forget_nothing_is_made_of_the_text(tmp_path: Path, gone: int, additive: bool, chunking: str) -> None:
    """Answer, routing and adapter are those of a memory that was never told it."""
    settings = AnswerPolicy(chunking=chunking, max_new_tokens=4, unit_tokens=64)  # type: ignore[arg-type]
    engine = tiny_engine(additive=additive, policy=settings)
    texts = {number: f"Alice lives in {city}." for number, city in enumerate(("Bern", "Zurich", "Basel"), start=1)}
    with opened(tmp_path, engine=engine) as memory, opened(tmp_path, "never told", engine) as other:
        for number, text in texts.items():
            memory.update(text)
            if number != gone:
                other.update(text)
        before = said(memory.ask(QUESTION))

        version = memory.forget(gone, reason="Alice asked")

        assert (version.number, version.kind, version.forgets) == (4, "forget", gone)
        found, expected = memory.at(), other.at()
        assert said(found.ask(QUESTION)) == said(expected.ask(QUESTION)) != before
        assert [u.unit.text for u in found.route("Alice", k=9)] == [u.unit.text for u in expected.route("Alice", k=9)]
        assert found.global_adapter is not None
        assert expected.global_adapter is not None
        assert torch.equal(
            found.global_adapter.delta("mlp.down_proj", 1), expected.global_adapter.delta("mlp.down_proj", 1)
        )
        assert [t.version for t in memory.diff(3, 4).removed] == [gone]
        assert memory.rebuild() > 0
        assert said(memory.at(version=3).ask(QUESTION)) == before
        memory.rollback(to=3)
        assert said(memory.ask(QUESTION)) == before


def test_a_memory_whose_texts_are_all_forgotten_answers_like_an_empty_one(memory: ParametricMemory) -> None:
    empty = said(memory.ask(QUESTION))
    memory.update("Alice lives in Bern.")
    first = memory.forget(1, idempotency_key="k", expected_version=1)

    assert said(memory.ask(QUESTION)) == empty
    assert memory.route("Alice") == []
    assert memory.at().global_adapter is None
    assert memory.forget(1, idempotency_key="k") == first
    memory.update("Alice lives in Chur.")
    assert memory.route("Alice")[0].unit.version == 3
    assert memory.verify().versions == 3


def test_a_fork_goes_its_own_way(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.")
    memory.update("Alice lives in Zurich.")
    fork = memory.fork("what-if", at=1)
    fork.update("Alice lives in Rome.")

    assert [v.text for v in fork.history()] == ["Alice lives in Bern.", "Alice lives in Rome."]
    assert memory.version == 2
    assert fork.ask(QUESTION).memory == "what-if"
    with pytest.raises(MemoryExists):
        memory.fork("what-if")


def test_a_difference_names_what_came_and_what_went(memory: ParametricMemory) -> None:
    memory.update("One.")
    memory.update("Two.")
    memory.rollback(to=1)
    memory.update("Three.")

    found = memory.diff(2, 4)

    assert [t.text for t in found.removed] == ["Two."]
    assert [t.text for t in found.added] == ["Three."]


def test_versions_that_do_not_exist_are_refused(memory: ParametricMemory) -> None:
    memory.update("One.")
    for pin in ({"version": 2}, {"version": -1}, {"time": datetime.now(UTC) - timedelta(days=1)}):
        with pytest.raises(VersionNotFound):
            memory.at(**pin)  # type: ignore[arg-type]
    with pytest.raises(VersionNotFound):
        memory.rollback(to=9)
    with pytest.raises(VersionNotFound):
        memory.forget(9)
    with pytest.raises(InvalidInput):
        memory.at(version=1, time=datetime.now(UTC))


def test_expected_versions_and_idempotency_keys(memory: ParametricMemory) -> None:
    first = memory.update("One.", idempotency_key="a", expected_version=0)

    assert memory.update("One.", idempotency_key="a") == first
    with pytest.raises(IdempotencyConflict):
        memory.update("Other.", idempotency_key="a")
    with pytest.raises(VersionConflict, match="1"):
        memory.update("Two.", expected_version=0)
    assert memory.version == 1


def test_an_update_whose_factors_cannot_be_derived_is_in_the_log_and_says_so(
    memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise ArtifactError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(Snapshot, "derive", refuse)
        with pytest.raises(ArtifactError, match=r"in the log, as version 1: do not .* The disk is full\.$") as failed:
            memory.update("Alice lives in Bern.")
    assert isinstance(failed.value.__cause__, ArtifactError)
    assert memory.text_at().text == "Alice lives in Bern."
    memory.at().derive()


def test_a_verification_counts_and_hashes_one_log_whatever_is_appended_meanwhile(
    memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = memory.update("One.", derive=False)
    verify_rows = log.verify_rows

    def verify_and_append(*arguments: object) -> int:
        count: int = verify_rows(*arguments)  # type: ignore[arg-type]
        threads = threading.Thread(target=memory.update, args=("Two.",), kwargs={"derive": False})
        threads.start()
        threads.join()
        return count

    monkeypatch.setattr(log, "verify_rows", verify_and_append)
    found = memory.verify()

    assert (found.versions, found.head_hash) == (1, first.chain_hash)
    assert memory.version == 2


def test_a_rollback_sent_again_with_its_key_is_one(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.", derive=False)
    memory.update("Alice lives in Zurich.", derive=False)
    first = memory.rollback(to=1, idempotency_key="k1", expected_version=2)

    assert memory.rollback(to=1, idempotency_key="k1", expected_version=2) == first
    assert memory.version == 3
    with pytest.raises(IdempotencyConflict):
        memory.rollback(to=2, idempotency_key="k1")
    with pytest.raises(VersionConflict):
        memory.rollback(to=1, expected_version=2)


def test_the_history_goes_on_behind_a_version(memory: ParametricMemory) -> None:
    for n in range(5):
        memory.update(f"Alice has {n} boats.", derive=False)
    assert [one.number for one in memory.history(limit=2, after=0)] == [1, 2]
    assert [one.number for one in memory.history(limit=2, after=2)] == [3, 4]
    assert [one.number for one in memory.history(after=4)] == [5]
    assert memory.history(after=5) == []
