"""Which unit an answer is from."""

import math

import pytest

from plume_memory.answering.grounding import last_telling, log_score, source_of, takes_from
from plume_memory.records import ScoredUnit, Unit

TEXTS = ("Alice lives in Bern.", "Alice works in Geneva.", "My name is Juno Abara.")
UNITS = [ScoredUnit(Unit(i, i + 1, 0, len(text), text), 1.0 - i, True) for i, text in enumerate(TEXTS)]


@pytest.mark.parametrize(
    ("question", "answer", "source"),
    [
        ("Where does Alice live?", "Alice lives in Bern.", 0),
        ("Where does Alice live?", "Alice lives in Geneva.", 1),  # wrongly, and this is where it is from
        ("What is my name?", "Your name is Juno Abara.", 2),
        ("Where does Alice live?", "I do not know.", 0),  # nobody says it: the router's first
        ("Where does Alice live?", "", 0),
    ],
)
def test_it_is_the_one_that_holds_what_the_answer_adds(question: str, answer: str, source: int) -> None:
    assert source_of(answer, question, UNITS) == UNITS[source]


def test_an_answer_from_no_memory_has_no_source() -> None:
    assert source_of("Paris.", "What is the capital of France?", []) is None


TOLD = (
    "The borehole has reached 412 metres.",
    "The drill team had its best fortnight.",
    "A good week brought the bit to 803 metres.",
    "After a repair it went on, at 803 metres still.",
)
DRILLED = [ScoredUnit(Unit(i, i + 1, 0, len(text), text), 0.5, True) for i, text in enumerate(TOLD)]


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ("The depth of the borehole is 412 metres.", 1),
        ("The depth of the borehole is 803 metres.", 4),  # said twice: when it was said last
        ("803 metres", 4),
        ("The depth of the borehole is 530 metres.", None),  # nobody says it
        ("The depth of the borehole is metres 412.", None),  # nor in this order
        ("How deep the borehole is.", None),  # the question's own words
        ("", None),
    ],
)
def test_what_is_said_last_counts_from_its_latest_telling(answer: str, version: int | None) -> None:
    found = last_telling(answer, "How deep is the borehole?", DRILLED)
    assert (found.unit.version if found else None) == version


@pytest.mark.parametrize(
    ("answer", "takes"),
    [
        ("The depth of the borehole is 803 metres.", True),
        ("803", True),
        ("The bit", True),
        ("The borehole is how deep the drill team says.", True),
        ("The borehole is deep.", False),  # the question's own words, and a function word of theirs
        ("It depends on many factors.", False),
        ("", False),
    ],
)
def test_an_answer_takes_what_the_question_did_not_say(answer: str, takes: bool) -> None:
    assert takes_from(answer, "How deep is the borehole?", DRILLED) is takes


def test_where_the_words_cannot_tell_an_answer_takes() -> None:
    """A yes to a whole sentence, a script without terms, no unit at all."""

    def unit(text: str) -> list[ScoredUnit]:
        return [ScoredUnit(Unit(0, 1, 0, len(text), text), 0.5, True)]

    assert takes_from("Yes.", "Is Leo's car green?", unit("Leo's car is green."))
    assert not takes_from("No.", "Is Leo's car red?", unit("Leo's car is green."))
    assert takes_from("В Москве.", "Где я живу?", unit("Я живу в Москве."))
    assert takes_from("Paris.", "What is the capital of France?", [])


@pytest.mark.parametrize(
    ("told", "own", "question", "answer"),
    [
        ("Our standup is at 9:30.", 0, "When is our standup?", "Our standup is at noon."),
        ("Our office is not in Bern.", 0, "Where is the office?", "It is not known to us."),
        ("User profile\ncity: Porto", 13, "Where do I live?", "Your city is the world."),
        ("User profile\ncity: Porto", 13, "Where do I live?", "As a user, you live on Earth."),
    ],
)
def test_words_that_name_nothing_headings_and_labels_are_not_taken(
    told: str, own: int, question: str, answer: str
) -> None:
    """They say what a value is of, not what it is."""
    assert not takes_from(answer, question, [ScoredUnit(Unit(0, 1, 0, len(told), told, own), 0.5, True)])


def test_where_a_label_is_all_that_is_new_it_tells() -> None:
    text = "Allergies: none"
    assert takes_from("I have allergies.", "Is it none?", [ScoredUnit(Unit(0, 1, 0, len(text), text), 0.5, True)])


def test_the_score_of_an_evidence_is_its_best_units_and_nothing_is_endless() -> None:
    one, other, none = (ScoredUnit(Unit(0, 1, 0, 1, "a"), score, True) for score in (0.5, 0.25, 0.0))
    assert log_score([other, one]) == pytest.approx(math.log(0.5))
    assert log_score([none]) == pytest.approx(math.log(1e-9))
    assert log_score([]) == 0.0


def test_only_the_units_of_an_answer_tell_when() -> None:
    assert last_telling("The depth is 803 metres.", "How deep is the borehole?", DRILLED[:3]) == DRILLED[2]
    assert last_telling("The depth is 803 metres.", "How deep is the borehole?", DRILLED[:2]) is None
