"""ParametricMemory on a random model and a real database: what holds whatever the model says."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.errors import InvalidInput, MemoryClosed, MemoryNotFound, PlumeError, TextTooLong
from plume_memory.lora.files import load_factors
from plume_memory.pool import MemoryPool
from plume_memory.records import NOTICE, Answer
from plume_memory.testing import tiny_base, tiny_engine

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


# --- what an answer is made of --------------------------------------------------------------------


def test_an_empty_memory_answers_like_the_bare_model(memory: ParametricMemory) -> None:
    answer = memory.ask(QUESTION, unknown="bare")

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
    empty = memory.ask(QUESTION, unknown="bare").usage.prompt_tokens
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


# --- inputs at the edge ---------------------------------------------------------------------------


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


def test_a_longer_text_than_the_memory_takes_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    with (
        ParametricMemory.open("alice", url=url, engine=ENGINE, max_update_chars=20) as memory,
        MemoryPool(url, engine=ENGINE, max_update_chars=20) as pool,
    ):
        for takes in (memory, pool.memory("bob"), memory.fork("copy")):
            with pytest.raises(TextTooLong, match="21 characters, and an update of this memory at most 20"):
                takes.update("x" * 21)
            assert takes.version == 0
            assert takes.update("x" * 20).number == 1


@pytest.mark.parametrize("chunking", ["near_equal", "append_only"])
def test_a_text_beyond_8192_tokens_is_kept_whole(tmp_path: Path, chunking: str) -> None:
    engine = tiny_engine(policy=AnswerPolicy(chunking=chunking, max_new_tokens=4))  # type: ignore[arg-type]
    long = "".join(f"Fact {i} is about item {i * 7}.\n\n" for i in range(400))
    assert engine.segmenter.count_tokens(long) > 8192
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


# --- opening and closing --------------------------------------------------------------------------


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
        AnswerPolicy(betta=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="an engine has its own"):
        ParametricMemory.open("alice", url="sqlite://", engine=ENGINE, policy=AnswerPolicy())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_weights_are_numbers_that_can_weigh(value: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        AnswerPolicy(alpha=value)


def test_what_is_no_question_is_told_what_to_write(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.")
    with pytest.raises(InvalidInput, match=r"a list of questions; write \['Hi'\]"):
        memory.ask_many("Hi")
    with pytest.raises(InvalidInput, match="max_new_tokens must be a whole number, got '9'"):
        memory.ask("Where?", max_new_tokens="9")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"must be text \(str\), got int"):
        memory.update(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("named", "error"), [({"model": "gpt-5"}, "No model 'gpt-5'"), ({"hypernetwork": "shiped"}, "'shiped'")]
)
def test_a_model_that_cannot_be_had_is_refused_before_anything_is_made(
    tmp_path: Path, named: dict[str, str], error: str
) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    for opened_by in (lambda: ParametricMemory.open("alice", url=url, **named), lambda: MemoryPool(url, **named)):  # type: ignore[arg-type]
        with pytest.raises(PlumeError, match=error):
            opened_by()
    assert not (tmp_path / "log.db").exists()


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
def test_ten_thousand_updates_in_one_log_are_appended_as_fast_as_the_first(tmp_path: Path) -> None:
    """Appending stays flat however long the log."""
    engine = Engine(tiny_base("llama"), None, AnswerPolicy(evidence="states", max_new_tokens=4))
    with opened(tmp_path, engine=engine) as memory:
        times = []
        for i in range(10_000):
            begun = time.process_time()
            memory.update(f"Shelf {i} of the archive holds box {i * 3} since Monday.", derive=False)
            times.append(time.process_time() - begun)
        answer = memory.ask("Which box does shelf 4321 hold?")
        memory.update("Shelf 17 is empty.")
        later = memory.ask("Which box does shelf 9876 hold?")

    first, last = sorted(times[:1000])[500], sorted(times[-1000:])[500]
    assert last < 3 * first
    assert answer.evidence is not None
    assert answer.evidence.unit.version == 4322
    assert later.evidence is not None
    assert later.evidence.unit.version == 9877
