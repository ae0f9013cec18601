"""Of units that tell of the same thing at different times, the newest is activated."""

from plume_memory.evidence.supersede import newest_of_alike
from plume_memory.records import ScoredUnit, Unit


def ranked(*told: tuple[int, str]) -> list[ScoredUnit]:
    """Units in the order of activation, as (version, text)."""
    return [ScoredUnit(Unit(at, version, 0, len(text), text), 0.5, True) for at, (version, text) in enumerate(told)]


def texts(found: list[ScoredUnit]) -> list[str]:
    return [one.unit.text for one in found]


OLD = (1, "Alice Keller lives in Bern, near the river.")
NEW = (2, "Alice Keller now lives in Zurich, near the lake.")
CAT = (1, "Her cat is called Mistral.")


def test_an_old_unit_gives_way_to_its_correction_wherever_that_ranks():
    assert texts(newest_of_alike(ranked(NEW, OLD, CAT), 2)) == [NEW[1], CAT[1]]
    assert texts(newest_of_alike(ranked(OLD, CAT, NEW), 2)) == [NEW[1], CAT[1]]


def test_units_of_one_transition_never_clash():
    again = (1, "Alice Keller lives in Bern, near the old bridge.")
    assert texts(newest_of_alike(ranked(OLD, again), 2)) == [OLD[1], again[1]]


def test_units_that_share_few_words_both_stay():
    other = (2, "The boat of Bob is green.")
    assert texts(newest_of_alike(ranked(OLD, other), 2)) == [OLD[1], other[1]]


def test_a_unit_that_corrects_two_takes_the_place_of_both():
    first, second = (1, "Alice Keller lives in Bern."), (2, "Alice Keller lives in Thun.")
    latest = (3, "Alice Keller lives in Zurich.")
    assert texts(newest_of_alike(ranked(first, CAT, second, latest), 2)) == [latest[1], CAT[1]]


def test_what_ranks_below_those_looked_at_is_not_considered():
    fillers = [(1, f"word{n} thing{n} place{n}") for n in range(3)]
    assert texts(newest_of_alike(ranked(OLD, *fillers, NEW), 1)) == [OLD[1]]
    assert texts(newest_of_alike(ranked(OLD, *fillers[:2], NEW), 1)) == [NEW[1]]


def test_units_without_terms_and_no_units_at_all_are_no_trouble():
    assert newest_of_alike([], 2) == []
    assert texts(newest_of_alike(ranked((1, "。"), (2, "。")), 2)) == ["。", "。"]


def test_no_unit_returned_is_superseded_by_one_that_was_looked_at():
    early, late, middle = (2, "alpha beta"), (5, "gamma delta"), (3, "alpha beta gamma delta")
    assert texts(newest_of_alike(ranked(early, late, middle), 2)) == [late[1]]
