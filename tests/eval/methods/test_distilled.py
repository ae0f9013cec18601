"""CD: the exam and its parsing, the teacher's context, what is trained, and what a small model gains."""

import pytest
import torch

from eval.methods import distilled
from eval.methods.decoding import Answerer
from eval.methods.distilled import CD, CDOracle, ExamSettings, Pair, parse_pairs, write_exam
from eval.records import MuseQuestion, MuseTransition
from plume_memory.distill.examples import teacher_answers
from plume_memory.distill.settings import DistillSettings
from plume_memory.errors import InvalidInput, PromptTooLong
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.adapters import attached, stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler

QUICK = DistillSettings.paper().model_copy(update={"epochs": 8, "learning_rate": 0.02, "teacher_tokens": 6})
WRITTEN = """Question 1: Who steers the ferry?
Answer 1: Ola Venn steers it.
Question 2: When does it leave?
Answer 2: At nine.
"""


def transition(*texts: str) -> MuseTransition:
    return MuseTransition("one", "mini", 1, texts or ("The ferry is new.", "Ola Venn steers it."), ())


def questions(*texts: str) -> tuple[MuseQuestion, ...]:
    return tuple(
        MuseQuestion(id=str(i), question=text, answers=("x",), old_answers=("x",), affected=False)
        for i, text in enumerate(texts or ("Who steers it?", "What is new?", "Why?"))
    )


def answerer(base: BaseModel, batch: int = 2) -> Answerer:
    return Answerer(Scheduler(base), DecodeSettings(max_new_tokens=6), batch)


class _Writes:
    """In place of a model's exam output: the same text every round."""

    def __init__(self, text: str, complete: bool = True) -> None:
        self.answer = (text, complete)
        self.prompts: list[str] = []

    def __call__(self, decoder: Scheduler, query: Query, _settings: ExamSettings) -> tuple[str, bool]:
        self.prompts.append(decoder._base.tokenizer.decode(query.global_row.prompt_ids))
        return self.answer


@pytest.fixture
def exam(monkeypatch: pytest.MonkeyPatch) -> _Writes:
    """A random model writes no exam; this one does."""
    writes = _Writes(WRITTEN)
    monkeypatch.setattr(distilled, "_round", writes)
    return writes


def bare_answers(base: BaseModel, factors: LoraFactors | None = None) -> list[str]:
    rows = [Row(tuple(base.chat.prompt_ids(q.question)), factors) for q in questions()]
    return [Scheduler(base).decode([Query(row)], DecodeSettings(max_new_tokens=6))[0].text for row in rows]


def test_pairs_are_read_from_numbered_lines() -> None:
    assert parse_pairs(WRITTEN, True) == [
        Pair("Who steers the ferry?", "Ola Venn steers it."),
        Pair("When does it leave?", "At nine."),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Sure!\n\n**Question 1:** Who?\n\n**Answer 1:** Ola\nVenn",
        "question 1 : Who?\nanswer 1 : Ola\nVenn",
        "- Question 7: Who?\n- Answer 7: Ola\nVenn\n",
    ],
)
def test_a_models_own_layout_does_not_hide_a_pair(text: str) -> None:
    [pair] = parse_pairs(text, True)

    assert pair.question.strip("* ") == "Who?"
    assert pair.answer.strip("* ") == "Ola\nVenn"


def test_a_question_without_an_answer_and_empty_sides_are_skipped() -> None:
    text = "Question 1: Who?\nQuestion 2: When?\nAnswer 2: Now.\nQuestion 3:\nAnswer 3: x\nQuestion 4: Why?\nAnswer 4:"

    assert parse_pairs(text, True) == [Pair("When?", "Now.")]


def test_the_last_pair_of_a_cut_text_is_dropped() -> None:
    assert parse_pairs(WRITTEN, False) == [Pair("Who steers the ferry?", "Ola Venn steers it.")]


@pytest.mark.parametrize("text", ["", "I cannot do that.", "Answer 1: Ola Venn."])
def test_a_text_without_pairs_has_none(text: str) -> None:
    assert parse_pairs(text, True) == []


def test_later_rounds_show_all_earlier_pairs_and_ask_for_harder_ones(tiny_llama: BaseModel, exam: _Writes) -> None:
    written = write_exam(tiny_llama, "The {ferry} leaves.", ExamSettings(rounds=4, per_round=2))

    assert len(written.pairs) == 8
    assert written.detail == {"pairs": 8, "distinct_questions": 2, "pairs_per_round": [2, 2, 2, 2]}
    first, second, *_, last = exam.prompts
    assert all("The {ferry} leaves." in prompt for prompt in exam.prompts)
    assert "asked already" not in first
    assert "Question 2: When does it leave?\nAnswer 2: At nine." in second
    assert "turn a fact of the list around" in second
    assert "Question 6: When does it leave?" in last
    assert "Make them harder" in last


def test_a_round_gives_no_more_pairs_than_asked_for(tiny_llama: BaseModel, exam: _Writes) -> None:
    assert len(write_exam(tiny_llama, "x", ExamSettings(rounds=3, per_round=1)).pairs) == 3


def test_a_first_round_without_pairs_ends_the_exam(tiny_llama: BaseModel, exam: _Writes) -> None:
    exam.answer = ("I cannot.", True)

    assert write_exam(tiny_llama, "x", ExamSettings()).per_round == (0,)
    assert len(exam.prompts) == 1


def test_a_round_is_one_greedy_decode(tiny_llama: BaseModel) -> None:
    """The real thing on a random model: gibberish, cut off at its tokens, no pair."""
    query = Query(Row(distilled._exam_prompt(tiny_llama, "The ferry.", [], 0, 5)))

    text, complete = distilled._round(Scheduler(tiny_llama), query, ExamSettings(round_tokens=9))

    [expected] = Scheduler(tiny_llama).decode([query], DecodeSettings(max_new_tokens=9))
    assert (text, complete) == (expected.text, expected.finish_reason == "stop")


def test_cd_trains_on_the_teachers_in_context_answers_to_the_exam(tiny_llama: BaseModel, exam: _Writes) -> None:
    """Each distinct question is answered once and trained on as often as it was written."""
    method = CD(tiny_llama, answerer(tiny_llama), QUICK, exam=ExamSettings(rounds=2, per_round=2))
    told = transition()

    prepared = method.prepare(told)

    asked = ["Who steers the ferry?", "When does it leave?"]
    examples = teacher_answers(tiny_llama, [f"{told.full}\n\n{q}" for q in asked], asked, max_tokens=6, top_k=16)
    expected = distilled.train_factors(tiny_llama, examples * 2, QUICK)
    assert prepared.factors is not None
    for ours, theirs in zip(prepared.factors.modules["mlp.down_proj"], expected.modules["mlp.down_proj"], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    replies = prepared.answer(questions())
    assert [r.text for r in replies] == bare_answers(tiny_llama, prepared.factors)
    assert replies[0].detail == {
        "pairs": 4,
        "distinct_questions": 2,
        "pairs_per_round": [2, 2],
        "distilled": True,
    }


def test_without_an_exam_the_bare_model_answers_and_says_so(tiny_llama: BaseModel, exam: _Writes) -> None:
    exam.answer = ("No.", True)

    replies = CD(tiny_llama, answerer(tiny_llama), QUICK).prepare(transition()).answer(questions())

    assert [r.text for r in replies] == bare_answers(tiny_llama)
    assert replies[0].detail == {
        "pairs": 0,
        "distinct_questions": 0,
        "pairs_per_round": [0],
        "distilled": False,
    }


def test_the_oracle_trains_each_question_on_its_own_teachers_answer(tiny: BaseModel) -> None:
    told = transition()

    replies = CDOracle(tiny, answerer(tiny), QUICK).prepare(told).answer(questions())

    for question, reply in zip(questions(), replies, strict=True):
        text = question.question
        [example] = teacher_answers(tiny, [f"{told.full}\n\n{text}"], [text], max_tokens=6, top_k=16)
        factors = distilled.train_factors(tiny, [example], QUICK)
        row = Row(tuple(tiny.chat.prompt_ids(text)), factors)
        [alone] = Scheduler(tiny).decode([Query(row)], DecodeSettings(max_new_tokens=6))
        assert reply.text == alone.text
        assert reply.detail == {"teacher": tiny.tokenizer.decode(example.answer_ids, skip_special_tokens=True)}


def test_the_model_is_bit_identical_afterwards(tiny: BaseModel, exam: _Writes) -> None:
    ids = torch.tensor([[9, 8, 7, 6]])
    with torch.no_grad():
        before = tiny.model(input_ids=ids).logits
    for method in (CD(tiny, answerer(tiny), QUICK), CDOracle(tiny, answerer(tiny), QUICK)):
        method.prepare(transition()).answer(questions())
    with torch.no_grad():
        assert torch.equal(tiny.model(input_ids=ids).logits, before)


def test_the_defaults_are_the_papers(tiny_llama: BaseModel) -> None:
    settings = CD(tiny_llama, answerer(tiny_llama)).settings

    assert {key: settings[key] for key in ("rank", "scale", "epochs", "learning_rate", "batch", "top_k")} == {
        "rank": 8,
        "scale": 2.0,  # alpha 16
        "epochs": 300,
        "learning_rate": 1e-4,
        "batch": 16,
        "top_k": 16,
    }
    assert (settings["rounds"], settings["per_round"], settings["round_tokens"]) == (4, 5, 1024)
    assert settings["examiner"] == tiny_llama.name
    assert not {"keyword_questions", "written_questions", "replay", "target"} & settings.keys()


def test_settings_that_the_baseline_would_ignore_are_refused(tiny_llama: BaseModel) -> None:
    for method in (CD, CDOracle):
        with pytest.raises(InvalidInput, match=r"target='sentence'.*DistillSettings\.paper\(\)"):
            method(tiny_llama, answerer(tiny_llama), DistillSettings())


def test_an_exam_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="per_round=0"):
        ExamSettings(per_round=0)


def test_a_history_longer_than_the_window_is_refused(tiny_llama: BaseModel) -> None:
    told = transition("words " * 500)
    with pytest.raises(PromptTooLong):
        CD(tiny_llama, answerer(tiny_llama), QUICK).prepare(told)
    with pytest.raises(PromptTooLong):
        CDOracle(tiny_llama, answerer(tiny_llama), QUICK).prepare(told).answer(questions())


@pytest.mark.model
def test_cd_makes_smollm2_find_the_answer_likelier(smollm2: BaseModel) -> None:
    """Its own exam, one round of two, and few epochs at a higher rate; measured 6.9 → 0.6 nats per token."""
    told = transition("The ferry Aurelie crosses lake Ombry every morning at nine. Its captain is Maren Holt.")
    settings = DistillSettings.paper().model_copy(update={"epochs": 8, "learning_rate": 5e-3, "teacher_tokens": 24})
    exam = ExamSettings(rounds=1, per_round=2, round_tokens=96)

    prepared = CD(smollm2, answerer(smollm2), settings, exam=exam).prepare(told)

    assert prepared.factors is not None
    assert prepared.detail["pairs"] >= 1
    asked, reference = "Who steers the ferry Aurelie?", "Maren Holt"
    assert nll(smollm2, asked, reference, prepared.factors) < 0.5 * nll(smollm2, asked, reference)


def nll(base: BaseModel, question: str, answer: str, factors: LoraFactors | None = None) -> float:
    """Mean negative log-likelihood of an answer to the bare question."""
    asked, labels = base.chat.prompt_ids(question), base.chat.encode(answer)
    rows = stack_rows([factors], device=base.device, dtype=base.dtype)
    with torch.no_grad(), attached(base.model, rows):
        logits = base.model(input_ids=torch.tensor([asked + labels])).logits[0, len(asked) - 1 : -1]
    return float(torch.nn.functional.cross_entropy(logits.float(), torch.tensor(labels)))
