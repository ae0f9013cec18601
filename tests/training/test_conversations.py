"""Conversations that were written one by one: read as units have them, drawn as choices of a reranker."""

import json
import random
from datetime import datetime
from pathlib import Path

import pytest

from plume_memory.errors import TrainingError
from plume_memory.records import Context, Transition
from plume_memory.retrieval.retrieve import SHORTLIST
from plume_memory.segmentation.units import units_of
from plume_memory.training.conversations import WrittenConversations

TURNS = [
    ("Ana", "My dog Rex is ill."),
    ("Bo", "Oh no, what is wrong with Rex?"),
    ("Ana", "He ate a sock yesterday."),
    ("Bo", "Our vet in Bern is good."),
    ("Ana", "Thanks, I bake bread today."),
    (None, "The vet opens at nine."),
]
QAS = [("What did the dog swallow?", [2]), ("Who is unwell, and where is a vet?", [0, 3]), ("When does it open?", [5])]


def written(path: Path, qas: list[tuple[str, list[int]]] = QAS, turns: list[tuple[str | None, str]] = TURNS) -> Path:
    told = [{"speaker": speaker, "text": text} for speaker, text in turns]
    asked = [{"question": question, "turns": own} for question, own in qas]
    path.write_text(json.dumps({"turns": told, "qas": asked}) + "\n")
    return path


def test_a_text_stands_there_as_a_unit_of_a_memory_has_it(tmp_path: Path) -> None:
    conversations = WrittenConversations([written(tmp_path / "a.jsonl")])
    seen = set()
    for seed in range(20):
        (told,) = conversations.told(random.Random(seed))
        assert told.asked == tuple((question, frozenset(own)) for question, own in QAS)
        first, *_, last = told.texts
        seen.add(first == "Ana:\nMy dog Rex is ill.")
        if first.startswith("Ana ("):
            day = first[5:15]
            message = json.dumps([{"role": "user", "name": "Ana", "content": TURNS[2][1]}])
            context = Context("chat", None, datetime.fromisoformat(f"{day}T00:00:00+00:00"))
            (unit,) = units_of(
                [Transition(1, message, context=context)],
                budget_tokens=90,
                count_tokens=lambda text: len(text.split()),
                single_sentences=True,
            )
            assert told.texts[2] == unit.text
            assert "yesterday (" in unit.text
            assert last == f"{day}:\n{TURNS[5][1]}"
        else:
            assert last == TURNS[5][1]
    assert seen == {True, False}, "some are of a day, some are not"


def test_a_choice_has_what_answers_and_others_beside_it(tmp_path: Path) -> None:
    conversations = WrittenConversations([written(tmp_path / "a.jsonl")])
    gold = {question: {TURNS[at][1] for at in own} for question, own in QAS}
    for seed in range(40):
        choice = conversations.choice(random.Random(seed), asks=2, sentences=4)
        assert choice is not None
        assert len(choice.sentences) == 4
        assert 1 <= len(choice.questions) <= 2
        for question, answers in zip(choice.questions, choice.answers, strict=True):
            said = [one.split("\n")[-1].split(" (20")[0] for one in choice.sentences]
            assert True in answers
            assert False in answers
            for text, own in zip(said, answers, strict=True):
                assert own == any(one.startswith(text) for one in gold[question])
            assert not any(text.endswith("?") for text in said), "what only asks is shown to no reader"
    again = conversations.choice(random.Random(3), asks=2, sentences=4)
    assert again == conversations.choice(random.Random(3), asks=2, sentences=4)


def test_the_others_are_some_of_what_words_would_propose(tmp_path: Path) -> None:
    turns: list[tuple[str | None, str]] = [("Ana", f"My green hat number {n} is old.") for n in range(SHORTLIST)]
    turns += [("Bo", f"Nothing here, {n}.") for n in range(30)]
    path = written(tmp_path / "a.jsonl", [("Which green hat is the gift?", [0])], turns)
    conversations, seen = WrittenConversations([path]), set()
    for seed in range(80):
        choice = conversations.choice(random.Random(seed), asks=1, sentences=6)
        assert choice is not None
        seen |= {text.split("\n")[-1] for text in choice.sentences}
    assert len(seen) == SHORTLIST, "each of them at some time"
    assert all("green hat" in text for text in seen)


def test_where_every_text_answers_there_is_nothing_to_choose(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [("Who?", [0, 1])], [("Ana", "I am Ana."), ("Bo", "I am Bo.")])
    assert WrittenConversations([path]).choice(random.Random(0), asks=1, sentences=4) is None


def test_a_line_of_another_shape_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"a\.jsonl, line 1: the whole: .*answered by \[6\]"):
        WrittenConversations([written(tmp_path / "a.jsonl", [("Who?", [6])])])
    with pytest.raises(TrainingError, match=r"line 1: turns: Tuple should have at least 2"):
        WrittenConversations([written(tmp_path / "b.jsonl", [("Who?", [0])], TURNS[:1])])
