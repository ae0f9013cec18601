"""What of a history is activated: the gate by relevance, and the sides of a question."""

from collections.abc import Sequence

import pytest

from plume_memory.answering.evidence import Activation, leader_of
from plume_memory.policy import AnswerPolicy
from plume_memory.records import ScoredUnit, Unit
from plume_memory.retrieval.lexical import UnitIndex

TEXTS = ("Alice lives in Bern.", "Bob has a boat.", "Alice plays chess.")
INDEX = UnitIndex([Unit(i, i + 1, 0, len(text), text) for i, text in enumerate(TEXTS)])


def activation(nothing: Sequence[float], behind: Sequence[float], **options: object) -> Activation:
    """Every text makes the question's tokens as likely as `behind`, no text as `nothing`."""
    settings = AnswerPolicy(**options)  # type: ignore[arg-type]

    def read(texts: Sequence[str], question: str) -> list[list[float]]:
        del question
        return [behind if text else nothing for text in texts]

    return Activation(settings, read)


@pytest.mark.parametrize(
    ("question", "needed"),
    [
        ("Where is the boathouse, if you please?", 5.3),
        ("Could you remind me where Alice lives, please?", 10.6),  # she is named: half of it is enough
    ],
)
def test_a_question_must_gain_the_threshold_or_half_of_it_where_the_evidence_names_the_same(
    question: str, needed: float
) -> None:
    """What some tokens lose does not hide what others gain: most words of a polite question no note foretells."""
    gains = [-3.0] * 30, [-3.5] * 28 + [-0.5, -0.2]
    assert activation(*gains, relevance=needed - 0.01).activate(INDEX, question)
    assert activation(*gains, relevance=needed + 0.01).activate(INDEX, question) == []


def test_without_a_threshold_memory_always_answers() -> None:
    assert len(activation([-1.0], [-9.0], evidence_units=2).activate(INDEX, "Who wrote Hamlet?")) == 2


@pytest.mark.parametrize("router", ["lexical", "likelihood", "sentences"])
def test_a_ranking_misses_no_unit_whatever_the_evidence_leaves_out(router: str) -> None:
    index = UnitIndex(
        [Unit(i, i + 1, 0, 9, f"Alice lives in {city}.") for i, city in enumerate(("Bern", "Zug", "Chur"))]
    )
    chosen = activation([-2.0], [-1.0], router=router, evidence_units=3)
    assert sorted(one.unit.position for one in chosen.rank(index, "Where does Alice live?", k=9)) == [0, 1, 2]
    evidence = [one.unit.position for one in chosen.activate(index, "Where does Alice live?")]
    assert evidence == [2] if router == "sentences" else sorted(evidence) == [0, 1, 2]


def test_sides_are_all_together_and_each_alone_where_each_may_answer() -> None:
    together, each = activation([-1.0], [-1.0]), activation([-1.0], [-1.0], alone_margin=0.0)
    routed = together.rank(INDEX, "Alice", k=3)
    assert together.sides(routed) == [routed]
    assert each.sides(routed) == [routed, *([one] for one in routed)]
    assert each.sides(routed[:1]) == [routed[:1]]
    assert each.sides([]) == [[]]


def scored(*units: tuple[int, float]) -> list[ScoredUnit]:
    return [ScoredUnit(Unit(i, version, 0, 1, "x"), score, True) for i, (version, score) in enumerate(units)]


@pytest.mark.parametrize(
    ("units", "leads"),
    [
        ([(1, 0.5), (1, 0.2)], True),  # 0.92 nats
        ([(1, 0.5), (1, 0.2), (1, 0.4)], False),
        ([(2, 0.5), (1, 0.2)], True),
        ([(1, 0.5), (2, 0.2)], False),  # told later: 1.4 are needed
        ([(1, 0.5), (2, 0.1)], True),
        ([(1, 0.5), (2, 0.0)], True),
    ],
)
def test_a_unit_that_leads_all_others_is_the_only_side(units: list[tuple[int, float]], leads: bool) -> None:
    routed = scored(*units)
    assert leader_of(routed, 0.7) == (routed[0] if leads else None)
    assert leader_of(routed, None) is None
    sides = activation([-1.0], [-1.0], alone_margin=0.0, alone_lead=0.7).sides(routed)
    assert sides == ([[routed[0]]] if leads else [routed, *([one] for one in routed)])


def test_without_rivals_no_unit_leads() -> None:
    routed = scored((1, 0.5), (1, 0.1))
    assert activation([-1.0], [-1.0], alone_lead=0.7).sides(routed) == [routed]


def gains_of(texts: Sequence[str], question: str) -> list[list[float]]:
    """The first text makes both tokens of the question likelier by 3, the second one of them by 1.5, the third none."""
    del question
    behind = {"": (-4.0, -4.0), TEXTS[0]: (-1.0, -1.0), TEXTS[1]: (-2.5, -6.0), TEXTS[2]: (-4.5, -4.0)}
    return [list(behind[text]) for text in texts]


@pytest.mark.parametrize("router", ["lexical", "likelihood", "sentences"])
def test_a_unit_of_the_evidence_says_what_the_question_gains_by_it(router: str) -> None:
    reading = Activation(AnswerPolicy(router=router, evidence_units=3, relevance=0.0), gains_of)
    found = {one.unit.text: one.gain for one in reading.activate(INDEX, "Where does Alice live?")}
    assert found == {TEXTS[0]: 6.0, TEXTS[1]: 1.5, TEXTS[2]: 0.0}
    assert {one.gain for one in reading.rank(INDEX, "Where does Alice live?", k=3)} == {None}


def test_the_lexical_router_without_relevance_has_nothing_read() -> None:
    def read(texts: Sequence[str], question: str) -> list[list[float]]:
        raise AssertionError(f"read for {question!r}: {texts}")

    found = Activation(AnswerPolicy(evidence_units=3), read).activate(INDEX, "Where does Alice live?")
    assert {one.gain for one in found} == {None}


def test_the_best_unit_of_the_evidence_says_whether_memory_bears_on_a_question() -> None:
    asked = "Where is the boathouse, if you please?"
    settings = AnswerPolicy(router="likelihood", evidence_units=3, relevance=6.0)
    assert len(Activation(settings, gains_of).activate(INDEX, asked)) == 3
    assert Activation(settings.model_copy(update={"relevance": 6.1}), gains_of).activate(INDEX, asked) == []
