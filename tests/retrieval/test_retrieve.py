"""The units of a history as a question ranks them: what is read, in which order it comes, and what is marked."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from plume_memory.errors import InvalidInput
from plume_memory.policy import AnswerPolicy
from plume_memory.records import ScoredUnit, Unit
from plume_memory.retrieval.asking import only_asks
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.reader import Reading
from plume_memory.retrieval.recency import verdicts
from plume_memory.retrieval.retrieve import SHORTLIST, TIED, WORDS_NATS, retrieve
from plume_memory.terms import FUNCTION_WORDS, terms_of

ASKED = "Where does Alice live?"
BERN, ZURICH = "Alice lives in a flat in Bern.", "Alice now lives in a flat in Zurich."
READER = AnswerPolicy(retrieval="reader")


class Said:
    """A reader that says of every text what it is told to; `read_texts` is what it was given, question by question."""

    def __init__(self, log_p: Callable[[str], float], gain: Callable[[str], float] = len) -> None:
        self.read_texts: list[list[str]] = []
        self._log_p, self._gain = log_p, gain

    def read(self, texts: Sequence[str], question: str) -> list[Reading]:
        assert question.strip()
        self.read_texts.append(list(texts))
        return [Reading(self._log_p(text), self._gain(text)) for text in texts]


def never(text: str) -> float:
    raise AssertionError(f"read: {text}")


def told(*texts: str) -> UnitIndex:
    """One unit per version."""
    return UnitIndex([Unit(i, i + 1, 0, len(text), text) for i, text in enumerate(texts)])


def ranked(index: UnitIndex, log_p: Sequence[float], asked: str = ASKED, k: int = 99) -> list[tuple[int, bool]]:
    """Position of each unit and whether it is superseded; log p by position."""
    of = dict(zip([unit.text for unit in index], log_p, strict=True))
    return [(one.unit.position, one.superseded) for one in retrieve(index, asked, Said(of.__getitem__), READER, k=k)]


# --- the rule -------------------------------------------------------------------------------------


def lacks(text: str, question: str) -> float:
    """Nats that the words of a question cost a text that lacks them."""
    asked = set(terms_of(question)) - FUNCTION_WORDS
    return WORDS_NATS * (1 - len(asked & set(terms_of(text))) / max(1, len(asked)))


def literal(index: UnitIndex, question: str, log_p: dict[str, float], k: int) -> list[tuple[int, float, bool | None]]:
    """(position, score, superseded or None where it was not read), rule by rule; slow on purpose."""
    words = index.score(question).tolist()
    by_words = sorted(range(len(index)), key=lambda i: (-words[i], -i))
    eligible = [i for i in by_words if not only_asks(index[i])]
    tied = [i for i in eligible[SHORTLIST:] if words[i] == words[eligible[SHORTLIST - 1]] > 0]
    shortlist = sorted([*eligible[:SHORTLIST], *tied[: TIED - SHORTLIST]])
    judged = verdicts([index[i] for i in shortlist], question, [log_p[index[i].text] for i in shortlist])
    newest = {i: shortlist[one.newest] for i, one in zip(shortlist, judged, strict=True)}
    about = {shortlist[one.newest]: one.about for one in judged}
    score = {i: math.exp(log_p[index[i].text] - lacks(index[i].text, question)) for i in shortlist}
    found: list[tuple[int, float, bool | None]] = []
    for i in sorted(shortlist, key=lambda i: (-score[i], -i)):
        for own, superseded in ((newest[i], not about[newest[i]]), (i, True)):
            if own not in [listed for listed, *_ in found]:
                found.append((own, score[own], superseded))
    least = min((score for _, score, _ in found), default=1.0)
    rest = [(i, words[i] * least, None) for i in by_words if i not in shortlist]
    return [*found, *rest[: max(0, k - len(found))]]


@settings(max_examples=200)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(["the", "Bern", "lives", "lamp?", "7", "fish", "moon"]), max_size=6).map(" ".join),
        min_size=1,
        max_size=80,
    ),
    query=st.lists(st.sampled_from(["lamp", "fish", "the", "absent", "日本"]), min_size=1, max_size=4).map(" ".join),
    values=st.lists(st.sampled_from([-5.0, -4.0, -3.9, -3.7, -2.0, -1.0]), min_size=1, max_size=7),
    k=st.integers(1, 90),
)
def test_units_come_in_the_order_of_the_literal_rule(texts: list[str], query: str, values: list[float], k: int) -> None:
    index = told(*texts)
    log_p = {text: values[at % len(values)] for at, text in enumerate(dict.fromkeys(texts))}

    found = retrieve(index, query, Said(log_p.__getitem__), READER, k=k)

    wanted = literal(index, query, log_p, k)
    assert [one.unit.position for one in found] == [i for i, *_ in wanted]
    assert [one.score for one in found] == pytest.approx([score for _, score, _ in wanted])
    assert [one.superseded if one.gain is not None else None for one in found] == [mark for *_, mark in wanted]
    assert all(0 <= one.score < 1 for one in found)


# --- what is read ---------------------------------------------------------------------------------


def test_the_shortlist_is_read_at_once_in_temporal_order() -> None:
    index = told(*(f"Alice has a lamp, number {i}{', lamp' * (i > 9)}." for i in range(SHORTLIST + 10)))
    reader = Said(lambda text: -1.0)
    retrieve(index, "Where is the lamp of Alice?", reader, READER, k=3)
    assert reader.read_texts == [[unit.text for unit in index][10:]]


@pytest.mark.parametrize("more", [1, TIED])
def test_what_scores_as_the_last_of_the_shortlist_is_read_too(more: int) -> None:
    """All items of a list under a heading hold the same of a question that names the heading."""
    items = [f"Alice:\n- city number {i}" for i in range(SHORTLIST + more)]
    index = UnitIndex([Unit(i, 1, 0, len(text), text, len("Alice:\n")) for i, text in enumerate(items)])
    reader = Said(lambda text: -2.0 + (text == items[-SHORTLIST - 1]))
    found = retrieve(index, ASKED, reader, READER, k=1)
    assert reader.read_texts == [items[-TIED:]]
    assert found[0].unit.text == items[-SHORTLIST - 1]


@pytest.mark.parametrize("question", [ASKED, "where does Alice live", "Hi, in which town does Alice live?"])
def test_a_question_that_was_told_is_not_read_and_supersedes_nothing(question: str) -> None:
    """What a user asks stands in the log of an agent that writes every message down; nothing makes it likelier."""
    reader = Said({"Alice lives in Bern.": -3.0, "Bob has a boat.": -5.0}.__getitem__)
    found = retrieve(told("Alice lives in Bern.", question, "Bob has a boat."), ASKED, reader, READER, k=9)
    assert [(one.unit.position, one.superseded, one.gain is None) for one in found] == [
        (0, False, False),
        (2, False, False),
        (1, False, True),
    ]


def test_of_questions_alone_nothing_is_read_and_all_are_listed() -> None:
    found = retrieve(told(ASKED, "And what is her name?"), ASKED, Said(never), READER, k=3)
    assert [(one.unit.position, one.gain) for one in found] == [(0, None), (1, None)]


def test_a_question_without_a_term_is_read_and_a_blank_one_is_not() -> None:
    index = told("Alice lives in Bern.", "Bob is here.")
    of = {"Alice lives in Bern.": -1.0, "Bob is here.": -3.0}
    assert retrieve(index, "爱丽丝住在哪里", Said(of.__getitem__), READER, k=1)[0].unit.position == 0
    found = retrieve(index, " \n", Said(never), READER, k=2)
    assert [(one.unit.position, one.score, one.gain) for one in found] == [(1, 0.0, None), (0, 0.0, None)]


@pytest.mark.parametrize("retrieval", ["lexical", "reader"])
def test_an_empty_history_has_no_units_and_k_is_at_least_one(retrieval: str) -> None:
    policy = AnswerPolicy(retrieval=retrieval)
    assert retrieve(UnitIndex(), ASKED, Said(never), policy, k=3) == []
    for k in (0, -1):
        with pytest.raises(InvalidInput, match="k must be at least 1"):
            retrieve(told(BERN, ZURICH), ASKED, Said(lambda text: -1.0), policy, k=k)


# --- the order ------------------------------------------------------------------------------------


def test_units_come_by_falling_likelihood_and_the_later_first_of_equals() -> None:
    index = told("red lamp", "blue boat", "green moon", "old fish")
    assert ranked(index, [-2.0, -1.0, -1.1, -3.0]) == [(1, False), (2, False), (0, False), (3, False)]
    assert ranked(index, [-2.0, -1.0, -1.0, -1.0]) == [(3, False), (2, False), (1, False), (0, False)]


def test_likelihood_wins_over_shared_words() -> None:
    index = told("Sull sends kitchen staff", "people come from afar in May", "Orm sends oil")
    question = "Where do the cooks come from?"
    assert index.route(question, delta=0.0).unit.position == 1
    assert ranked(index, [-2.0, -4.0, -4.1], question)[0] == (0, False)


def test_a_unit_that_supersedes_stands_just_before_the_likeliest_it_supersedes() -> None:
    index = told(BERN, "Bob owns boats.", ZURICH, "Carol paints.")
    assert ranked(index, [-1.0, -1.7, -1.4, -0.3]) == [(3, False), (2, False), (0, True), (1, False)]
    assert ranked(index, [-1.0, -0.4, -0.7, -0.5]) == [(2, False), (1, False), (3, False), (0, True)], "it is likelier"


def test_of_many_that_one_supersedes_each_stands_in_its_own_place_behind_it() -> None:
    index = told(
        "Alice lives in a small flat in Bern.",
        "Carol paints.",
        *(f"Alice lives in a small flat in {c}." for c in ("Zug", "Chur")),
    )
    assert ranked(index, [-1.3, -0.85, -1.1, -1.4]) == [(3, False), (2, True), (1, False), (0, True)]


def test_a_unit_about_somebody_else_is_marked_and_keeps_its_place() -> None:
    index = told("Bob lives in Zurich.", "Alice lives in Bern.", "Carol paints.")
    assert ranked(index, [-0.1, -1.0, -0.5]) == [(0, True), (2, False), (1, False)]


def test_of_two_tellings_about_somebody_else_both_are_marked() -> None:
    index = told("Bob lives in Zurich.", "Bob lives in Rome.", "Alice lives in Bern.")
    assert ranked(index, [-0.2, -0.3, -1.0]) == [(1, True), (0, True), (2, False)]


BY_CALLER: dict[int, frozenset[int]] = {0: frozenset()}


@pytest.mark.parametrize("policy", [AnswerPolicy(), READER])
def test_a_unit_that_was_replaced_is_not_read_and_stands_marked_behind_all_that_hold(policy: AnswerPolicy) -> None:
    index = told(BERN, "Bob owns boats.", ZURICH)
    reader = Said({"Bob owns boats.": -3.0, ZURICH: -1.0}.__getitem__)
    found = retrieve(index, ASKED, reader, policy, k=9, retired=BY_CALLER)
    assert [(one.unit.position, one.superseded) for one in found] == [(2, False), (1, False), (0, True)]
    assert retrieve(index, ASKED, reader, policy, k=1, retired=BY_CALLER)[0].unit.position == 2


class Judged:
    """A judge that gives texts these log-odds to answer; `asked` is what it was asked."""

    def __init__(self, **odds: float) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self._odds = odds

    def support(self, claims: Sequence[tuple[str, str, str]]) -> list[float]:
        self.asked += claims
        return [self._odds[text] for text, *_ in claims]


@pytest.mark.parametrize("odds", [3.0, 0.0, -0.1, -6.0])
def test_what_the_judge_retired_stays_for_a_question_that_its_heir_does_not_answer(odds: float) -> None:
    index = told("opens", "Bob owns boats.", "closes")
    reader = Said({"opens": -1.0, "Bob owns boats.": -4.0, "closes": -3.0}.__getitem__)
    judge, asked = Judged(closes=odds), "When does the shop open?"
    found = retrieve(index, asked, reader, READER, k=3, judge=judge, retired={0: frozenset([2])})
    assert judge.asked == [("closes", asked, "")], "once, of what took a place alone"
    assert {one.unit.position: one.superseded for one in found}[0] is (odds >= 0)
    assert (found[0].unit.position == 0) is (odds < 0)


def test_the_judge_is_asked_only_of_what_would_stand_among_the_best_k() -> None:
    index = told("old", "new", "best", "next")
    reader = Said({"old": -3.0, "new": -4.0, "best": -1.0, "next": -2.0}.__getitem__)
    for k, asked in ((1, []), (2, []), (3, ["new"])):
        judge = Judged(new=-1.0)
        found = retrieve(index, "Which?", reader, READER, k=k, judge=judge, retired={0: frozenset([1])})
        assert [text for text, *_ in judge.asked] == asked
        assert {one.unit.text: one.superseded for one in found}["old"] is not bool(asked)


@pytest.mark.parametrize("k", [1, 3, 9])
def test_a_retired_unit_that_holds_counts_where_it_supersedes_what_is_likelier(k: int) -> None:
    rome = "Alice lives in Rome."
    index = told(BERN, rome, "Alice is on leave until May.")
    reader = Said({BERN: -1.0, rome: -1.3, "Alice is on leave until May.": -4.0}.__getitem__)
    retired = {1: frozenset([2])}
    for odds, first in ((-3.0, rome), (3.0, BERN)):
        judge = Judged(**{"Alice is on leave until May.": odds})
        found = retrieve(index, ASKED, reader, READER, k=k, judge=judge, retired=retired)
        assert (found[0].unit.text, found[0].superseded) == (first, False)


def test_what_words_supersede_is_none_of_the_best_k() -> None:
    rome, bob = "Alice lives in Rome.", "Bob lives on a boat."
    index = told(BERN, rome, bob, "Bob is away.")
    reader = Said({BERN: -1.0, rome: -1.1, bob: -2.0, "Bob is away.": -5.0}.__getitem__)
    judge = Judged(**{"Bob is away.": -2.0})
    found = retrieve(index, ASKED, reader, READER, k=2, judge=judge, retired={2: frozenset([3])})
    assert [text for text, *_ in judge.asked] == ["Bob is away."], "Bern is superseded: the second best is Bob's"
    assert {one.unit.text: one.superseded for one in found}[BERN]


def test_any_heir_that_answers_takes_the_place() -> None:
    index = told("first", "second", "third")
    reader = Said({"first": -1.0, "second": -2.0, "third": -3.0}.__getitem__)
    chain = {0: frozenset([1, 2]), 1: frozenset([2])}
    for second, third, holding in ((1.0, -1.0, [1, 2]), (-1.0, 1.0, [2]), (-1.0, -1.0, [0, 1, 2])):
        judge = Judged(second=second, third=third)
        found = retrieve(index, "Which?", reader, READER, k=3, judge=judge, retired=chain)
        assert [one.unit.position for one in found if not one.superseded] == holding
    nothing = Judged()
    retrieve(index, "Which?", reader, READER, k=3, judge=nothing)
    assert nothing.asked == [], "where nothing was replaced"


def test_what_took_a_units_place_is_read_whatever_its_words() -> None:
    texts = [f"lamp {i}" for i in range(TIED + 5)]
    index = told("The lamp is red.", *texts, "Colour: blue.")
    heir = len(index) - 1
    reader = Said(lambda text: -1.0 if text in ("The lamp is red.", "Colour: blue.") else -6.0)
    found = retrieve(index, "Is the lamp red?", reader, READER, k=2, retired={0: frozenset([heir])})
    assert [one.unit.position for one in found[:1]] == [heir]
    assert {one.unit.position: one.superseded for one in found}[0]


def test_what_was_not_read_stands_behind_by_its_words_below_all_that_was() -> None:
    texts = [f"lamp lamp {i}" for i in range(SHORTLIST)] + ["lamp with many other words around it", "fish", "moon"]
    found = retrieve(told(*texts), "lamp", Said(lambda text: -6.0), READER, k=99)
    assert [one.unit.text for one in found[SHORTLIST:]] == ["lamp with many other words around it", "moon", "fish"]
    scores = [one.score for one in found]
    assert 0 < scores[SHORTLIST] < min(scores[:SHORTLIST])
    assert scores[SHORTLIST + 1 :] == [0.0, 0.0]
    assert {(one.gain, one.superseded) for one in found[SHORTLIST:]} == {(None, False)}


def test_k_bounds_what_was_not_read_and_no_unit_is_missing() -> None:
    index = told(*(f"Alice has a lamp, number {i}." for i in range(TIED + 5)))

    def found(k: int) -> list[ScoredUnit]:
        return retrieve(index, "Where is the lamp of Alice?", Said(lambda text: -1.0), READER, k=k)

    assert sorted(one.unit.position for one in found(999)) == list(range(len(index)))
    assert len(found(1)) == TIED, "what was read is returned"
    for k in (TIED, TIED + 2):
        assert found(k) == found(999)[:k]


def test_a_question_is_scored_by_its_words_once_where_what_was_read_is_enough() -> None:
    class Counted(UnitIndex):
        asked = 0

        def score(self, query: str) -> NDArray[np.float64]:
            type(self).asked += 1
            return super().score(query)

    index = Counted([Unit(i, i + 1, 0, len(text), text) for i, text in enumerate((BERN, ZURICH))])
    assert len(retrieve(index, ASKED, Said(lambda text: -1.0), READER, k=2)) == 2
    assert Counted.asked == 1


# --- what is said of a unit -----------------------------------------------------------------------


def test_a_unit_that_was_read_has_its_probability_and_its_gain() -> None:
    of = {BERN: (-1.0, 6.0), "Bob owns boats.": (-2.0, 1.5), "Carol paints.": (-3.0, 0.0)}
    found = retrieve(told(*of), ASKED, Said(lambda t: of[t][0], lambda t: of[t][1]), READER, k=3)
    assert {one.unit.text: (one.score, one.gain) for one in found} == {
        text: (pytest.approx(math.exp(log_p - lacks(text, ASKED))), gain) for text, (log_p, gain) in of.items()
    }


def test_of_units_alike_for_the_reader_the_one_with_the_questions_words_comes_first() -> None:
    index = told("Her flat is old.", "Alice rents in Bern.", "Bob owns boats.")
    ahead = lacks(index[0].text, ASKED) - lacks(index[1].text, ASKED)
    assert ahead == pytest.approx(WORDS_NATS / 2), "of `Alice` and `live`"
    for gap, first in ((ahead - 0.01, 1), (ahead + 0.01, 0)):
        assert ranked(index, [-1.0, -1.0 - gap, -9.0])[0] == (first, False)


def test_what_words_count_is_the_same_in_a_small_and_a_large_memory() -> None:
    """So that several memories can be asked at once: whether a word is rare there does not matter."""
    small, large = told("Alice sings."), told("Alice sings.", *(f"Alice owns boat {n}." for n in range(30)))
    said = Said(lambda text: -1.0 if "sings" in text else -5.0)
    (own,) = (one for one in retrieve(large, ASKED, said, READER, k=99) if one.unit.position == 0)
    assert own.score == pytest.approx(retrieve(small, ASKED, said, READER, k=1)[0].score)


def test_scores_stay_inside_the_unit_interval_whatever_is_rounded() -> None:
    found = retrieve(told("lamp", "fish"), "lamp", Said({"lamp": 0.0, "fish": -1e4}.__getitem__), READER, k=2)
    assert 1 > found[0].score > found[1].score > 0


def test_by_words_nothing_is_read_and_the_order_is_that_of_activation() -> None:
    index = told("lamp bern", "lamp", "nothing", "lamp bern", "moon?")
    for delta in (0.0, 0.1, 2.0):
        found = retrieve(index, "lamp bern", Said(never), AnswerPolicy(delta=delta), k=4)
        assert found == index.rank("lamp bern", delta=delta, k=4)
        assert {(one.gain, one.superseded) for one in found} == {(None, False)}


# --- vectors --------------------------------------------------------------------------------------


class Near:
    """Says which units are like a question."""

    def __init__(self, *positions: int) -> None:
        self.positions = positions

    def nearest(self, question: str) -> Iterator[int]:
        return iter(self.positions)


def test_what_lies_near_is_read_beside_the_best_by_words():
    texts = [f"{'Alice ' * (i + 1)}lives at number {i}." for i in range(100)]  # no two of one score
    texts[3], texts[7] = "Her flat is in Bern.", "Who has a flat in Bern?"
    reader = Said(lambda text: -1.0)
    index = told(*texts)
    likely = [7, 3, *range(10, 30)]
    retrieve(index, ASKED, reader, READER, k=1, near=Near(*likely))
    (read,) = reader.read_texts
    assert texts[7] not in read, "a question says nothing"
    assert len(read) == SHORTLIST
    assert {one.unit.text for one in index.best(ASKED, k=SHORTLIST // 2, tied=SHORTLIST)} <= set(read)
    assert {texts[i] for i in likely[1 : SHORTLIST // 2]} <= set(read)


def test_what_both_propose_is_read_before_what_one_does():
    texts = [f"{'Alice ' * (60 - i)}lives at number {i}." for i in range(60)]
    reader = Said(lambda text: -1.0)
    retrieve(told(*texts), ASKED, reader, READER, k=1, near=Near(*range(20, 20 + SHORTLIST)))
    assert reader.read_texts == [texts[20 : 20 + SHORTLIST]]


@pytest.mark.parametrize("equals", [SHORTLIST + 8, TIED, 3 * TIED])
def test_of_equals_by_words_those_that_lie_near_are_read(equals: int) -> None:
    items = [f"Alice:\n- city number {i}" for i in range(equals)]
    near = range(SHORTLIST // 2)
    reader = Said(lambda text: -1.0)
    retrieve(told(*items), "Alice", reader, READER, k=1, near=Near(*near))
    (read,) = reader.read_texts
    assert {items[i] for i in near} <= set(read)
    assert len(read) == SHORTLIST, "equals cost nothing where vectors tell them apart"


def test_where_no_word_is_shared_what_lies_near_is_read():
    texts = [f"moon {i}" for i in range(SHORTLIST + 30)]
    reader = Said(lambda text: -1.0)
    retrieve(told(*texts), ASKED, reader, READER, k=1, near=Near(*range(SHORTLIST)))
    assert reader.read_texts == [texts[:SHORTLIST]], "and not the latest"


def test_without_vectors_words_alone_propose():
    items = [f"Alice:\n- city number {i}" for i in range(SHORTLIST + 8)]
    read = []
    for near in (None, Near()):  # no vectors; a network without an embedding
        reader = Said(lambda text: -1.0)
        retrieve(told(*items), "Alice", reader, READER, k=1, near=near)
        read += reader.read_texts
    assert read == [items, items]


def test_what_no_longer_holds_is_not_near():
    texts = [f"Alice lives at number {i}." for i in range(40)] + ["Her flat is in Bern."]
    reader = Said(lambda text: -1.0)
    retrieve(told(*texts), ASKED, reader, READER, k=1, near=Near(40), retired={40: frozenset()})
    assert texts[40] not in reader.read_texts[0]


def test_nothing_lies_near_where_all_is_read():
    class Never:
        def nearest(self, question: str) -> Iterator[int]:
            raise AssertionError("all units are read anyway")

    index = told(*["Alice lives here."] * SHORTLIST)
    assert len(retrieve(index, ASKED, Said(lambda text: -1.0), READER, k=1, near=Never())) == SHORTLIST


def test_questions_do_not_crowd_out_what_lies_near() -> None:
    texts = (
        ["Where does she live?"] * 40 + [f"Alice lives at number {i}." for i in range(40)] + ["Her flat is in Bern."]
    )
    reader = Said(lambda text: -1.0)
    retrieve(told(*texts), ASKED, reader, READER, k=1, near=Near(*range(40), 80))
    assert texts[80] in reader.read_texts[0]
