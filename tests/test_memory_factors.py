"""What a ParametricMemory derives from its log: factors, adapters, artifacts, and several units as one evidence."""

import logging
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.errors import InvalidInput
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.base import BaseModel
from plume_memory.records import NOTICE, Answer
from plume_memory.testing import HashParameterizer, tiny_base, tiny_engine

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


# --- what is derived ------------------------------------------------------------------------------


@pytest.mark.parametrize("chunking", ["near_equal", "append_only"])
def test_one_hypernetwork_pass_per_update(tmp_path: Path, chunking: str) -> None:
    """H(C_old) of a step is H(C_full) of the step before: it comes from the cache."""
    engine = tiny_engine(policy=AnswerPolicy(chunking=chunking, max_new_tokens=4))  # type: ignore[arg-type]
    assert isinstance(engine.parameterizer, HashParameterizer)
    with opened(tmp_path, engine=engine) as memory:
        for i in range(4):
            memory.update(f"Update {i}.")
            assert len(engine.parameterizer.calls) == i + 1


def test_an_additive_parameterizer_sees_each_unit_once_and_asks_need_none(tmp_path: Path) -> None:
    engine = tiny_engine(additive=True)
    assert isinstance(engine.parameterizer, HashParameterizer)
    with opened(tmp_path, engine=engine) as memory:
        memory.update("Alice lives in Bern.")
        memory.update("Bob has a boat.")
        made = list(engine.parameterizer.calls)
        memory.ask("Who has a boat?")

    assert made == ["Alice lives in Bern.", "Bob has a boat."] == engine.parameterizer.calls


@pytest.mark.parametrize(("additive", "bias"), [(False, False), (False, True), (True, True)])
def test_the_global_adapter_is_the_methods_matrix(tmp_path: Path, additive: bool, bias: bool) -> None:
    """α ΔW_full + β (ΔW_full − ΔW_old), the bias in both; α = 1, β = 0.75."""
    engine = tiny_engine(additive=additive, bias=bias)
    parameterizer = engine.parameterizer
    assert isinstance(parameterizer, HashParameterizer)
    with opened(tmp_path, engine=engine) as memory:
        memory.update("One.")
        memory.update("Two.")
        found = memory.at().global_adapter
        texts = memory.at().text, "One."

    def whole(text: str) -> torch.Tensor:
        parts = text.split(f"\n{NOTICE}\n") if additive else [text]
        total = sum(f.delta("mlp.down_proj", 1) for f in parameterizer.parameterize(parts))
        assert isinstance(total, torch.Tensor)
        return total + (parameterizer.bias.delta("mlp.down_proj", 1) if parameterizer.bias else 0)

    assert found is not None
    full, old = whole(texts[0]), whole(texts[1])
    torch.testing.assert_close(found.delta("mlp.down_proj", 1), full + 0.75 * (full - old), atol=1e-5, rtol=1e-5)


def test_threads_that_need_the_same_factors_derive_them_once(tmp_path: Path) -> None:
    engine = tiny_engine()
    assert isinstance(engine.parameterizer, HashParameterizer)
    with opened(tmp_path, engine=engine) as memory:
        memory.update("Alice lives in Bern.", derive=False)
        threads = [threading.Thread(target=memory.ask, args=(QUESTION,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert engine.parameterizer.calls == ["Alice lives in Bern."]


class SlowParameterizer(HashParameterizer):
    """Waits until it is let go."""

    gate = threading.Event()

    def parameterize(self, texts: Sequence[str]) -> list[LoraFactors]:
        assert self.gate.wait(30)
        return super().parameterize(texts)


def test_a_long_derivation_holds_up_no_other_memory(tmp_path: Path) -> None:
    base = tiny_base("llama")
    slow = Engine(base, SlowParameterizer(base), AnswerPolicy(max_new_tokens=4))
    with opened(tmp_path, "slow", slow) as busy, opened(tmp_path, "quick") as quick:
        quick.update("Bob has a boat.", derive=False)
        thread = threading.Thread(target=busy.update, args=("Alice lives in Bern.",))
        thread.start()
        answered = quick.ask("Who has a boat?")
        assert thread.is_alive(), "the derivation was still under way"
        SlowParameterizer.gate.set()
        thread.join()

    assert answered.version == 1


def test_factors_made_in_one_dtype_are_not_read_in_another() -> None:
    engine = tiny_engine()
    narrow = tiny_engine().base.model.to(torch.bfloat16)
    base = BaseModel.wrap(narrow, engine.base.tokenizer, name=engine.base.name, fingerprint=engine.base.fingerprint)
    half = Engine(base, HashParameterizer(base), engine.policy)

    assert engine.encoder.factors_key("x") != half.encoder.factors_key("x")
    assert engine.fingerprint != half.fingerprint


def test_a_crash_between_append_and_derivation_loses_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.update("Alice lives in Bern.", derive=False)
    (tmp_path / "other").mkdir()
    with opened(tmp_path / "other") as other:
        other.update("Alice lives in Bern.")
        expected = said(other.ask(QUESTION))

    with opened(tmp_path, engine=tiny_engine()) as memory:
        assert said(memory.ask(QUESTION)) == expected


def artifact_files(folder: Path) -> list[Path]:
    return [p for p in (folder / "log.db.artifacts").rglob("*") if p.is_file()]


@pytest.mark.parametrize("harm", ["delete", "truncate", "flip"])
def test_lost_or_damaged_artifacts_are_rebuilt_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    with opened(tmp_path) as memory:
        memory.update("Alice lives in Bern.")
        memory.update("Alice lives in Zurich.")
        expected = said(memory.ask(QUESTION))
    assert artifact_files(tmp_path)
    for file in artifact_files(tmp_path):
        content = file.read_bytes()
        file.chmod(0o644)
        if harm == "delete":
            file.unlink()
        else:
            file.write_bytes(content[: len(content) // 2] if harm == "truncate" else content[:-1] + b"\x01")

    with caplog.at_level(logging.WARNING), opened(tmp_path, engine=tiny_engine()) as memory:
        assert said(memory.ask(QUESTION)) == expected

    assert "Rebuilding factors from the log" in caplog.text


def test_rebuild_gives_the_same_answers_and_verify_counts(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.")
    memory.update("Alice lives in Zurich.")
    expected = said(memory.ask(QUESTION))

    assert memory.rebuild() == 3, "the history in one window, and two units of evidence"
    assert said(memory.ask(QUESTION)) == expected
    assert memory.verify().versions == 2


def test_a_memory_file_copied_to_another_place_answers_the_same(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.update("Alice lives in Bern.")
        memory.update("Alice lives in Zurich.")
        expected = said(memory.ask(QUESTION))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(tmp_path / "log.db", elsewhere / "log.db")  # the log alone, without the artifacts

    with opened(elsewhere, engine=tiny_engine()) as memory:
        assert said(memory.ask(QUESTION)) == expected
        assert memory.verify().versions == 2


def test_compiled_evidence_works_without_a_parameterizer_and_is_shared_by_versions(tmp_path: Path) -> None:
    engine = Engine(tiny_base("qwen3"), None)
    with opened(tmp_path, engine=engine) as memory:
        memory.update("Alice lives in Bern.")
        first = memory.ask("Alice?")
        made = len(artifact_files(tmp_path))
        memory.update("Bob has a boat.")
        second = memory.ask("Alice?")

    assert first.evidence is not None
    assert second.evidence is not None
    assert said(first) == said(second)
    assert len(artifact_files(tmp_path)) == made == 1
    assert first.mean_weight > 0


def test_an_adapter_as_evidence_needs_a_parameterizer() -> None:
    with pytest.raises(InvalidInput, match="needs a parameterizer"):
        Engine(tiny_base("llama"), None, AnswerPolicy())


# --- beyond the paper: several units, ranked by the reader ----------------------------------------


FACTS = ("Alice lives in Bern.", "Bob has a boat.", "Where Alice lives there is a lake.", "Carol is ill.")


def beyond(**options: object) -> Engine:
    near = {} if options.get("retrieval") == "reader" else {"delta": 0.2}
    return tiny_engine(policy=AnswerPolicy(max_new_tokens=4, unit_tokens=64, **near, **options))  # type: ignore[arg-type]


def told(memory: ParametricMemory, texts: Sequence[str] = FACTS) -> ParametricMemory:
    for text in texts:
        memory.update(text)
    return memory


def test_an_answer_names_its_one_unit(memory: ParametricMemory) -> None:
    assert memory.ask(QUESTION).evidence_units == ()
    answer = told(memory).ask(QUESTION)

    assert answer.evidence_units == (answer.evidence,) == tuple(memory.route(QUESTION))


@pytest.mark.parametrize("retrieval", ["lexical", "reader"])
@pytest.mark.parametrize("evidence", ["adapter", "states", "both"])
def test_several_units_are_selected_together_in_temporal_order(tmp_path: Path, retrieval: str, evidence: str) -> None:
    engine = beyond(evidence_units=3, retrieval=retrieval, evidence=evidence)
    with opened(tmp_path, engine=engine) as memory:
        answer = told(memory).ask(QUESTION)
        streamed = list(memory.stream(QUESTION))[-1].answer
        together = memory.ask_many([QUESTION, "Who has a boat?"])[0]
        routed = [one for one in memory.route(QUESTION, k=9) if not one.superseded][:3]
        past = memory.at(version=2).ask(QUESTION)

    assert answer.evidence == routed[0]
    assert answer.evidence_units == tuple(sorted(routed, key=lambda one: one.unit.position))
    assert streamed is not None
    assert (said(streamed), streamed.evidence_units) == (said(answer), answer.evidence_units)
    assert (together.text, together.evidence_units) == (answer.text, answer.evidence_units)
    assert [one.unit.text for one in past.evidence_units] == list(FACTS[:2]), "there are no more at that version"


def test_joined_units_are_written_once_and_nothing_of_them_is_stored(tmp_path: Path) -> None:
    engine = beyond(evidence_units=2)
    assert isinstance(engine.parameterizer, HashParameterizer)
    with opened(tmp_path, engine=engine) as memory:
        told(memory)
        files, made = artifact_files(tmp_path), list(engine.parameterizer.calls)
        first = memory.ask(QUESTION)
        memory.ask(QUESTION)

        assert [one.unit.text for one in first.evidence_units] == [FACTS[0], FACTS[2]]
        assert engine.parameterizer.calls[len(made) :] == [f"{FACTS[0]} {FACTS[2]}"]
        assert artifact_files(tmp_path) == files

        memory.rebuild()
        assert said(memory.ask(QUESTION)) == said(first)
        assert engine.parameterizer.calls.count(f"{FACTS[0]} {FACTS[2]}") == 2, "made anew after the rebuild"


def test_after_a_forget_no_evidence_of_several_units_holds_the_text(tmp_path: Path) -> None:
    engine = beyond(evidence_units=3, retrieval="reader")
    with opened(tmp_path, engine=engine) as memory, opened(tmp_path, "never told", engine) as other:
        before = told(memory).ask(QUESTION)
        told(other, (FACTS[0], *FACTS[2:]))

        memory.forget(2)
        answer, expected = memory.ask(QUESTION), other.ask(QUESTION)

        assert said(answer) == said(expected)
        assert FACTS[1] not in [u.unit.text for u in answer.evidence_units]
        assert [u.score for u in answer.evidence_units] == [u.score for u in expected.evidence_units]
        assert said(memory.at(version=4).ask(QUESTION)) == said(before)


def test_stored_factors_are_found_by_an_engine_of_other_routing(tmp_path: Path) -> None:
    with opened(tmp_path, engine=tiny_engine(additive=True)) as memory:
        told(memory)
    engine = tiny_engine(additive=True, policy=beyond(retrieval="reader", evidence_units=2).policy)
    assert isinstance(engine.parameterizer, HashParameterizer)
    with opened(tmp_path, engine=engine) as memory:
        answer = memory.ask(QUESTION)

    assert len(answer.evidence_units) == 2
    assert engine.parameterizer.calls == []


def test_every_unit_is_listed_where_a_reader_ranks(tmp_path: Path) -> None:
    with opened(tmp_path, engine=beyond(retrieval="reader")) as memory:
        assert memory.route(QUESTION) == []
        assert memory.update(FACTS[0]).number == memory.route(QUESTION)[0].unit.version
        told(memory, FACTS[1:])
        listed = memory.route(QUESTION, k=99)

        assert sorted(one.unit.text for one in listed) == sorted(FACTS)
        assert listed[:2] == memory.route(QUESTION, k=2)
        assert all(0 < one.score < 1 for one in listed)
        assert memory.at(version=1).route(QUESTION, k=9) == [memory.at(version=1).route(QUESTION)[0]]
        assert memory.route(" ")[0].unit.text == FACTS[-1]
        with pytest.raises(InvalidInput, match="half a character"):
            memory.route("half \ud83d a character")
        with pytest.raises(InvalidInput, match="k must be at least 1"):
            memory.route(QUESTION, k=0)
