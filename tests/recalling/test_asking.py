"""What of a conversation is looked up."""

import pytest

from plume_memory.recalling.asking import leans, routed_of


def turns(*said: str) -> list[dict[str, str]]:
    """User and assistant by turns, the user last."""
    roles = ("user", "assistant")
    return [{"role": roles[(len(said) - 1 - n) % 2], "content": text} for n, text in enumerate(said)]


def test_a_question_that_stands_alone_is_looked_up_alone() -> None:
    assert routed_of(turns("Who leads the backend team?")) == "Who leads the backend team?"
    assert routed_of(turns("Who leads the backend team?", "Mara.", "When does the office open?")) == (
        "When does the office open?"
    )


def test_one_that_leans_on_what_was_said_goes_with_it() -> None:
    asked = routed_of(turns("Who leads the backend team?", "Mara Vogt does.", "And what about the frontend?"))
    assert asked == "Who leads the backend team?\nMara Vogt does.\nAnd what about the frontend?"
    assert routed_of(turns("Who leads it?", "Mara.", "Where does she live?", "In Bern.", "Why?")).startswith(
        "Who leads"
    )


def test_not_more_than_three_turns_are_and_of_a_reply_its_beginning() -> None:
    asked = routed_of(turns("one?", "a", "And two?", "b", "And three?", "c" * 999, "And him?"))
    assert asked == f"And two?\nb\nAnd three?\n{'c' * 200}\nAnd him?"


@pytest.mark.parametrize(
    "said", ["Hi!", "Thanks a lot!", "ok", "Good morning", "?!", "How are you today?", "Thanks, that helps a lot!"]
)
def test_small_talk_looks_nothing_up(said: str) -> None:
    assert routed_of(turns("Who leads the backend team?", "Mara.", said)) == ""


def test_small_words_that_ask_on_are_looked_up_with_what_was_said() -> None:
    asked = routed_of(turns("Who leads the backend team?", "Mara.", "How many are there?"))
    assert asked == "Who leads the backend team?\nMara.\nHow many are there?"


def test_what_tools_and_systems_say_is_left_out() -> None:
    said = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Who leads the backend team?"},
        {"role": "tool", "content": "a long page"},
    ]
    assert routed_of(said) == "Who leads the backend team?"


@pytest.mark.parametrize(
    ("question", "alone"),
    [
        ("And what about the frontend?", False),
        ("Where does she live?", False),
        ("Why?", False),
        ("How about Thursday?", False),
        ("What is it called?", False),
        ("And when does he start at Blomqvist?", False),
        ("What is Rex's favourite toy?", True),
        ("When do we launch?", True),
        ("Is it raining in Bern today?", True),
    ],
)
def test_which_questions_lean(question: str, alone: bool) -> None:
    assert leans(question) is not alone
