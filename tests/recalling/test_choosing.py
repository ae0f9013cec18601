"""Which notes are given: the best that fit, near duplicates once, in the order they were said."""

from datetime import UTC, datetime, timedelta

import pytest

from plume_memory.errors import InvalidInput
from plume_memory.recalling.choosing import Found, chosen, first_that_fit
from plume_memory.recalling.notes import Note, Recall
from plume_memory.records import Span

DAY = datetime(2026, 3, 4, tzinfo=UTC)


def words(text: str) -> int:
    return len(text.split())


def note(text: str, *, day: int = 0, score: float = 0.5, memory: str = "ann", speaker: str | None = None) -> Note:
    return Note(memory, day + 1, Span(0, len(text)), text, DAY + timedelta(days=day), speaker, score)


def recall(*found: Found | Note, k: int = 8, max_tokens: int = 1000, memories: tuple[str, ...] = ("ann",)) -> Recall:
    listed = [one if isinstance(one, Found) else Found(one) for one in found]
    return chosen("q", memories, listed, count_tokens=words, k=k, max_tokens=max_tokens)


def texts(found: Recall) -> list[str]:
    return [one.text for one in found.notes]


def test_the_best_are_chosen_and_stand_in_the_order_they_were_said() -> None:
    early, late, worst = note("early", score=0.2), note("late", day=3, score=0.9), note("worst", day=1, score=0.1)
    assert texts(recall(late, early, worst, k=2)) == ["early", "late"]


def test_times_of_several_zones_are_compared() -> None:
    west = Note("ann", 1, Span(0, 1), "west", datetime.fromisoformat("2026-03-04T23:00:00-08:00"))
    east = Note("ann", 2, Span(0, 1), "east", datetime.fromisoformat("2026-03-05T03:00:00+09:00"))
    assert texts(recall(west, east)) == ["east", "west"]


def test_i_is_somebody_else_in_another_memory() -> None:
    found = recall(
        note("I am allergic to nuts."), note("I am allergic to nuts.", memory="bob"), memories=("ann", "bob")
    )
    assert [one.memory for one in found.notes] == ["ann", "bob"]
    both = recall(note("Late.", speaker="Ben"), note("Late.", speaker="Ben", memory="bob"), memories=("ann", "bob"))
    assert len(both.notes) == 1


def test_near_duplicates_come_once_the_latest_of_them() -> None:
    found = recall(
        note("I live in Bern.", score=0.9),
        note("I do live in Bern!", day=2, score=0.3),
        note("I live in Thun.", day=1, score=0.2),
        k=2,
    )
    assert texts(found) == ["I live in Thun.", "I do live in Bern!"], "and it has the place of the best"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Anna lives in Bern.", "Ben lives in Bern."),
        ("Room 12 is free.", "Room 14 is free."),
        ("I like tea.", "I do not like tea."),
        ("Anna is taller than Ben.", "Ben is taller than Anna."),
        ("???", "!!!"),
    ],
)
def test_what_differs_in_a_name_a_number_or_a_no_is_no_duplicate(one: str, other: str) -> None:
    assert len(recall(note(one), note(other, day=1)).notes) == 2


def test_the_same_words_of_two_people_are_two_notes() -> None:
    assert len(recall(note("I like tea.", speaker="Anna"), note("I like tea.", day=1, speaker="Ben")).notes) == 2


def test_a_budget_takes_the_best_and_of_what_is_too_long_the_next() -> None:
    frame = words(recall(note("a")).text)
    long, short = note("long " * 50, score=0.9), note("short", day=1, score=0.5)
    found = recall(long, short, max_tokens=frame + 10)
    assert texts(found) == ["short"]
    assert found.tokens == words(found.text) <= frame + 10
    nothing = recall(long, short, max_tokens=3)
    assert (nothing.notes, nothing.tokens, nothing.text) == ((), 0, "")


def test_what_completes_a_note_comes_with_it_once_and_only_where_it_fits() -> None:
    asks, answers = note("When do we meet?"), note("At seven.", day=1)
    both = recall(Found(answers, (asks,)), Found(note("By car.", day=2), (asks,)))
    assert texts(both) == ["When do we meet?", "At seven.", "By car."]
    frame = words(recall(answers).text)
    assert texts(recall(Found(answers, (asks,)), max_tokens=frame + 1)) == ["At seven."]


def test_a_recall_of_less_than_one_note_or_token_is_refused() -> None:
    with pytest.raises(InvalidInput, match="k=0"):
        recall(k=0)
    with pytest.raises(InvalidInput, match="max_tokens=0"):
        recall(max_tokens=0)


def test_a_profile_keeps_its_order_and_ends_where_the_next_would_not_fit() -> None:
    def profile(max_tokens: int) -> list[str]:
        notes = [note("I play the cello.", day=2), note("I did play the cello.", day=3), note("I like tea.", day=1)]
        return texts(first_that_fit("ann", iter(notes), count_tokens=words, max_tokens=max_tokens))

    assert profile(1000) == ["I did play the cello.", "I like tea."]
    assert len(profile(words(recall(note("I play the cello.")).text) + 2)) == 1
    assert profile(1) == []
