"""What an update replaces: which pairs are judged, what the caller decides, what is kept of it."""

import json
from collections.abc import Sequence

import pytest

from plume_memory.hypernet.fastweight.checkpoint import read_manifest
from plume_memory.hypernet.judge import load_judge
from plume_memory.hypernet.shipped import shipped_hypernetwork
from plume_memory.model.base import BaseModel
from plume_memory.records import Overrules, Replacement, Transition, Unit, Verdict
from plume_memory.retrieval.judge import Judge
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.supersede import CANDIDATES, by_caller, candidates, replacements, retired
from plume_memory.superseding import Superseding, Told
from plume_memory.terms import asks
from plume_memory.testing import tiny_base

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
    assert retired([Replacement(one, other, 0.94)]) == {0}
    assert retired([]) == frozenset()


# --- judged once, and kept ------------------------------------------------------------------------


class Says:
    """A judge that finds a replacement where both texts begin with the same word; counts what it is asked."""

    sha256 = "says"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def verdicts(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        self.asked += pairs
        return [Verdict(0, 0, 1) if a.split()[0] == b.split()[0] else Verdict(1, 0, 0) for a, b in pairs]


class Kept(dict[str, bytes]):
    """A cache."""

    place = "here"

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


def test_each_pair_is_judged_once_however_the_history_is_read(base: BaseModel) -> None:
    judge, kept = Says(), Kept()
    found = superseding(base, judge).found(history(*TOLD), UnitIndex(), kept)
    assert places(found) == [(0, 2), (1, 4)]
    assert len(judge.asked) == len(set(judge.asked)) == 1 + 2 + 3 + 4
    assert superseding(base, judge).found(history(*TOLD), UnitIndex(), kept) == found
    assert len(judge.asked) == 10, "the second time nothing is judged"


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


# --- the shipped judge ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "asking"),
    [
        ("Where do I live? ", True),
        ("what is my name", True),
        ("Am I vegetarian?", True),
        ("\u79c1\u306f\u3069\u3053\uff1f", True),
        ("Can you note that I live in Bern?", False),
        ("What I hate most is cilantro.", False),
        ("When is a good question.", False),
        ("How are you!", False),
        ("I live in Bern.", False),
        ("", False),
    ],
)
def test_questions_are_told_from_what_is_said(text: str, asking: bool) -> None:
    assert asks(text) is asking


OTHERS = (
    ("Alice lives in Bern.", "Bob lives in Zurich.", ASKED),
    ("The code of room 12 is 4711.", "The code of room 14 is 9923.", "What is the code of room 12?"),
    ("kiln-node20 is backed up at 10:05.", "kiln-node21 is backed up at 22:30.", "When is kiln-node20 backed up?"),
    ("Ann works at Shell.", "Tom works at Nestle.", "Where does Ann work?"),
    ("My sister is called Mia.", "My brother is called Tim.", "What is my sister called?"),
    ("Ann's birthday is on May 3.", "Tom's birthday is on June 9.", "When is Ann's birthday?"),
    ("I drink tea in the morning.", "I drink wine in the evening.", "What do I drink in the morning?"),
    ("The standup is on Monday.", "The review is on Friday.", "When is the standup?"),
    ("Alice lives in Bern.", "Alice works in Geneva.", ASKED),
    ("Alice lives in Bern.", "Alice works in Bern.", ASKED),
    ("Alice lives in Bern.", "Alice plays the cello.", ASKED),
    ("The cat of Alice is called Mistral.", "The dog of Alice is called Rex.", "What is the name of Alice's cat?"),
    ("Her phone number is 555 1234.", "Her office number is 12.", "What is her phone number?"),
    ("The server db3 is in rack 4.", "The server db3 is backed up at 22:00.", "In which rack is the server db3?"),
    ("The project deadline is May 5.", "The project budget is 40,000 euros.", "When is the project deadline?"),
    ("My favourite food is ramen.", "My favourite colour is green.", "What is my favourite food?"),
    ("Ann reports to Tom.", "Ann reports for duty at nine.", "Who does Ann report to?"),
    (
        "The launch of Heron is planned for March.",
        "The launch of Heron is led by Ida Voss.",
        "When is the launch of Heron?",
    ),
)
"""(told, told later about something else, asked about the first)"""

SUPERSEDING = (
    ("Alice lives in Bern.", "Alice moved to Zurich.", ASKED),
    ("Alice lives in Bern.", "Alice now lives in Zurich.", ASKED),
    ("The code of room 12 is 4711.", "The code of room 12 is now 9923.", "What is the code of room 12?"),
    ("My sister lives in Rome.", "My sister has moved to Oslo.", "Where does my sister live?"),
    ("The standup is on Monday at 9.", "The standup has been moved to Tuesday at 10.", "When is the standup?"),
    (
        "The project deadline is May 5.",
        "The deadline of the project was moved to June 1.",
        "When is the project deadline?",
    ),
    ("Ann reports to Tom.", "Ann now reports to Ida.", "Who does Ann report to?"),
    ("kiln-node20 is backed up at 10:05.", "kiln-node20 is backed up at 22:30 now.", "When is kiln-node20 backed up?"),
    ("My favourite food is ramen.", "My favourite food is no longer ramen but pho.", "What is my favourite food?"),
    (
        "The launch of Heron is planned for March.",
        "The launch of Heron was postponed to May.",
        "When is the launch of Heron?",
    ),
    ("Alice Keller lives in Bern.", "Alice Keller moved: she now lives in Zurich.", "Where does Alice Keller live?"),
    ("The library opens at nine.", "The library now opens at ten.", "When does the library open?"),
)
"""(told, superseded by, asked)"""


@pytest.mark.model
def test_natural_pairs_are_judged_rightly_by_the_shipped_judge(smollm2: BaseModel) -> None:
    folder = shipped_hypernetwork("smollm2-135m")
    assert folder is not None
    manifest = read_manifest(folder)
    assert manifest.judge_sha256 is not None
    judge, at = Judge(smollm2, load_judge(folder, manifest.judge_sha256)), manifest.policy.supersedes_at
    assert at is not None

    def replaced(pairs: Sequence[tuple[str, str, str]]) -> list[str]:
        judged = judge.verdicts([(one, other) for one, other, _ in pairs])
        return [other for (_, other, _), found in zip(pairs, judged, strict=True) if found.replaces >= at]

    assert replaced(OTHERS) == []
    assert replaced(SUPERSEDING) == [other for _, other, _ in SUPERSEDING]
