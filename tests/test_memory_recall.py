"""What a memory recalls: what bears on a question, each note with its day, speaker, version and place."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from plume_memory import AnswerPolicy, MemoryPool, ParametricMemory
from plume_memory.errors import InvalidInput
from plume_memory.recalling.rendering import INSTRUCTION
from plume_memory.testing import tiny_engine

READER = tiny_engine(policy=AnswerPolicy(retrieval="reader", unit_tokens=200))
WORDS = tiny_engine(policy=AnswerPolicy(unit_tokens=200))
MARCH = datetime(2026, 3, 4, tzinfo=UTC)
CHAT = """[04.03.26, 09:15:22] Anna: When do we meet?
[04.03.26, 09:16:02] Ben: At seven at the station.
[04.03.26, 09:17:00] Anna: Fine, see you there.
[05.03.26, 20:01:00] Ben: I left my umbrella at the station.
"""


@pytest.fixture(params=[READER, WORDS], ids=["reader", "lexical"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ParametricMemory]:
    with ParametricMemory.open("ann", url=f"sqlite:///{tmp_path / 'log.db'}", engine=request.param) as made:
        yield made


@pytest.fixture
def words() -> Iterator[ParametricMemory]:
    with ParametricMemory.open("ann", url="sqlite://", engine=WORDS) as made:
        yield made


@pytest.fixture
def sentences() -> Iterator[ParametricMemory]:
    with ParametricMemory.open("ann", url="sqlite://", engine=READER) as made:
        yield made


def test_a_note_has_its_day_speaker_version_and_place_in_the_text(memory: ParametricMemory) -> None:
    text = "My dog is called Rex."
    memory.update(text, speaker="Anna", observed_at=MARCH, derive=False)
    (note,) = memory.recall("Who is Rex?").notes
    assert (note.memory, note.version, note.speaker, note.day) == ("ann", 1, "Anna", date(2026, 3, 4))
    assert text[note.span.start : note.span.end] == note.text == text
    assert note.is_current
    assert f'- version 1, 2026-03-04, by "Anna": "{text}"' in memory.recall("Who is Rex?").text


def test_where_nothing_says_the_day_it_is_the_one_on_which_it_was_written(memory: ParametricMemory) -> None:
    written = memory.update("My dog is called Rex.", derive=False)
    (note,) = memory.recall("Who is Rex?").notes
    assert note.said_at == written.created_at


def test_notes_come_in_the_order_in_which_they_were_said(memory: ParametricMemory) -> None:
    memory.update("Rex chased a neighbour's cat.", observed_at=datetime(2026, 4, 30, tzinfo=UTC), derive=False)
    memory.update("Rex eats nothing but fish.", observed_at=MARCH, derive=False)
    memory.update("Rex sleeps all day.", derive=False)
    found = memory.recall("How is Rex?", max_tokens=4000)
    assert [note.version for note in found.notes] == [2, 1, 3]
    assert found.tokens == memory.at().recallable.engine.segmenter.count_tokens(found.text)


def test_nothing_is_recalled_where_nothing_bears_and_for_small_talk(words: ParametricMemory) -> None:
    assert not words.recall("Where do I live?")
    words.update("I live in Bern. Hi and thanks!", derive=False)
    assert not words.recall("What is the price of copper?")
    assert not words.recall("Hi, thanks!")
    assert str(words.recall("Hi!")) == ""
    with pytest.raises(InvalidInput, match="empty question"):
        words.recall(" ")


def test_what_was_replaced_is_recalled_only_where_it_is_asked_for(memory: ParametricMemory) -> None:
    memory.update("Rex lives in Bern.", derive=False)
    memory.update("Rex lives in Thun now.", replaces=[1], derive=False)
    assert [note.text for note in memory.recall("Where is Rex?").notes] == ["Rex lives in Thun now."]
    both = memory.recall("Where is Rex?", history=True)
    assert [(note.text, note.is_current) for note in both.notes] == [
        ("Rex lives in Bern.", False),
        ("Rex lives in Thun now.", True),
    ]
    assert 'no longer holds: "Rex lives in Bern."' in both.text


def test_where_words_alone_tell_what_replaces_what_only_what_is_said_anew_is_left_out(
    sentences: ParametricMemory,
) -> None:
    sentences.update("Rex lives in Bern.", derive=False)
    sentences.update("Rex eats nothing but fish.", derive=False)
    sentences.update("Rex lives in Thun now.", derive=False)
    assert any(one.superseded and "fish" in one.unit.text for one in sentences.route("What of Rex?", k=9))
    found = sentences.recall("What of Rex?").notes
    assert [note.text for note in found] == ["Rex eats nothing but fish.", "Rex lives in Thun now."]


def test_a_reply_comes_with_what_it_answers(sentences: ParametricMemory) -> None:
    sentences.update(CHAT, derive=False)
    found = sentences.recall("Where is it?").notes
    assert [(note.speaker, note.text, note.completes) for note in found] == [
        ("Anna", "When do we meet?", True),
        ("Ben", "At seven at the station.", False),
        ("Anna", "Fine, see you there.", False),
        ("Ben", "I left my umbrella at the station.", False),
    ]
    assert CHAT[found[1].span.start : found[1].span.end].strip().endswith("At seven at the station.")


def test_a_question_comes_with_its_answer_where_it_says_something_too(sentences: ParametricMemory) -> None:
    sentences.update("Anna: I booked a table for Sunday. Do you come?\nBen: Yes.\nAnna: Good.", derive=False)
    booked = next(one for one in sentences.at().recallable.bearing("Who?", 9) if "booked" in one.note.text)
    assert [(note.text, note.completes) for note in booked.beside] == [("Yes.", True)]


def test_messages_that_are_updates_of_their_own_complete_each_other_within_an_hour() -> None:
    def completed(minutes: int) -> list[str]:
        with ParametricMemory.open(f"after {minutes}", url="sqlite://", engine=READER) as memory:
            memory.update("When do we meet?", speaker="Anna", observed_at=MARCH, derive=False)
            later = MARCH + timedelta(minutes=minutes)
            memory.update("At seven.", speaker="Ben", observed_at=later, derive=False)
            return [note.text for note in memory.recall("Where is it?").notes]

    assert completed(minutes=59) == ["When do we meet?", "At seven."]
    assert completed(minutes=61) == ["At seven."]


def test_a_neighbour_that_has_expired_completes_nothing() -> None:
    with ParametricMemory.open("ann", url="sqlite://", engine=READER) as memory:
        memory.update("Where is the key?", speaker="Anna", observed_at=MARCH, derive=False)
        reply = {"speaker": "Ben", "observed_at": MARCH, "expires_at": MARCH + timedelta(days=1)}
        memory.update("Under the blue mat.", derive=False, **reply)  # type: ignore[arg-type]
        assert [note.text for note in memory.recall("Where is it?").notes] == []
        memory.update("I wait. Where are you?", speaker="Anna", observed_at=MARCH, derive=False)
        memory.update("At the kiosk.", derive=False, **reply)  # type: ignore[arg-type]
        assert "At the kiosk." not in memory.recall("Who waits?").text


def test_a_period_is_asked_for_by_the_units_own_day(sentences: ParametricMemory) -> None:
    sentences.update(CHAT, derive=False)

    def said(**period: date) -> list[str]:
        return [note.text[:9] for note in sentences.recall("station", **period).notes if not note.completes]

    assert said() == ["At seven ", "Fine, see", "I left my"]
    assert said(since=date(2026, 3, 5)) == ["I left my"]
    assert said(until=date(2026, 3, 4)) == ["At seven ", "Fine, see"]
    assert said(until=date(2026, 3, 3)) == []
    assert said(since=date(2026, 3, 5), until=date(2026, 3, 5)) == ["I left my"]
    late = datetime(2026, 3, 5, 20, 1, 0, tzinfo=UTC)
    assert said(since=late) == ["I left my"]
    assert said(since=late + timedelta(seconds=1)) == []
    assert said(until=late - timedelta(seconds=1)) == ["At seven ", "Fine, see"]


def test_a_day_is_one_of_the_clock_of_whoever_said_it() -> None:
    with ParametricMemory.open("ann", url="sqlite://", engine=READER) as memory:
        night = datetime(2026, 3, 4, 23, 30, tzinfo=timezone(timedelta(hours=-5)))  # the fifth in UTC
        memory.update("The key is at the station.", observed_at=night, derive=False)

        def said(**period: date) -> bool:
            return bool(memory.recall("Where is the key?", **period))

        assert said(since=date(2026, 3, 4), until=date(2026, 3, 4))
        assert not said(since=date(2026, 3, 5))
        assert said(since=night, until=night)
        assert not said(since=night + timedelta(seconds=1))


def test_the_last_turns_of_a_conversation_are_looked_up(words: ParametricMemory) -> None:
    words.update("Mara leads the backend team. Jonas leads the frontend team. The office has a frontend.", derive=False)
    found = words.recall(
        [
            {"role": "user", "content": "Who leads the backend team?"},
            {"role": "assistant", "content": "Mara."},
            {"role": "user", "content": "And what about the frontend?"},
        ],
    )
    assert found.question == "Who leads the backend team?\nMara.\nAnd what about the frontend?"
    assert "Jonas leads the frontend team." in found.notes[0].text


def test_a_counter_of_the_callers_own_counts_and_other_options_are_refused(memory: ParametricMemory) -> None:
    memory.update("My dog is called Rex.", derive=False)
    found = memory.recall("Who is Rex?", count_tokens=lambda text: len(text.split()), max_tokens=60)
    assert found.tokens == len(found.text.split())
    assert not memory.recall("Who is Rex?", count_tokens=lambda text: 61, max_tokens=60)
    with pytest.raises(TypeError, match="'tokens'"):
        memory.recall("Who is Rex?", tokens=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="k"):
        memory.recall("Who is Rex?", k=0)


def test_several_memories_are_read_at_once_with_their_names(tmp_path: Path) -> None:
    with MemoryPool(f"sqlite:///{tmp_path / 'log.db'}", engine=WORDS) as pool:
        pool.memory("ann").update("My launch is in May.", observed_at=MARCH, derive=False)
        pool.memory("team").update("The launch is on June 3.", derive=False)
        pool.memory("bob").update("Bob's launch is secret.", derive=False)
        found = pool.recall("When is the launch?", ["ann", "team", "nobody", "ann"])
        assert [note.memory for note in found.notes] == ["ann", "team"]
        assert found.memories == ("ann", "team")
        assert '- "ann", version 1, 2026-03-04: "My launch is in May."' in found.text
        assert len(pool.recall("When is the launch?", ["ann", "team"], k=1).notes) == 1
        assert pool.names() == ["ann", "bob", "team"], "who has no memory gets none by being asked"
        assert not pool.recall("When is the launch?", ["nobody"])


def test_a_profile_is_of_what_holds_and_says_the_same_each_time(memory: ParametricMemory) -> None:
    memory.update("I play the cello. I live in Bern. When is my lesson?", derive=False)
    memory.update("I live in Thun.", replaces=[1], derive=False)
    memory.update("I play the cello in a quartet. I am allergic to peanuts.", derive=False)
    found = memory.profile(max_tokens=4000)
    said = [note.text.strip() for note in found.notes]
    assert "When is my lesson?" not in said
    assert "I live in Bern." not in said
    assert "I am allergic to peanuts." in " ".join(said)
    assert memory.profile(max_tokens=4000) == found
    assert INSTRUCTION in found.text
    assert memory.profile(max_tokens=found.tokens - 1).tokens < found.tokens
    with pytest.raises(InvalidInput, match="max_tokens"):
        memory.profile(max_tokens=0)


@pytest.mark.model
def test_the_real_model_recalls_what_bears_and_nothing_else(tmp_path: Path) -> None:
    with ParametricMemory.open("ann", url=f"sqlite:///{tmp_path / 'log.db'}") as memory:
        for fact in (
            "Mara Vogt leads the backend team.",
            "Jonas Brandt leads the frontend team.",
            "My sister Ines lives in Bern.",
            "Our launch was moved to June 3.",
            "My dog is called Rex.",
        ):
            memory.update(fact, derive=False)
        assert [note.text for note in memory.recall("When do we launch?").notes] == ["Our launch was moved to June 3."]
        for said in ("Hi!", "Write me a haiku about rain", "What is 17 times 23?", "Thanks, that helps!"):
            assert not memory.recall(said), said
        found = memory.recall(
            [
                {"role": "user", "content": "Who leads the backend team?"},
                {"role": "assistant", "content": "Mara Vogt does."},
                {"role": "user", "content": "And what about the frontend?"},
            ]
        )
        assert "Jonas Brandt leads the frontend team." in [note.text for note in found.notes]
