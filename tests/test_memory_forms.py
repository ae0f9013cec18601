"""What an update is, whose and of when, is kept in the log and gives the same units again."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from plume_memory import AnswerPolicy, ParametricMemory
from plume_memory.errors import InvalidInput
from plume_memory.records import Unit
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine(policy=AnswerPolicy(retrieval="reader", unit_tokens=400))
CEST = timezone(timedelta(hours=2))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ParametricMemory]:
    with ParametricMemory.open("ann", url=f"sqlite:///{tmp_path / 'log.db'}", engine=ENGINE) as made:
        yield made


def units_of(memory: ParametricMemory) -> list[Unit]:
    return sorted((one.unit for one in memory.route("who", k=99)), key=lambda unit: unit.position)


def reopened(memory: ParametricMemory, tmp_path: Path) -> list[Unit]:
    with ParametricMemory.open("ann", url=f"sqlite:///{tmp_path / 'log.db'}", engine=ENGINE) as again:
        return units_of(again)


def test_a_form_a_speaker_and_a_time_are_kept_with_the_version(memory: ParametricMemory, tmp_path: Path) -> None:
    at = datetime(2026, 3, 4, 23, 30, tzinfo=CEST)
    version = memory.update("I saw her yesterday", form="notes", speaker="Bo", observed_at=at, derive=False)
    assert version.metadata["plume"] == {"form": "notes", "speaker": "Bo", "observed_at": "2026-03-04T23:30:00+02:00"}
    (unit,) = units_of(memory)
    assert (unit.speaker, unit.observed_at) == ("Bo", at)
    assert unit.text == "Bo (2026-03-04):\nI saw her yesterday (2026-03-03)"
    assert unit.text[unit.own :] == "I saw her yesterday (2026-03-03)"
    assert memory.entry(1).text == "I saw her yesterday"
    assert reopened(memory, tmp_path) == [unit]


def test_an_answer_stands_under_its_question(memory: ParametricMemory, tmp_path: Path) -> None:
    version = memory.update("In Bern. I moved in May.", in_answer_to="Where do you live?", derive=False)
    assert version.metadata["plume"] == {"in_answer_to": "Where do you live?"}
    found = units_of(memory)
    assert [unit.text for unit in found] == ['In answer to "Where do you live?"\nIn Bern. I moved in May.'], "one thing"
    assert found[0].text[found[0].own :] == "In Bern. I moved in May."
    memory.update("- peanuts\n- shellfish", in_answer_to="Do you have any allergies?", derive=False)
    assert units_of(memory)[1].text == 'In answer to "Do you have any allergies?"\n- peanuts\n- shellfish'
    assert reopened(memory, tmp_path) == units_of(memory)


def test_an_update_that_extends_the_history_reads_its_form_too(memory: ParametricMemory, tmp_path: Path) -> None:
    memory.update("I live in Thun.", derive=False)
    assert len(units_of(memory)) == 1
    memory.update("Ann: hello", form="chat", derive=False)
    found = units_of(memory)
    assert [unit.speaker for unit in found] == [None, "Ann"]
    assert reopened(memory, tmp_path) == found


def test_without_them_the_metadata_is_the_callers(memory: ParametricMemory) -> None:
    assert memory.update("I live in Thun.", metadata={"a": 1}, derive=False).metadata == {"a": 1}


def test_messages_are_a_chat(memory: ParametricMemory) -> None:
    turns = [
        {"role": "user", "content": "I moved to Thun", "timestamp": "2026-03-04T09:00:00+00:00"},
        {"role": "assistant", "content": "Nice!"},
    ]
    version = memory.update(messages=turns, derive=False)
    assert version.metadata["plume"] == {"form": "chat"}
    assert [unit.text for unit in units_of(memory)] == ["2026-03-04:\nI moved to Thun", "Assistant:\nNice!"]


def test_a_part_that_is_forgotten_is_read_by_its_form_no_more(memory: ParametricMemory, tmp_path: Path) -> None:
    memory.update("[04.03.26, 09:15:22] Ann: one\n[04.03.26, 09:16:22] Bo: two", derive=False)
    memory.forget(1, text="[04.03.26, 09:15:22] Ann: one\n")
    assert [unit.speaker for unit in units_of(memory)] == [None], "one message alone is not clearly a chat"
    memory.update("[04.03.26, 09:15:22] Ann: one\n[04.03.26, 09:16:22] Bo: two", form="chat", derive=False)
    memory.forget(3, text="[04.03.26, 09:15:22] Ann: one\n")
    assert [unit.speaker for unit in units_of(memory)] == [None, "Bo"]
    assert [unit.text for unit in reopened(memory, tmp_path)] == [unit.text for unit in units_of(memory)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": "a", "form": "poem"},
        {"text": "a", "speaker": " "},
        {"text": "a", "speaker": "a\nb"},
        {"text": "a", "observed_at": "yesterday"},
        {"text": "a", "in_answer_to": " "},
        {"text": "a", "in_answer_to": 3},
        {"text": "a", "in_answer_to": "x" * 2001},
        {"text": "a", "messages": [{"role": "user", "content": "b"}]},
        {"messages": []},
        {"messages": [{"role": "user", "content": {1, 2}}]},
    ],
)
def test_what_is_none_is_refused(memory: ParametricMemory, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        memory.update(**wrong, derive=False)  # type: ignore[arg-type]
    assert memory.version == 0
