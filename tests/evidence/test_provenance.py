"""Which unit an answer is from."""

import pytest

from plume_memory.evidence.provenance import source_of
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
