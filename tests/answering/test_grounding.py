"""Which unit an answer is from, and whether it is grounded in its evidence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.answering.grounding import is_cut_short, is_grounded, source_of
from plume_memory.records import ScoredUnit, Unit

TEXTS = ("Alice lives in Bern.", "Alice works in Geneva.", "My name is Juno Abara.")
UNITS = [ScoredUnit(Unit(i, i + 1, 0, len(text), text), 1.0 - i) for i, text in enumerate(TEXTS)]


@pytest.mark.parametrize(
    ("question", "answer", "source"),
    [
        ("Where does Alice live?", "Alice lives in Bern.", 0),
        ("Where does Alice live?", "Alice lives in Geneva.", 1),  # wrongly, and this is where it is from
        ("What is my name?", "Your name is Juno Abara.", 2),
        ("Where does Alice live?", "I do not know.", 0),  # nobody says it: the first in rank
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
DRILLED = [ScoredUnit(Unit(i, i + 1, 0, len(text), text), 0.5) for i, text in enumerate(TOLD)]


@pytest.mark.parametrize(
    ("answer", "grounded"),
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
def test_an_answer_is_grounded_in_what_the_question_did_not_say(answer: str, grounded: bool) -> None:
    assert is_grounded(answer, "How deep is the borehole?", DRILLED) is grounded


def test_where_the_words_cannot_tell_an_answer_is_grounded() -> None:
    """A yes to a whole sentence, a script without terms, no unit at all."""

    def unit(text: str) -> list[ScoredUnit]:
        return [ScoredUnit(Unit(0, 1, 0, len(text), text), 0.5)]

    assert is_grounded("Yes.", "Is Leo's car green?", unit("Leo's car is green."))
    assert not is_grounded("No.", "Is Leo's car red?", unit("Leo's car is green."))
    assert is_grounded("В Москве.", "Где я живу?", unit("Я живу в Москве."))
    assert is_grounded("Paris.", "What is the capital of France?", [])


@pytest.mark.parametrize(
    ("told", "own", "question", "answer"),
    [
        ("Our standup is at 9:30.", 0, "When is our standup?", "Our standup is at noon."),
        ("Our office is not in Bern.", 0, "Where is the office?", "It is not known to us."),
        ("User profile\ncity: Porto", 13, "Where do I live?", "Your city is the world."),
        ("User profile\ncity: Porto", 13, "Where do I live?", "As a user, you live on Earth."),
    ],
)
def test_words_that_name_nothing_headings_and_labels_ground_no_answer(
    told: str, own: int, question: str, answer: str
) -> None:
    """They say what a value is of, not what it is."""
    assert not is_grounded(answer, question, [ScoredUnit(Unit(0, 1, 0, len(told), told, own), 0.5)])


def test_where_a_label_is_all_that_is_new_it_tells() -> None:
    text = "Allergies: none"
    assert is_grounded("I have allergies.", "Is it none?", [ScoredUnit(Unit(0, 1, 0, len(text), text), 0.5)])


@given(
    words=st.lists(
        st.sampled_from(["the", "Borehole", "is", "at", "803", "metres.", "car", "deep?", "1,5"]), max_size=9
    ),
    said=st.integers(0, 9),
)
def test_once_a_beginning_in_whole_words_is_grounded_the_answer_is(words: list[str], said: int) -> None:
    """What a stream gives out at its first grounded word is what the whole answer will be judged to be."""
    whole, beginning = " ".join(words), " ".join([*words[:said], ""])
    if is_grounded(beginning, "How deep is the borehole?", DRILLED):
        assert is_grounded(whole, "How deep is the borehole?", DRILLED)


@pytest.mark.parametrize(
    ("answer", "cut"),
    [
        ("Your IBAN is DE89 3704 00", True),
        ("Your IBAN is DE89 3704", True),
        ("Your IBAN is DE89 3704 0044.", False),
        ("It is on https://plume.exa", True),
        ("It is on https://plume.example/a-b", False),
        ("Noor lives in Kirs", True),
        ("Noor lives in Kirsten", False),
        ("It costs 1,250", True),
        ("It costs 1,250.50", False),
        ("It is 803", False),
        ('The number is "DE89', True),
        ("Kirsten is here. She pai", False),
        ("\u6771\u4eac", False),
        ("Something else", False),
        ("", False),
    ],
)
def test_an_answer_that_its_budget_ended_inside_a_value(answer: str, cut: bool) -> None:
    text = (
        "The IBAN DE89 3704 0044 is on https://plume.example/a-b; "
        "Kirsten paid 1,250.50 for 803 metres \u6771\u4eac\u306b."
    )
    assert is_cut_short(answer, [ScoredUnit(Unit(0, 1, 0, len(text), text), 1.0)]) is cut


def test_a_long_text_with_many_places_is_looked_through_at_once() -> None:
    text = "a0 " * 100_000
    assert is_cut_short("a", [ScoredUnit(Unit(0, 1, 0, len(text), text), 1.0)])
