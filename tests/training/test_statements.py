"""Questions and answers as statements that end with the answer."""

import random

import pytest

from plume_memory.training.facts import FactSource
from plume_memory.training.statements import as_statement


@pytest.mark.parametrize(
    ("question", "answer", "statement"),
    [
        ("Who wrote Hamlet?", "Anna", "The one who wrote Hamlet is Anna."),
        ("In what year did the bridge open?", "1937", "The year in which the bridge open is 1937."),
        ("How many towers stand there?", "three", "The number of towers that stand there is three."),
        ("How many prospective students got mail?", "400", "The number of prospective students that got mail is 400."),
        ("What is the capital of Orvo?", "Brell", "The capital of Orvo is Brell."),
        ("Who was a former mayor?", "Jo Ek", "A former mayor was Jo Ek."),
        ("What happened to Francis?", "he fled", "What happened to Francis is he fled."),
        ("What charter was violated?", "Article 32", "The charter that was violated is Article 32."),
        ("When was the league founded?", "1905", "The time when the league was founded is 1905."),
        ("Where is the institute located?", "Berlin", "The place where the institute is located is Berlin."),
        ("Whose favourite colour is magenta?", "Lisa", "The one whose favourite colour is magenta is Lisa."),
        ("Insects can sense what?", "sounds", "Insects can sense sounds."),
        ("What is electrum made of?", "gold.", "What is electrum made of is gold."),
    ],
)
def test_the_questions_words_come_first_and_the_answer_last(question: str, answer: str, statement: str) -> None:
    assert as_statement(question, answer) == statement


@pytest.mark.parametrize("question", ["", "?", "Name the road.", "What?", "Along with Rome, what site was it in 1300?"])
def test_where_no_rule_fits_there_is_no_statement(question: str) -> None:
    assert as_statement(question, "x") is None


def test_an_answer_that_the_question_holds_gives_no_statement() -> None:
    assert as_statement("Is the mayor Anna or Bo, who is the mayor?", "Anna") is None


@pytest.mark.parametrize("update", [False, True])
def test_replies_about_facts_end_with_the_answer_and_hold_no_other(update: bool) -> None:
    source = FactSource("facts")
    asks = [
        ask
        for seed in range(60)
        for ask in source.draw(random.Random(seed), largest=6, update=update).asks
        if ask.reply is not None
    ]

    assert len(asks) > 150
    for ask in asks:
        assert ask.reply is not None
        assert ask.reply.removesuffix(".").endswith(ask.answer.removesuffix(".")), ask
        if ask.stale is not None:
            assert ask.stale not in ask.reply, "a corrected reply states the current value"


def test_a_reply_is_the_phrasing_that_is_most_like_the_question() -> None:
    source = FactSource("facts", only_families=["people"])
    replies = {
        ask.reply
        for seed in range(400)
        for ask in source.draw(random.Random(seed), largest=1, update=False).asks
        if ask.question.startswith("Where was ")
    }

    assert replies
    assert all(reply and " was born in " in reply for reply in replies)
