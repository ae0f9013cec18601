"""What an update replaces, through the memory: judged, decided by the caller, taken back, erased, built again."""

from pathlib import Path

import pytest

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.errors import InvalidInput, VersionNotFound
from plume_memory.superseding import Superseding
from plume_memory.testing import tiny_engine
from tests.judges import Says

BERN, BOB, ZURICH, ROME = "Alice lives in Bern.", "Bob sails.", "Alice moved to Zurich.", "Alice went on to Rome."


@pytest.fixture
def judge() -> Says:
    return Says()


@pytest.fixture
def engine(judge: Says) -> Engine:
    made = tiny_engine(policy=AnswerPolicy(retrieval="reader", evidence_units=3, supersedes_at=0.9))
    made.superseding = Superseding(made.base, judge, 0.9)  # type: ignore[arg-type]
    return made


@pytest.fixture
def memory(engine: Engine, tmp_path: Path) -> ParametricMemory:
    return ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine)


def told(memory: ParametricMemory, *texts: str) -> None:
    for text in texts:
        memory.update(text)


def replaced(memory: ParametricMemory, version: int | None = None) -> list[tuple[str, str]]:
    return [(one.earlier.text, one.later.text) for one in memory.replacements(version)]


def holding(memory: ParametricMemory, version: int | None = None) -> set[str]:
    """The units that an answer can be from."""
    routed = memory.at(version=version).route("Where does Alice live?", k=99)
    return {one.unit.text for one in routed if not one.superseded}


def test_what_was_replaced_is_no_evidence_and_each_version_knows_what_held_then(memory: ParametricMemory) -> None:
    told(memory, BERN, BOB, ZURICH, ROME)
    assert replaced(memory) == [(BERN, ZURICH), (BERN, ROME), (ZURICH, ROME)]
    assert holding(memory) == {BOB, ROME}
    assert [one.unit.text for one in memory.ask("Where does Alice live?", max_new_tokens=2).evidence_units] == [
        BOB,
        ROME,
    ]
    assert holding(memory, 1) == {BERN}
    assert holding(memory, 3) == {BOB, ZURICH}
    assert replaced(memory, 2) == []


def test_a_pair_is_judged_once_also_by_another_object_of_another_time(
    memory: ParametricMemory, engine: Engine, judge: Says, tmp_path: Path
) -> None:
    told(memory, BERN, BOB, ZURICH)
    assert sorted(judge.asked) == sorted([(BERN, BOB), (BERN, ZURICH), (BOB, ZURICH)])
    again = ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine)
    assert replaced(again) == replaced(memory)
    assert len(judge.asked) == 3, "found among what is derived"


def test_histories_that_nobody_asked_of_are_judged_together(memory: ParametricMemory, judge: Says) -> None:
    for text in (BERN, BOB, ZURICH):
        memory.update(text, derive=False)
        memory.at()
    assert judge.asked == []
    assert replaced(memory) == [(BERN, ZURICH)]


def test_one_statement_an_update_or_all_in_one_is_the_same_for_whoever_is_told_of_once(
    memory: ParametricMemory,
) -> None:
    told(memory, f"{BERN} {BOB}", "Carol paints.")
    assert replaced(memory) == []
    told(memory, f"{ZURICH} Bob rows.")
    assert replaced(memory) == [(f"{BERN} ", f"{ZURICH} "), (BOB, "Bob rows.")]


def test_what_was_replaced_is_no_note_unless_history_is_asked_for(memory: ParametricMemory) -> None:
    told(memory, BERN, BOB, ZURICH)
    assert {note.text for note in memory.recall("Where does Alice live?").notes} == {BOB, ZURICH}
    found = memory.recall("Where does Alice live?", history=True).notes
    assert {note.text: note.is_current for note in found} == {BERN: False, BOB: True, ZURICH: True}
    assert BERN not in memory.profile().text


# --- the caller's word ----------------------------------------------------------------------------


def test_the_caller_can_say_that_nothing_is_replaced(memory: ParametricMemory) -> None:
    told(memory, BERN, BOB)
    memory.update(ZURICH, keep=True)
    assert holding(memory) == {BERN, BOB, ZURICH}
    memory.update(ROME, keep=[1])
    assert holding(memory) == {BERN, BOB, ROME}


def test_the_caller_can_say_what_is_replaced(memory: ParametricMemory) -> None:
    told(memory, BERN, BOB)
    version = memory.update("They sold the boat.", replaces=[2], metadata={"from": "chat"})
    (one,) = memory.replacements()
    assert (one.earlier.text, one.later.text, one.probability, one.by_caller) == (BOB, "They sold the boat.", 1.0, True)
    assert version.metadata == {"from": "chat", "plume": {"keeps": [], "replaces": [2]}}
    assert memory.verify().versions == 3, "the caller's word is in the chain"
    assert memory.at(version=2).replacements == ()


def test_the_callers_word_counts_without_a_judge_and_by_words_too(tmp_path: Path) -> None:
    with ParametricMemory.open("a", url=f"sqlite:///{tmp_path / 'log.db'}", engine=tiny_engine()) as memory:
        told(memory, BERN)
        memory.update(ZURICH, replaces=[1])
        assert holding(memory) == {ZURICH}
        evidence = memory.ask("Where does Alice live? Bern?", max_new_tokens=2).evidence
        assert evidence is not None
        assert evidence.unit.text == ZURICH


def test_what_cannot_be_replaced_or_kept_is_refused_and_nothing_is_written(memory: ParametricMemory) -> None:
    told(memory, BERN, BOB)
    memory.forget(2)
    with pytest.raises(VersionNotFound):
        memory.update(ZURICH, replaces=[9])
    with pytest.raises(InvalidInput, match="Version 3 is a forget, which has no text"):
        memory.update(ZURICH, keep=[3])
    with pytest.raises(InvalidInput, match="Version 1 is in `replaces` and in `keep`"):
        memory.update(ZURICH, replaces=[1], keep=[1])
    with pytest.raises(InvalidInput, match="name versions by number, got 'Alice'"):
        memory.update(ZURICH, replaces=["Alice"])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="an entry 'plume'"):
        memory.update(ZURICH, metadata={"plume": {}})
    assert memory.version == 3


# --- what becomes of it ---------------------------------------------------------------------------


def test_what_replaced_it_is_forgotten_and_it_holds_again(memory: ParametricMemory) -> None:
    told(memory, BERN, BOB, ZURICH)
    memory.forget(3)
    assert holding(memory) == {BERN, BOB}
    memory.rollback(to=3)
    assert holding(memory) == {BOB, ZURICH}


def test_a_fork_knows_what_was_replaced(memory: ParametricMemory) -> None:
    told(memory, BERN, ZURICH)
    memory.update(BOB, keep=True)
    assert replaced(memory.fork("copy")) == [(BERN, ZURICH)]


def test_an_erasure_reaches_the_verdicts(memory: ParametricMemory, judge: Says, tmp_path: Path) -> None:
    told(memory, BERN, BOB, ZURICH)
    before = artifacts(tmp_path)
    certificate = memory.forget(3, erase=True)
    gone = before - artifacts(tmp_path)
    assert len(gone) >= 2, "the verdicts of both later updates are gone with what was made of their texts"
    assert set(certificate.artifacts) >= {name.partition(".")[0] for name in gone}
    assert replaced(memory) == []
    assert not any(ZURICH in pair for pair in judge.asked[3:])


def test_what_is_rebuilt_is_judged_anew(memory: ParametricMemory, judge: Says) -> None:
    told(memory, BERN, ZURICH)
    asked = len(judge.asked)
    memory.rebuild()
    assert len(judge.asked) == 2 * asked
    assert replaced(memory) == [(BERN, ZURICH)]


def artifacts(folder: Path) -> set[str]:
    return {path.name for path in (folder / "log.db.artifacts").rglob("*") if path.is_file()}
