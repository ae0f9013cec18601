"""ParametricMemory on a random model and a real database: what holds whatever the model says."""

import logging
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch

from plume_memory import Engine, MethodSettings, ParametricMemory
from plume_memory.errors import (
    ArtifactError,
    IdempotencyConflict,
    InvalidInput,
    MemoryClosed,
    MemoryExists,
    MemoryNotFound,
    VersionConflict,
    VersionNotFound,
)
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.files import load_factors
from plume_memory.records import NOTICE, Answer
from plume_memory.snapshot import Snapshot
from plume_memory.store import log
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


# --- what an answer is made of ------------------------------------------------------------------


def test_an_empty_memory_answers_like_the_bare_model(memory: ParametricMemory) -> None:
    answer = memory.ask(QUESTION)

    ids = torch.tensor([ENGINE.base.chat.prompt_ids(QUESTION)])
    with torch.no_grad():
        first = int(ENGINE.base.model(input_ids=ids).logits[0, -1].argmax())
    assert (answer.version, answer.evidence) == (0, None)
    assert answer.trace[0].token_id == first


def test_an_update_changes_the_answer_and_names_its_evidence(memory: ParametricMemory) -> None:
    before = memory.ask(QUESTION)
    assert memory.update("Alice lives in Bern.").number == 1
    memory.update("Bob has a boat.")

    answer = memory.ask(QUESTION)

    assert said(answer) != said(before)
    assert answer.version == 2
    assert answer.evidence is not None
    assert (answer.evidence.unit.version, answer.evidence.unit.text) == (1, "Alice lives in Bern.")
    assert all(0 <= token.js <= 0.694 and 0 <= token.weight < 1 for token in answer.trace)


def test_the_prompt_holds_the_question_only(memory: ParametricMemory) -> None:
    empty = memory.ask(QUESTION).usage.prompt_tokens
    memory.update("Alice lives in Bern. " * 30)

    assert memory.ask(QUESTION).usage.prompt_tokens == empty


def test_the_history_is_joined_by_one_notice_per_transition(memory: ParametricMemory) -> None:
    memory.update("One.")
    memory.update("Two.")

    assert memory.at().text == f"One.\n{NOTICE}\nTwo."


def test_the_same_log_gives_the_same_answers_anywhere(tmp_path: Path) -> None:
    answers = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with opened(tmp_path / name, engine=tiny_engine()) as memory:
            memory.update("Alice lives in Bern.")
            memory.update("Alice lives in Zurich.")
            answers.append(said(memory.ask(QUESTION)))

    assert answers[0] == answers[1]


def test_a_batch_of_questions_gives_the_answers_of_each_alone(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern. Bob has a boat.")
    questions = [QUESTION, "Who has a boat?", "What?"]

    together = memory.ask_many(questions)

    assert [a.text for a in together] == [memory.ask(q).text for q in questions]


def test_a_stream_joins_to_the_answer_and_carries_it_last(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.")

    chunks = list(memory.stream(QUESTION))

    assert "".join(c.text for c in chunks) == memory.ask(QUESTION).text
    assert [c.answer is None for c in chunks] == [True] * (len(chunks) - 1) + [False]


# --- inputs at the edge -------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u2003"])
def test_an_empty_update_is_refused_and_nothing_is_written(memory: ParametricMemory, text: str) -> None:
    with pytest.raises(InvalidInput):
        memory.update(text)

    assert memory.version == 0


@pytest.mark.parametrize("text", ["x", "?", "艾丽丝住在苏黎世。", "Алиса живёт в Цюрихе.", "👩‍🚀", "…"])
def test_any_other_text_is_kept_and_can_be_asked_about(memory: ParametricMemory, text: str) -> None:
    memory.update(text)

    answer = memory.ask(text)
    assert answer.evidence is not None
    assert answer.evidence.unit.text == text
    assert memory.history()[0].text == text


@pytest.mark.parametrize("chunking", ["near_equal", "append_only"])
def test_a_text_beyond_8192_tokens_is_kept_whole(tmp_path: Path, chunking: str) -> None:
    engine = tiny_engine(settings=MethodSettings(chunking=chunking, max_new_tokens=4))  # type: ignore[arg-type]
    long = "".join(f"Fact {i} is about item {i * 7}.\n\n" for i in range(400))
    assert engine.count_tokens(long) > 8192
    with opened(tmp_path, engine=engine) as memory:
        memory.update(long)

        answer = memory.ask("Which item is fact 321 about?")

    assert answer.evidence is not None
    assert "Fact 321 " in answer.evidence.unit.text
    assert memory._closed


def test_an_update_identical_to_the_last_is_a_version_of_its_own(memory: ParametricMemory) -> None:
    numbers = [memory.update("Same.").number for _ in range(3)]

    assert numbers == [1, 2, 3]
    assert memory.at().text.count(NOTICE) == 2


def test_a_query_without_a_known_word_routes_to_the_latest_unit(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.")
    memory.update("Bob has a boat.")

    for query in ("zzz qqq", "誰？", "?!"):
        answer = memory.ask(query)
        assert answer.evidence is not None
        assert answer.evidence.unit.version == 2
        assert answer.evidence.score == 0.0


@pytest.mark.parametrize("question", ["", "  \n"])
def test_an_empty_question_is_refused(memory: ParametricMemory, question: str) -> None:
    with pytest.raises(InvalidInput, match="empty question"):
        memory.ask(question)


@pytest.mark.parametrize(
    "question",
    [3, [{"role": "user"}], [{"role": "user", "content": None}], "half \ud83d a character", [1]],
)
def test_a_question_no_tokenizer_can_read_is_refused(memory: ParametricMemory, question: object) -> None:
    with pytest.raises(InvalidInput):
        memory.ask(question)  # type: ignore[arg-type]


def test_bad_options_are_refused(memory: ParametricMemory) -> None:
    for options in ({"max_new_tokens": 0}, {"top_candidates": -1}, {"stop": "END"}, {"stop": [""]}):
        with pytest.raises(InvalidInput):
            memory.ask(QUESTION, **options)  # type: ignore[arg-type]


def test_an_adapter_is_exported_or_the_reason_given(memory: ParametricMemory, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="it is empty"):
        memory.export_adapter(tmp_path / "out")
    memory.update("Alice lives in Bern.")

    assert (memory.export_adapter(tmp_path / "peft") / "adapter_config.json").is_file()
    loaded = load_factors(memory.export_adapter(tmp_path / "own", format="safetensors") / "factors.safetensors")
    adapter = memory.at().global_adapter
    assert adapter is not None
    assert torch.equal(loaded.delta("mlp.down_proj", 0), adapter.delta("mlp.down_proj", 0))
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="Cannot write the adapter"):
        memory.export_adapter(tmp_path / "file")
    with pytest.raises(InvalidInput, match="Unknown format 'gguf'"):
        memory.export_adapter(tmp_path / "out", format="gguf")  # type: ignore[arg-type]


# --- versions -----------------------------------------------------------------------------------


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
    settings = MethodSettings(chunking=chunking, max_new_tokens=4, unit_tokens=64)  # type: ignore[arg-type]
    engine = tiny_engine(additive=additive, settings=settings)
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
        with pytest.raises(ArtifactError, match=r"The disk is full\. The update is in the log, as version 1") as failed:
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


# --- what is derived ----------------------------------------------------------------------------


@pytest.mark.parametrize("chunking", ["near_equal", "append_only"])
def test_one_hypernetwork_pass_per_update(tmp_path: Path, chunking: str) -> None:
    """H(C_old) of a step is H(C_full) of the step before: it comes from the cache."""
    engine = tiny_engine(settings=MethodSettings(chunking=chunking, max_new_tokens=4))  # type: ignore[arg-type]
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
    slow = Engine(base, SlowParameterizer(base), MethodSettings(max_new_tokens=4))
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
    engine, half = tiny_engine(), tiny_engine()
    half.base.model.to(torch.bfloat16)

    assert engine.factors_key("x") != half.factors_key("x")
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


def test_evidence_by_lora_needs_a_parameterizer() -> None:
    with pytest.raises(InvalidInput, match="needs a parameterizer"):
        Engine(tiny_base("llama"), None, MethodSettings())


# --- beyond the paper: several units, ranked by likelihood --------------------------------------------

FACTS = ("Alice lives in Bern.", "Bob has a boat.", "Where Alice lives there is a lake.", "Carol is ill.")


def beyond(**options: object) -> Engine:
    settings = MethodSettings(max_new_tokens=4, unit_tokens=64, delta=0.2, **options)  # type: ignore[arg-type]
    return tiny_engine(settings=settings)


def told(memory: ParametricMemory, texts: Sequence[str] = FACTS) -> ParametricMemory:
    for text in texts:
        memory.update(text)
    return memory


def test_an_answer_names_its_one_unit(memory: ParametricMemory) -> None:
    assert memory.ask(QUESTION).evidence_units == ()
    answer = told(memory).ask(QUESTION)

    assert answer.evidence_units == (answer.evidence,) == tuple(memory.route(QUESTION))


@pytest.mark.parametrize("router", ["lexical", "likelihood"])
@pytest.mark.parametrize("evidence", ["lora", "kv"])
def test_several_units_are_activated_together_in_temporal_order(tmp_path: Path, router: str, evidence: str) -> None:
    engine = beyond(evidence_units=3, router=router, evidence=evidence)
    with opened(tmp_path, engine=engine) as memory:
        answer = told(memory).ask(QUESTION)
        streamed = list(memory.stream(QUESTION))[-1].answer
        together = memory.ask_many([QUESTION, "Who has a boat?"])[0]
        routed = memory.route(QUESTION, k=3)
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
    engine = beyond(evidence_units=3, router="likelihood")
    with opened(tmp_path, engine=engine) as memory, opened(tmp_path, "never told", engine) as other:
        before = told(memory).ask(QUESTION)
        told(other, (FACTS[0], *FACTS[2:]))

        memory.forget(2)
        answer, expected = memory.ask(QUESTION), other.ask(QUESTION)

        assert said(answer) == said(expected)
        assert [u.unit.text for u in answer.evidence_units] == [FACTS[0], *FACTS[2:]]
        assert [u.score for u in answer.evidence_units] == [u.score for u in expected.evidence_units]
        assert said(memory.at(version=4).ask(QUESTION)) == said(before)


def test_stored_factors_are_found_by_an_engine_of_other_routing(tmp_path: Path) -> None:
    with opened(tmp_path, engine=tiny_engine(additive=True)) as memory:
        told(memory)
    engine = tiny_engine(additive=True, settings=beyond(router="likelihood", evidence_units=2).settings)
    assert isinstance(engine.parameterizer, HashParameterizer)
    with opened(tmp_path, engine=engine) as memory:
        answer = memory.ask(QUESTION)

    assert len(answer.evidence_units) == 2
    assert engine.parameterizer.calls == []


def test_every_unit_is_listed_under_the_likelihood_router(tmp_path: Path) -> None:
    with opened(tmp_path, engine=beyond(router="likelihood")) as memory:
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


# --- opening and closing ------------------------------------------------------------------------


def test_opening_a_missing_memory_without_create_names_what_there_is(tmp_path: Path) -> None:
    opened(tmp_path, "bob").close()

    with pytest.raises(MemoryNotFound, match=r"'alice'.*bob"):
        ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", create=False)


def test_a_closed_memory_says_so(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.close()
    memory.close()

    for use in (lambda: memory.update("x"), lambda: memory.ask("x"), lambda: memory.history(), memory.verify):
        with pytest.raises(MemoryClosed, match="open it again"):
            use()


def test_unknown_arguments_and_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        ParametricMemory.open("alice", url="sqlite://", modle="x")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="betta"):
        MethodSettings(betta=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="an engine has its own"):
        ParametricMemory.open("alice", url="sqlite://", engine=ENGINE, settings=MethodSettings())


def test_two_memories_of_one_database_do_not_mix(tmp_path: Path) -> None:
    with opened(tmp_path, "alice") as alice, opened(tmp_path, "bob") as bob:
        alice.update("Alice lives in Bern.")
        bob.update("Bob lives in Rome.")

        assert alice.route("Where is Rome?")[0].unit.text == "Alice lives in Bern."
        assert bob.ask("Where is Bern?").evidence.unit.text == "Bob lives in Rome."  # type: ignore[union-attr]


async def test_the_async_edges_answer_like_the_sync_core(memory: ParametricMemory) -> None:
    version = await memory.aupdate("Alice lives in Bern.")
    answer = await memory.aask(QUESTION)

    assert version.number == 1
    assert answer.text == memory.ask(QUESTION).text


@pytest.mark.slow
def test_ten_thousand_updates_in_one_log_are_appended_and_asked_quickly(tmp_path: Path) -> None:
    """Appending stays flat, the first question indexes everything, the next ones do not."""
    engine = Engine(tiny_base("llama"), None, MethodSettings(evidence="kv", max_new_tokens=4))
    with opened(tmp_path, engine=engine) as memory:
        times = []
        for i in range(10_000):
            begun = time.perf_counter()
            memory.update(f"Shelf {i} of the archive holds box {i * 3} since Monday.", derive=False)
            times.append(time.perf_counter() - begun)
        answer = memory.ask("Which box does shelf 4321 hold?")
        memory.update("Shelf 17 is empty.")
        begun = time.perf_counter()
        later = memory.ask("Which box does shelf 9876 hold?")
        seconds = time.perf_counter() - begun

    first, last = sorted(times[:1000])[500], sorted(times[-1000:])[500]
    assert last < 3 * first
    assert answer.evidence is not None
    assert answer.evidence.unit.version == 4322
    assert later.evidence is not None
    assert later.evidence.unit.version == 9877
    assert seconds < 2
