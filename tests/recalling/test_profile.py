"""Which units say most about whom a memory is of."""

from plume_memory.recalling.profile import central
from plume_memory.records import Unit


def units(*texts: str) -> list[Unit]:
    return [Unit(n, n + 1, 0, len(text), text) for n, text in enumerate(texts)]


def order(*texts: str) -> list[str]:
    return [unit.text for unit in central(units(*texts))]


def test_what_the_memory_speaks_of_most_comes_first_and_not_twice() -> None:
    found = order(
        "The train was late.",
        "I play the cello.",
        "My cello is from Mirecourt.",
        "I practise the cello every day.",
        "I am allergic to peanuts.",
    )
    assert "cello" in found[0]
    assert found.index("I am allergic to peanuts.") < 3, "once the cello is told, something else is told"


def test_the_same_units_give_the_same_order() -> None:
    texts = [f"Note {n} is about thing {n % 7}." for n in range(40)]
    assert order(*texts) == order(*texts)
    assert len(order(*texts)) == 40


def test_what_names_nothing_is_left_out() -> None:
    assert order("Sure!", "I live in Bern.") == ["I live in Bern."]
    assert order() == []
