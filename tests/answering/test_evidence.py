"""What of the ranked units becomes the evidence: how many, which, and whether any does."""

import math

import pytest

from plume_memory.answering.evidence import NAMED_SHARE, choose_evidence, is_relevant, leads, share_needed
from plume_memory.policy import AnswerPolicy
from plume_memory.records import ScoredUnit, Unit

UNNAMED = "Where is the boathouse, if you please?"
NAMED = "Could you remind me where Alice lives, please?"


def ranked(*units: tuple[float, float | None], superseded: frozenset[int] = frozenset()) -> list[ScoredUnit]:
    """(score, gain) of units about Alice, in rank."""
    texts = [f"Alice plays chess number {i}." for i in range(len(units))]
    return [
        ScoredUnit(Unit(i, i + 1, 0, len(text), text), score, gain, i in superseded)
        for i, (text, (score, gain)) in enumerate(zip(texts, units, strict=True))
    ]


def read(**numbers: object) -> AnswerPolicy:
    return AnswerPolicy(**{"retrieval": "reader", "evidence_units": 3, **numbers})


def chosen(units: list[ScoredUnit], policy: AnswerPolicy, question: str = NAMED) -> list[int]:
    return [one.unit.position for one in choose_evidence(units, question, policy)]


# --- which units ----------------------------------------------------------------------------------


def test_evidence_is_the_first_current_units_that_were_read() -> None:
    units = ranked((0.5, 9.0), (0.6, 8.0), (0.4, 7.0), (0.3, 6.0), (0.1, None), superseded=frozenset([1]))
    assert chosen(units, read(evidence_units=2)) == [0, 2]
    assert chosen(units, read(evidence_units=9)) == [0, 2, 3]
    assert chosen(units, read(evidence_units=1)) == [0]


def test_of_units_that_were_not_read_or_are_superseded_there_is_no_evidence() -> None:
    assert chosen(ranked((0.5, None), (0.4, None)), read()) == []
    assert chosen(ranked((0.5, 9.0), superseded=frozenset([0])), read()) == []
    assert chosen([], read()) == []


def test_by_words_alone_the_first_are_evidence_whatever_they_gain() -> None:
    units = ranked((0.0, None), (0.9, None), (0.2, None))
    assert chosen(units, AnswerPolicy(evidence_units=2)) == [0, 1]
    assert chosen(units, AnswerPolicy()) == [0]
    assert chosen([], AnswerPolicy()) == []


# --- the first alone ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "lead", "alone"),
    [
        ((0.5, 0.2), 0.7, True),  # 0.92 nats
        ((0.5, 0.2), 0.93, False),
        ((0.5, 0.2, 0.4), 0.7, True),  # the second counts, not the third
        ((0.3, 0.4), 0.0, False),  # it supersedes one that is likelier
        ((0.5, 0.5), 0.0, True),
        ((0.5, 5e-324), 700.0, True),
        ((0.5, 0.001), None, False),
        ((0.5,), None, True),
        ((0.5,), 9.0, True),
    ],
)
def test_a_unit_leads_that_is_likelier_than_the_second(
    scores: tuple[float, ...], lead: float | None, alone: bool
) -> None:
    units = ranked(*((score, 9.0) for score in scores))
    assert leads(units, lead) is alone
    assert chosen(units, read(lead=lead)) == ([0] if alone else list(range(len(units))))


def test_what_is_superseded_or_unread_is_not_led() -> None:
    units = ranked((0.5, 9.0), (0.5, 9.0), (0.2, 9.0), (0.4, None), superseded=frozenset([1]))
    assert chosen(units, read(lead=0.9)) == [0]


def test_a_unit_that_leads_is_relevant_by_what_the_others_gain_too() -> None:
    assert chosen(ranked((0.5, 5.0), (0.1, 6.0)), read(min_gain=6.0, lead=1.0), UNNAMED) == [0]


# --- whether the memory is relevant ---------------------------------------------------------------


@pytest.mark.parametrize(("question", "needed"), [(UNNAMED, 5.3), (NAMED, 10.6)])  # she is named: half is enough
def test_a_question_must_gain_min_gain_or_half_of_it_where_the_evidence_names_the_same(
    question: str, needed: float
) -> None:
    units = ranked((0.5, 5.3), (0.4, 1.0))
    assert chosen(units, read(min_gain=needed - 0.01), question) == [0, 1]
    assert chosen(units, read(min_gain=needed + 0.01), question) == []


def test_without_min_gain_the_memory_always_is_relevant() -> None:
    assert chosen(ranked((0.5, 0.0), (0.4, -1.0)), read(), "Who wrote Hamlet?") == [0, 1]
    assert is_relevant(ranked((0.5, None)), UNNAMED, 8.0), "nobody read them"


def test_the_best_unit_of_the_evidence_says_whether_the_memory_is_relevant() -> None:
    """It need not be the first; what is no evidence says nothing."""
    units = ranked((0.5, 1.5), (0.4, 6.0), (0.3, 0.0), (0.2, 99.0))
    assert chosen(units, read(min_gain=6.0), UNNAMED) == [0, 1, 2]
    assert chosen(units, read(min_gain=6.1), UNNAMED) == []
    superseded = ranked((0.5, 1.5), (0.4, 6.0), superseded=frozenset([1]))
    assert chosen(superseded, read(min_gain=6.0), UNNAMED) == []


@pytest.mark.parametrize(
    ("question", "evidence", "share"),
    [
        ("What does Kim own?", "Kim owns a red kayak.", NAMED_SHARE),
        ("What is my job?", "I work as a nurse.", NAMED_SHARE),  # both in the first person
        ("What is your job?", "I work as a nurse.", 1.0),
        ("Who is the president of France?", "The launch is on 2 November.", 1.0),  # "the" and "is" name nothing
        ("Where do I live?", "Kim owns a red kayak.", 1.0),
        ("", "", 1.0),
    ],
)
def test_half_is_enough_where_both_name_the_same(question: str, evidence: str, share: float) -> None:
    assert share_needed(question, evidence) == share
    unit = ScoredUnit(Unit(0, 1, 0, len(evidence), evidence), 0.5, 8.0 * share)
    assert is_relevant([unit], question, 8.0)
    assert not is_relevant([unit], question, math.nextafter(8.0, 9.0))


def test_a_name_in_any_unit_of_the_evidence_counts() -> None:
    texts = ("The boat is red.", "Kim owns it.")
    units = [ScoredUnit(Unit(i, 1, i * 20, i * 20 + len(t), t), 0.5, 4.0) for i, t in enumerate(texts)]
    assert is_relevant(units, "What is Kim's?", 8.0)
    assert not is_relevant(units[:1], "What is Kim's?", 8.0)
