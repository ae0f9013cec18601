"""What only looks like a question does not bear on it: the judge says of the best notes whether they answer it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest

from plume_memory import AnswerPolicy, MemoryPool, ParametricMemory
from plume_memory.answering import answered
from plume_memory.engine import Engine
from plume_memory.testing import tiny_engine

MARCH = datetime(2026, 3, 4, tzinfo=UTC)
GENERAL = "Which country has the longest coastline?"


class Says:
    """A judge that finds every text to answer a question with the same log-odds, or one text with others."""

    sha256 = "says"

    def __init__(self) -> None:
        self.odds = -4.0
        self.but: dict[str, float] = {}
        self.asked: list[tuple[str, str, str]] = []

    def support(self, claims: Sequence[tuple[str, str, str]]) -> list[float]:
        self.asked += claims
        return [next((odds for said, odds in self.but.items() if said in text), self.odds) for text, *_ in claims]


@pytest.fixture(autouse=True)
def _unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    """No note is sure by its gain; a tiny model's gains mean nothing."""
    monkeypatch.setattr(answered, "SURE", -1e12)


@pytest.fixture
def judge() -> Says:
    return Says()


@pytest.fixture
def engine(judge: Says) -> Engine:
    return _engine(judge, min_gain=-1.0)


@pytest.fixture
def memory(engine: Engine) -> Iterator[ParametricMemory]:
    with ParametricMemory.open("ann", url="sqlite://", engine=engine) as made:
        for text in ("Rex lives in Bern.", "Bern has a bear park.", "Ada sails to Norway.", "Ada rents a boat."):
            made.update(text, derive=False)
        yield made


def _engine(judge: Says, **policy: object) -> Engine:
    made = tiny_engine(policy=AnswerPolicy(retrieval="reader", unit_tokens=200, **policy))  # type: ignore[arg-type]
    made.judge = judge  # type: ignore[assignment]
    return made


def test_a_question_that_no_note_answers_gets_none(memory: ParametricMemory, judge: Says) -> None:
    assert not memory.recall(GENERAL)
    assert {question for _, question, _ in judge.asked} == {GENERAL}
    assert {answer for *_, answer in judge.asked} == {""}


def test_a_question_that_one_note_answers_gets_all_that_bear(memory: ParametricMemory, judge: Says) -> None:
    best = memory.route(GENERAL, k=3)[2].unit
    judge.but = {best.words.strip(): 2.0}
    assert len(memory.recall(GENERAL).notes) == 4


def test_what_gains_much_is_not_judged(memory: ParametricMemory, judge: Says, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answered, "SURE", 4.0)  # times a `min_gain` below 0
    assert memory.recall(GENERAL)
    assert judge.asked == []


def test_the_best_three_are_judged(memory: ParametricMemory, judge: Says) -> None:
    ranked = memory.route(GENERAL, k=4)
    memory.recall(GENERAL)
    assert [text for text, *_ in judge.asked] == [one.unit.text for one in ranked[:3]]


def test_a_memory_that_answers_gives_its_notes_beside_one_that_does_not(engine: Engine, judge: Says) -> None:
    judge.but = {"Bern": 2.0}
    with MemoryPool("sqlite://", engine=engine) as pool:
        pool.memory("ann").update("Rex lives in Bern.", derive=False)
        pool.memory("bob").update("Ada sails to Norway.", derive=False)
        assert [note.memory for note in pool.recall(GENERAL, ["ann", "bob"]).notes] == ["ann"]


@pytest.mark.parametrize(
    "message",
    ["Plan a trip to Bern.", "Ada is coming over with her dog.", "Which museum would be good for me?"],
    ids=["an order", "a statement", "in the first person"],
)
def test_what_is_no_question_or_of_the_asker_is_not_judged(memory: ParametricMemory, judge: Says, message: str) -> None:
    assert memory.recall(message)
    assert judge.asked == []


def test_where_everything_is_relevant_or_nobody_judges_nothing_is_left_out(judge: Says) -> None:
    always, unjudged = _engine(judge), _engine(judge, min_gain=-1.0)
    unjudged.judge = None
    for at, engine in enumerate((always, unjudged)):
        with ParametricMemory.open(f"ann-{at}", url="sqlite://", engine=engine) as memory:
            memory.update("Rex lives in Bern.", derive=False)
            assert memory.recall(GENERAL)
    assert judge.asked == []


def test_a_reply_is_judged_with_the_question_that_it_answers(engine: Engine, judge: Says) -> None:
    with ParametricMemory.open("ann", url="sqlite://", engine=engine) as memory:
        memory.update("Where is the launch?", speaker="Mara", observed_at=MARCH, derive=False)
        memory.update("At Lotti's, on the quay.", speaker="Jonas", observed_at=MARCH, derive=False)
        memory.recall("Where is the launch?")
    ((text, *_),) = judge.asked
    assert text == "Mara (2026-03-04):\nWhere is the launch?\nJonas (2026-03-04):\nAt Lotti's, on the quay."


def test_what_answers_no_more_is_not_judged(memory: ParametricMemory, judge: Says) -> None:
    memory.update("Rex lives in Thun now.", replaces=[1], derive=False)
    memory.recall("Where does Rex live?")
    assert not any("Rex lives in Bern" in text for text, *_ in judge.asked)


def test_a_past_that_is_asked_for_is_judged_with_it(engine: Engine, judge: Says) -> None:
    judge.but = {"Rex lives in Bern": 2.0}
    with ParametricMemory.open("ann", url="sqlite://", engine=engine) as memory:
        memory.update("Rex lives in Bern.", derive=False)
        memory.update("Rex lives in Thun now.", replaces=[1], derive=False)
        assert not memory.recall("Where does Rex live?")
        assert len(memory.recall("Where does Rex live?", history=True).notes) == 2
