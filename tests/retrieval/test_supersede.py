"""What an update replaces: which pairs are judged, what the caller decides, what is kept of it."""

import json
from collections.abc import Sequence

import pytest

from plume_memory.model.base import BaseModel
from plume_memory.records import Overrules, Replacement, Transition, Unit, Verdict
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.supersede import CANDIDATES, by_caller, candidates, replacements, retired
from plume_memory.segmentation.told import Told
from plume_memory.superseding import Superseding
from plume_memory.testing import tiny_base
from tests.judges import Says

ASKED = "Where does Alice live?"
BERN, ZURICH = "Alice lives in a flat in Bern.", "Alice now lives in a flat in Zurich."
NOTHING = Overrules()


def told(*texts: str, first: int = 0) -> list[Unit]:
    """One unit per version."""
    return [Unit(i, i + 1, 0, len(text), text) for i, text in enumerate(texts, start=first)]


def history(*texts: str, overrules: Sequence[Overrules] = ()) -> list[Told]:
    """One update per text, of one unit each."""
    units = told(*texts)
    own = [*overrules, *[NOTHING] * (len(texts) - len(overrules))]
    return [Told(Transition(u.version, u.text, o), (u,)) for u, o in zip(units, own, strict=True)]


# --- which pairs ----------------------------------------------------------------------------------


def test_a_new_unit_is_judged_against_the_earlier_ones_most_like_it() -> None:
    before = told(*(f"The moon is {i}." for i in range(20)), BERN)
    (new,) = told(ZURICH, first=21)
    pairs = candidates(UnitIndex(before), [new], NOTHING)
    assert len(pairs) == CANDIDATES
    assert pairs[0] == (before[-1], new)
    assert all(later is new for _, later in pairs)


def test_where_there_are_few_all_are_judged_also_what_shares_no_word() -> None:
    before = told("I quit.", "Espresso keeps me awake.")
    (new,) = told("Rooibos it is, from today on.", first=2)
    assert {earlier.position for earlier, _ in candidates(UnitIndex(before), [new], NOTHING)} == {0, 1}


def test_a_question_replaces_nothing_and_nothing_replaces_it() -> None:
    before = told(BERN, ASKED)
    assert candidates(UnitIndex(before), told(ASKED, first=2), NOTHING) == []
    assert [one.text for one, _ in candidates(UnitIndex(before), told(ZURICH, first=2), NOTHING)] == [BERN]


def test_what_the_caller_decided_is_not_judged() -> None:
    before, new = told(BERN, "Alice lives by the lake."), told(ZURICH, first=2)
    index = UnitIndex(before)
    assert candidates(index, new, Overrules(keeps_all=True)) == []
    for decided in (Overrules(keeps=(1,)), Overrules(replaces=(1,))):
        assert [one.version for one, _ in candidates(index, new, decided)] == [2]


def test_the_caller_replaces_every_unit_of_the_versions_named() -> None:
    units = [Unit(0, 1, 0, 3, "One"), Unit(1, 1, 3, 6, "Two"), Unit(2, 2, 0, 5, "Three")]
    new = told("Four", first=3)
    assert by_caller(UnitIndex(units), new, Overrules(replaces=(1, 2))) == [
        Replacement(unit, new[0], 1.0, by_caller=True) for unit in units
    ]
    assert by_caller(UnitIndex(units), new, NOTHING) == []


def test_in_doubt_nothing_is_replaced() -> None:
    one, other = told(BERN, ZURICH)
    sure, unsure = Verdict(0.01, 0.05, 0.94), Verdict(0.2, 0.3, 0.5)
    assert replacements([(one, other)], [sure], 0.9) == [Replacement(one, other, 0.94)]
    assert replacements([(one, other)], [unsure], 0.9) == []
    assert retired([Replacement(one, other, 0.94)]) == {0: {1}}
    assert retired([Replacement(one, other, 0.94), Replacement(one, other, 1.0, by_caller=True)]) == {0: set()}
    assert retired([]) == {}


def test_what_took_a_units_place_may_have_been_replaced_itself() -> None:
    one, other, third, fourth = told(BERN, ZURICH, "Alice went on to Rome.", "She left.")
    chain = [Replacement(one, other, 0.9), Replacement(other, third, 0.9)]
    assert retired(chain) == {0: {1, 2}, 1: {2}}
    said = [*chain, Replacement(third, fourth, 1.0, by_caller=True)]
    assert retired(said) == {0: set(), 1: set(), 2: set()}, "a caller's word at its end settles it"


# --- judged once, and kept ------------------------------------------------------------------------


class Kept(dict[str, bytes]):
    """A cache."""

    place = "here"
    owner = "alice"

    def put(self, key: str, kind: str, content: bytes) -> None:
        assert kind == "verdicts"
        self[key] = content

    def discard(self, key: str) -> None:
        self.pop(key, None)

    def is_current(self) -> bool:
        return True


@pytest.fixture(scope="module")
def base() -> BaseModel:
    return tiny_base()


def superseding(base: BaseModel, judge: Says | None, at: float | None = 0.9) -> Superseding:
    return Superseding(base, judge, at)  # type: ignore[arg-type]


def places(found: Sequence[Replacement]) -> list[tuple[int, int]]:
    return [(one.earlier.position, one.later.position) for one in found]


TOLD = ("Alice lives in Bern.", "Bob sails.", "Alice moved.", "Carol paints.", "Bob quit.")


def test_without_a_judge_and_a_word_of_the_callers_nothing_is_indexed(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnitIndex, "extended", lambda *_: pytest.fail("an index of what nobody asks"))
    assert superseding(base, None).found(history(*TOLD), UnitIndex(), Kept()) == []


def test_each_pair_is_judged_once_however_the_history_is_read(base: BaseModel) -> None:
    judge, kept = Says(), Kept()
    found = superseding(base, judge).found(history(*TOLD), UnitIndex(), kept)
    assert places(found) == [(0, 2), (1, 4)]
    assert len(judge.asked) == len(set(judge.asked)) == 1 + 2 + 3 + CANDIDATES
    assert superseding(base, judge).found(history(*TOLD), UnitIndex(), kept) == found
    assert len(judge.asked) == 9, "the second time nothing is judged"


def test_a_history_that_grows_is_judged_as_one_that_is_read_whole(base: BaseModel) -> None:
    kept, whole = Kept(), history(*TOLD)
    found: list[Replacement] = []
    index = UnitIndex()
    for one in whole:
        found += superseding(base, Says()).found([one], index, kept)
        index = index.extended(one.units)
    other = Kept()
    assert superseding(base, Says()).found(whole, UnitIndex(), other) == found
    assert other == kept
    assert sorted(superseding(base, Says()).keys(whole, UnitIndex())) == sorted(kept)


def test_verdicts_are_kept_by_the_texts_and_the_judge(base: BaseModel) -> None:
    kept = Kept()
    superseding(base, Says()).found(history(*TOLD[:2]), UnitIndex(), kept)
    superseding(base, Says()).found(history(TOLD[0], "Bob rows."), UnitIndex(), kept)
    other = Says()
    other.sha256 = "another"
    superseding(base, other).found(history(*TOLD[:2]), UnitIndex(), kept)
    assert len(kept) == 3
    assert all(json.loads(content) == [[1, 0, 0]] for content in kept.values())


def test_without_a_judge_or_a_threshold_only_the_caller_replaces(base: BaseModel) -> None:
    decided = [NOTHING, NOTHING, Overrules(replaces=(1,))]
    asked = Says()
    for own in (superseding(base, None), superseding(base, asked, at=None)):
        assert places(own.found(history(*TOLD, overrules=decided), UnitIndex(), Kept())) == [(0, 2)]
        assert own.keys(history(*TOLD), UnitIndex()) == []
    assert asked.asked == []
