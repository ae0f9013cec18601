"""What is drawn depends on ids and seed alone."""

from pathlib import Path

import pytest

from eval.conversations.locomo import read_locomo
from eval.conversations.records import IDLE_KIND, Conversation, Question, drawn, with_idle
from plume_memory.errors import InvalidInput

MANY = [
    Conversation(
        f"c{n}",
        (),
        tuple(Question(f"q{i}", f"{n} {i}?", ("a",), "k", answerable=i < 6) for i in range(10)),
    )
    for n in range(6)
]


def test_a_draw_keeps_the_order_and_is_the_same_for_the_same_seed() -> None:
    some = drawn(MANY, count=3, questions=4, seed=1)

    assert some == drawn(list(reversed(MANY)), count=3, questions=4, seed=1)[::-1]
    assert [one.id for one in some] == sorted(one.id for one in some)
    assert [sum(q.answerable for q in one.questions) for one in some] == [4, 4, 4]
    assert [sum(not q.answerable for q in one.questions) for one in some] == [2, 2, 2]
    assert some != drawn(MANY, count=3, questions=4, seed=2)


def test_without_numbers_everything_is_drawn() -> None:
    assert drawn(MANY, count=None, questions=None, seed=0) == MANY
    assert drawn(MANY, count=99, questions=99, seed=0) == MANY


@pytest.mark.parametrize("wrong", [{"count": 0, "questions": None}, {"count": None, "questions": 0}])
def test_nothing_cannot_be_drawn(wrong: dict[str, int | None]) -> None:
    with pytest.raises(InvalidInput, match="at least 1, got 0"):
        drawn(MANY, seed=0, **wrong)  # type: ignore[arg-type]


def test_idle_messages_come_behind_and_cannot_be_answered(locomo_file: Path) -> None:
    (one,) = read_locomo(locomo_file)
    more = with_idle(one).questions[len(one.questions) :]

    assert len(more) == 10
    assert {(q.kind, q.answerable, q.gold) for q in more} == {(IDLE_KIND, False, ())}
    assert with_idle(one).digest == one.digest
