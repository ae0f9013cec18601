"""Erasure through ParametricMemory: nothing that answers holds the text any more, in this object or another."""

from pathlib import Path

import pytest

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.errors import InvalidInput, StoreUnavailable
from plume_memory.records import Answer, ErasureCertificate, History, Version
from plume_memory.testing import tiny_engine

QUESTION = "Where does Alice live?"
SECRET = "Alice lives at Zytgloggelaube 7."


def opened(folder: Path, name: str, engine: Engine) -> ParametricMemory:
    return ParametricMemory.open(name, url=f"sqlite:///{folder / 'log.db'}", engine=engine)


def said(answer: Answer) -> tuple[str, tuple[float, ...]]:
    return answer.text, tuple(token.js for token in answer.trace)


def artifact_names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "log.db.artifacts").rglob("*") if path.is_file()}


def test_forget_returns_a_version_and_with_erase_a_certificate(tmp_path: Path) -> None:
    with opened(tmp_path, "alice", tiny_engine()) as memory:
        memory.update(f"{SECRET} She has a cat.")
        version: Version = memory.forget(text="She has a cat.", reason="it ran away")
        certificate: ErasureCertificate = memory.forget(1, span=(0, len(SECRET)), erase=True, expected_version=2)

        assert version.metadata == {"reason": "it ran away"}
        assert (certificate.version, certificate.rebuilt) == (3, (3,))
        assert memory.text_at().transitions == ()
        assert memory.verify().versions == 3
        with pytest.raises(TypeError, match="reasons"):
            memory.forget(1, reasons="no such option")  # type: ignore[call-overload]


@pytest.mark.parametrize("target", [{"version": 2}, {"text": f" {SECRET}"}])
def test_after_an_erasure_every_reader_is_as_one_that_never_had_the_text(tmp_path: Path, target: dict) -> None:
    texts = ["Bob has a boat.", "Carol paints.", "Dora swims."]
    held = SECRET if "version" in target else f"Carol paints. {SECRET}"
    never = [texts[0], texts[2]] if "version" in target else texts
    engine = tiny_engine()
    (tmp_path / "never").mkdir()
    with opened(tmp_path / "never", "alice", engine) as memory:
        for text in never:
            memory.update(text)
        expected, route = said(memory.ask(QUESTION)), [(u.unit.text, u.score) for u in memory.route(QUESTION, k=9)]
    with opened(tmp_path, "alice", engine) as memory, opened(tmp_path, "alice", tiny_engine()) as other:
        for text in (texts[0], held, texts[2]):
            memory.update(text)
        fork = memory.fork("fork")
        for reader in (memory, other, fork):
            assert said(reader.at(version=3).ask(QUESTION)) != expected
        before = artifact_names(tmp_path)

        certificate = memory.forget(erase=True, **target)

        assert {text.memory for text in certificate.erased} == {"alice", "fork"}
        assert before == set(certificate.artifacts)
        for reader in (memory, other, fork):
            for version in (3, 4):
                assert said(reader.at(version=version).ask(QUESTION)) == expected
                assert SECRET not in reader.at(version=version).text
            assert [(u.unit.text, u.score) for u in reader.route(QUESTION, k=9)] == route
            assert reader.verify().versions == 4


def test_an_engine_lets_go_of_what_it_kept_of_the_place(tmp_path: Path) -> None:
    engine = tiny_engine(policy=AnswerPolicy(retrieval="reader", max_new_tokens=3))
    with opened(tmp_path, "alice", engine) as memory:
        memory.update(SECRET)
        memory.ask(QUESTION)
        assert engine.encoder.recent
        assert engine.reader._kept
        memory.erase(1, derive=False)
        assert not engine.encoder.recent
        assert not engine.reader._kept
        assert engine.segmenter._count_joined.cache_info().currsize == 0
        assert artifact_names(tmp_path) == set()


@pytest.mark.parametrize("evidence", ["adapter", "states", "both"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_a_pinned_version_derives_after_an_erasure_stays_nowhere(
    tmp_path: Path, evidence: str, elsewhere: bool
) -> None:
    """Its holder still reads the text it was pinned with; the engine, which outlives it, keeps nothing of it."""
    policy = AnswerPolicy(max_new_tokens=3, retrieval="reader", evidence_units=2, evidence=evidence)  # type: ignore[arg-type]
    engine = tiny_engine(policy=policy)
    with opened(tmp_path, "alice", engine) as memory:
        memory.update("Bob has a boat.", derive=False)
        memory.update(SECRET, derive=False)
        pinned = memory.at(version=2)
        if elsewhere:
            with opened(tmp_path, "alice", tiny_engine()) as other:
                other.erase(2, derive=False)
        else:
            memory.erase(2, derive=False)

        assert len(pinned.ask(QUESTION).evidence_units) > 0

        assert not engine.encoder.recent
        assert not engine.reader._kept
        assert artifact_names(tmp_path) == set()


def test_an_erasure_loads_no_model_when_it_need_not_derive(tmp_path: Path) -> None:
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}") as memory:
        memory.update(SECRET, derive=False)
        assert memory.erase(text="Zytgloggelaube 7", derive=False).rebuilt == ()
        assert memory.loaded_engine is None
        assert memory.text_at().text == "Alice lives at."


def test_an_erasure_that_nobody_could_be_told_of_is_done_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("the line is cut")

    monkeypatch.setattr("plume_memory.memory.announce", away)
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}") as memory:
        memory.update("Alice lives in Bern.", derive=False)
        certificate = memory.erase(1, derive=False)
        assert certificate.limits[-1] == "Other processes could not be told: the line is cut"
        assert "Bern" not in memory.text_at().text


def test_what_is_refused_leaves_the_memory_as_it_was(tmp_path: Path) -> None:
    with opened(tmp_path, "alice", tiny_engine()) as memory:
        memory.update(SECRET)
        before, artifacts = said(memory.ask(QUESTION)), artifact_names(tmp_path)
        with pytest.raises(InvalidInput, match="not in the updates"):
            memory.forget(text="Bern", erase=True)
        assert (said(memory.ask(QUESTION)), artifact_names(tmp_path)) == (before, artifacts)


@pytest.mark.parametrize("moment", ["built", "written"])
def test_what_is_being_derived_while_its_text_is_erased_is_given_out_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    with opened(tmp_path, "alice", tiny_engine()) as memory:
        memory.update(SECRET, derive=False)
        cache = memory._pinned()._cache(0)
        put = memory._artifacts.put

        def erase() -> None:
            memory.erase(1, derive=False)

        def put_and_erase(content: bytes) -> str:
            if moment == "written":
                erase()
            return put(content)

        monkeypatch.setattr(memory._artifacts, "put", put_and_erase)

        assert cache.get("ab" * 32) is None
        if moment == "built":
            erase()
        cache.put("ab" * 32, "factors", b"derived from it")
        assert not cache.holds("ab" * 32)
        assert artifact_names(tmp_path) == set()


def test_a_snapshot_that_was_made_across_an_erasure_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread has read the history when another erases, and pins its own before the first is done."""
    with opened(tmp_path, "alice", tiny_engine()) as memory:
        memory.update("Bob has a boat.", derive=False)
        memory.update(SECRET, derive=False)
        pinned = memory._pinned()
        history = memory._log.history

        def history_then_erasure(name: str, number: int | None = None) -> History:
            found = history(name, number)
            monkeypatch.setattr(memory._log, "history", history)
            with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}") as other:
                other.erase(2, derive=False)
            assert SECRET not in pinned.at(3).text  # the other thread
            return found

        monkeypatch.setattr(memory._log, "history", history_then_erasure)

        pinned.at(2)

        assert pinned._last_erasure == 3
        for number in (2, 3):
            assert SECRET not in pinned.at(number).text
        assert [unit.unit.text for unit in pinned.at(3).route(QUESTION, k=9)] == ["Bob has a boat."]


def test_what_was_being_derived_when_a_place_was_released_is_given_out_and_not_remembered(tmp_path: Path) -> None:
    engine = tiny_engine()
    with opened(tmp_path, "alice", engine) as memory:
        memory.update(SECRET, derive=False)
        cache = memory._pinned()._cache(0)
        made, recent = engine.encoder.factors(SECRET, cache), engine.encoder.recent
        engine.release(cache.place)

        before = recent.epoch(cache)
        engine.release(cache.place)
        recent.put(cache, "key", made, epoch=before)
        assert not recent
        recent.put(cache, "key", made, epoch=recent.epoch(cache))
        assert recent.get(cache, "key") is made
