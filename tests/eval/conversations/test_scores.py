"""Scores against values counted by hand."""

import pytest

from eval.conversations.readers import abstains, prompt
from eval.conversations.records import Question
from eval.conversations.scores import AT, Scores, ranks_of, recall_at
from eval.conversations.table import mean_of, view

Ranks = tuple[int | None, ...] | None


def scored(
    method: str, conversation: str, question: str, ranks: tuple[int | None, ...] | None, **more: object
) -> Scores:
    fields: dict[str, object] = {
        "kind": "k",
        "answerable": True,
        "f1": None,
        "abstained": False,
        "answered": False,
        "seconds": 0.5,
        "tokens": 40,
        "remember_seconds": 3.0,
        **more,
    }
    return Scores(method, conversation, question, gold_ranks=ranks, **fields)  # type: ignore[arg-type]


def test_ranks_are_places_from_one() -> None:
    assert ranks_of(("b", "z", "a"), ("a", "b")) == (2, None, 1)
    assert ranks_of((), ("a",)) is None
    assert ranks_of(("a",), None) is None


@pytest.mark.parametrize(("k", "share"), list(zip(AT, (0.25, 0.5, 0.5, 0.75, 0.75), strict=True)))
def test_recall_is_the_share_of_gold_turns_among_the_first(k: int, share: float) -> None:
    assert recall_at((1, 3, None, 9), k) == share


def test_recall_of_nothing_is_no_number() -> None:
    with pytest.raises(ValueError, match="no gold turn"):
        recall_at((), 1)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("I don't know.", True),
        ("I don't know", True),
        ("That is not mentioned in the notes.", True),
        ("", True),
        ("  ", True),
        ("In Lugano.", False),
        ("She does know the mill.", False),
    ],
)
def test_an_abstention_is_told_by_its_words(said: str, expected: bool) -> None:
    assert abstains(said) is expected


def test_a_prompt_has_the_notes_the_question_and_its_day() -> None:
    from datetime import datetime

    asked = Question("q", "Who?", ("Ann",), "k", asked_at=datetime(2023, 6, 1, 10))

    assert prompt(asked, "Ann {is} here.").startswith("Ann {is} here.\n\nAnswer")
    assert "asked on 2023-06-01." in prompt(asked, "")
    assert "(There are no notes.)" in prompt(asked, "")
    assert prompt(asked, "x").endswith("Question: Who?")


def test_few_conversations_are_resampled_by_questions_and_many_by_conversations() -> None:
    few = [scored("m", "c", f"q{i}", (1,) if i % 2 else (None,)) for i in range(20)]
    many = [scored("m", f"c{i}", f"q{j}", (1,) if i % 2 else (None,)) for i in range(10) for j in range(2)]

    by_question = mean_of(few, lambda one: recall_at(one.gold_ranks or (), 1), 0)
    by_conversation = mean_of(many, lambda one: recall_at(one.gold_ranks or (), 1), 0)

    assert by_question is not None
    assert by_conversation is not None
    assert (by_question.mean, by_question.clusters) == (0.5, 20)
    assert (by_conversation.mean, by_conversation.clusters) == (0.5, 10)
    assert by_conversation.high - by_conversation.low > by_question.high - by_question.low
    assert by_question == mean_of(few, lambda one: recall_at(one.gold_ranks or (), 1), 0)


def test_the_tables_hold_what_was_counted() -> None:
    scores = [
        *(scored("notes", "c", f"q{i}", (1, 4) if i else (None, None)) for i in range(5)),
        scored("notes", "c", "u", None, answerable=False, abstained=True),
        scored("notes", "c", "i", None, answerable=False, abstained=True, kind="idle", tokens=0),
        *(scored("everything", "c", q, None, f1=0.25, answered=True) for q in ("q0", "q1", "q2", "q3", "q4", "u", "i")),
    ]
    judged = {("everything", "c", "q0"): True, ("everything", "c", "q1"): False}
    recall, kinds, answers = view(scores, judged, seed=0, has_gold=True).tables

    assert recall.rows[0][:3] == ("notes", "5", "40.0 [20.0, 50.0]")  # four of five have one of two gold turns first
    assert recall.rows[0][5].startswith("80.0 ")
    assert len(recall.rows) == 1
    assert kinds.header == ("method", "k")
    assert answers.header[1:3] == ("token F1", "judged right")
    notes, everything = answers.rows
    assert notes[:6] == ("notes", "–", "–", "0.0", "100.0", "100.0")
    assert everything[:4] == ("everything", "25.0 [25.0, 25.0]", "50.0", "0.0")
    assert notes[-1] == "3"


def test_a_question_that_not_every_method_was_asked_is_in_no_table() -> None:
    both = [scored(name, "c", "q1", (1,)) for name in ("notes", "bm25")]
    tables = view([*both, scored("bm25", "c", "q2", (None,))], {}, seed=0, has_gold=True).tables

    assert [row[:3] for row in tables[0].rows] == [("notes", "1", "100.0"), ("bm25", "1", "100.0")]
    assert "1 rows of questions that not every method" in tables[-1].notes[-1]


def test_a_benchmark_without_gold_turns_has_no_recall_and_says_so() -> None:
    (only,) = view([scored("notes", "c", "q", None)], {}, seed=0, has_gold=False).tables

    assert only.title.startswith("Answers")
    assert "no recall is reported" in only.notes[-1]
