"""Asked when, a memory names the day: units have it beside the words that name it from where they stand."""

from datetime import UTC, datetime

import pytest

from plume_memory import ParametricMemory

SAID_AT = datetime(2026, 3, 4, 10, tzinfo=UTC)  # a Wednesday
TOLD = (
    ("I sold my boat yesterday.", "When did I sell my boat?", "2026-03-03"),
    ("Heidi moved to Thun last Friday.", "When did Heidi move to Thun?", "2026-02-27"),
    ("We have the launch party next Tuesday.", "When is the launch party?", "2026-03-10"),
    ("Tom broke his arm two weeks ago.", "When did Tom break his arm?", "2026-02-18"),
    ("My driving test is in three days.", "When is my driving test?", "2026-03-07"),
    ("Ines started at Blomqvist today.", "When did Ines start at Blomqvist?", "2026-03-04"),
    ("The heating was repaired on Monday.", "When was the heating repaired?", "2026-03-02"),
    ("I saw the dentist the day before yesterday.", "When did I see the dentist?", "2026-03-02"),
    ("Karl returned from Oslo last night.", "When did Karl return from Oslo?", "2026-03-03"),
    ("I fly to Lisbon in two days.", "When do I fly to Lisbon?", "2026-03-06"),
)


@pytest.mark.model
def test_the_answer_names_the_day() -> None:
    with ParametricMemory.open("ann", url="sqlite://") as memory:
        for text, _, _ in TOLD:
            memory.update(text, observed_at=SAID_AT, derive=False)
        answers = memory.ask_many([question for _, question, _ in TOLD], unknown="bare")
    missed = [answer.text for answer, (_, _, day) in zip(answers, TOLD, strict=True) if day not in answer.text]
    assert len(missed) <= 1, missed
