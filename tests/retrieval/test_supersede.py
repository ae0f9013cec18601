"""Old and new tellings of one fact, and like statements about others: what is evidence and what is only listed."""

from collections.abc import Sequence

import pytest

from plume_memory.errors import InvalidInput
from plume_memory.hypernet.fastweight.checkpoint import read_manifest
from plume_memory.hypernet.reranker import load_reranker
from plume_memory.hypernet.shipped import shipped_hypernetwork
from plume_memory.model.adapters import AdapterRows, shared_rows
from plume_memory.model.base import BaseModel
from plume_memory.records import ScoredUnit, Unit
from plume_memory.retrieval.lexical import SHORTLIST, TIED, UnitIndex
from plume_memory.retrieval.reader import question_log_probs
from plume_memory.retrieval.supersede import BARE, TRAINED, Rules
from plume_memory.segmentation.terms import asks

ASKED = "Where does Alice live?"
BERN, ZURICH = "Alice lives in a flat in Bern.", "Alice now lives in a flat in Zurich."


def told(*texts: str) -> UnitIndex:
    """One unit per version."""
    return UnitIndex([Unit(i, i + 1, 0, len(text), text) for i, text in enumerate(texts)])


def evidence(index: UnitIndex, log_p: list[float], asked: str = ASKED, k: int = 99) -> list[ScoredUnit]:
    return index.retold(asked, lambda texts: log_p[: len(texts)], k=k)


def order(index: UnitIndex, log_p: list[float], asked: str = ASKED) -> list[tuple[int, bool]]:
    return [(one.unit.position, one.candidate) for one in evidence(index, log_p, asked)]


def test_a_retelling_takes_the_place_of_what_it_retells_though_it_is_less_likely() -> None:
    index = told(BERN, "Bob has a boat.", ZURICH)
    assert order(index, [-1.0, -4.0, -1.29]) == [(2, True), (1, False)]


def test_one_that_shares_too_little_or_is_too_unlikely_or_is_of_the_same_text_takes_no_place() -> None:
    other = told(BERN, "Bob has a boat.", "The market is on Tuesdays.")
    assert (0, True) in order(other, [-1.0, -4.0, -1.0])
    assert order(told(BERN, "Bob has a boat.", ZURICH), [-1.0, -4.0, -1.31])[0] == (0, True)
    same = UnitIndex([Unit(i, 1, 0, len(text), text) for i, text in enumerate((BERN, ZURICH))])
    assert {position for position, _ in order(same, [-1.0, -1.0])} == {0, 1}


def test_a_later_unit_that_lost_what_was_asked_about_is_no_retelling() -> None:
    index = told("The code of room 12 is 4711.", "The code of room 14 is 9923.")
    assert order(index, [-1.0, -1.0], "What is the code of room 12?") == [(0, True)]
    assert order(index, [-1.0, -1.0], "What is the code of room 14?") == [(1, True)]
    assert order(index, [-1.0, -0.5], "What is the code?") == [(1, True)], "asked about no room, the later retells"


def test_what_says_the_same_of_somebody_else_is_no_evidence_in_whatever_order_it_was_told() -> None:
    for texts, right in (
        (("Alice lives in Bern.", "Bob lives in Zurich."), 0),
        (("Bob lives in Zurich.", "Alice lives in Bern."), 1),
    ):
        assert order(told(*texts), [-1.0, -1.0]) == [(right, True)]


@pytest.mark.parametrize("heading", ["## Home town of Alice", "Home town of Alice:"])
def test_a_new_value_under_the_same_heading_takes_the_place_of_the_old(heading: str) -> None:
    texts = [f"{heading}\n- {city}" for city in ("Bern", "Rome")]
    index = UnitIndex([Unit(i, i + 1, 0, len(text), text, len(heading) + 1) for i, text in enumerate(texts)])
    assert order(index, [-1.0, -1.0], "What is the home town of Alice?") == [(1, True)]


def items(*versions: tuple[str, tuple[str, ...]]) -> UnitIndex:
    """One list per version: its heading, which every item carries, and its items."""
    found: list[Unit] = []
    for version, (heading, lines) in enumerate(versions, start=1):
        for line in lines:
            text = f"{heading}\n{line}" if heading else line
            found.append(Unit(len(found), version, 0, len(text), text, len(text) - len(line)))
    return UnitIndex(found)


@pytest.mark.parametrize(
    ("question", "lists"),
    [
        ("What are Alice's allergies?", (("Alice's allergies:", ("- peanuts",)), ("Alice's allergies:", ("- nuts",)))),
        ("What is to be bought?", (("Shopping:", ("- milk", "- eggs")), ("Shopping:", ("- bread",)))),
        ("What is to be bought?", (("Shopping:", ("- milk",)), ("Shopping:", ("- bread", "- eggs")))),
        ("Which groceries?", (("", ("Groceries: milk",)), ("", ("Groceries: bread",)))),
        ("What about Alice?", (("name: Alice", ("- Bern",)), ("name: Alice", ("- pilot",)))),
    ],
)
def test_a_list_that_grows_loses_nothing(question: str, lists: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
    """Its heading names several things, or had several before: a new item stands beside the old ones."""
    index = items(*lists)
    found = {one.unit.position for one in evidence(index, [-1.0] * len(index), question)}
    assert found == set(range(len(index)))


def test_a_single_labelled_value_is_still_retold() -> None:
    assert order(items(("", ("City: Bern",)), ("", ("City: Rome",))), [-1.0, -1.0], "Which city?") == [(1, True)]


def test_of_many_told_of_in_the_same_words_the_one_asked_about_alone_is_evidence() -> None:
    """What all say is common then, so by rarity they would share next to nothing."""
    jobs = {"Alice": "nurse", "Bob": "pilot", "Carla": "baker", "David": "lawyer", "Emma": "painter", "Frank": "farmer"}
    index = told(*(f"{name} is a {job}." for name, job in jobs.items()))
    for right, name in enumerate(jobs):
        assert order(index, [-1.0] * 6, f"What is {name}'s job?") == [(right, True)]


@pytest.mark.parametrize(
    "question", ["Where does Alice live?", "where does Alice live", "Hi, in which town does Alice live?"]
)
def test_a_question_that_was_told_replaces_nothing_and_is_no_evidence(question: str) -> None:
    """What a user asks stands in the log of an agent that writes every message down; nothing makes it likelier."""
    index = told("Alice lives in Bern.", question, "Bob has a boat.")
    assert order(index, [-3.0, -5.0]) == [(0, True), (2, False)]
    assert [one.unit.position for one in index.ranked_retold(ASKED, lambda texts: [-3.0, -5.0], k=9)] == [0, 2, 1]


def test_of_questions_alone_there_is_no_evidence() -> None:
    def never(texts: object) -> list[float]:
        raise AssertionError(texts)

    index = told("Where does Alice live?", "And what is her name?")
    assert index.retold(ASKED, never, k=3) == []
    assert len(index.ranked_retold(ASKED, never, k=3)) == 2


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


def test_each_of_two_that_hold_what_the_other_lacks_stays() -> None:
    index = told("Alice directed the film Heron.", "Bob directed the film Lark.")
    assert {position for position, _ in order(index, [-1.0, -1.0], "Is Heron or Lark older?")} == {0, 1}


def test_of_three_tellings_the_last_stands_for_all() -> None:
    index = told(*(f"Alice lives in a small flat in {city}." for city in ("Bern", "Zug", "Olten")))
    assert order(index, [-1.0, -1.2, -1.4]) == [(2, True)]


def test_candidates_lie_within_the_margin_and_what_nothing_retells_is_listed_once() -> None:
    index = told("red lamp", "blue boat", "green moon", "old fish")
    assert order(index, [-2.0, -1.0, -1.1, -3.0]) == [(1, True), (2, True), (0, False), (3, False)]
    assert order(index, [-2.0, -1.0, -1.4, -3.0]) == [(1, True), (2, False), (0, False), (3, False)]


def test_only_the_shortlist_is_read_and_only_what_was_read_is_evidence() -> None:
    """Of more tellings of one fact than are read, the oldest must not come back as evidence unread."""
    index = told(*(f"Alice lives in a small flat, number {i}{', flat' * (i > 9)}." for i in range(SHORTLIST + 10)))
    read: list[str] = []

    def likelihoods(shown: list[str]) -> list[float]:
        read.extend(shown)
        return [-1.0] * len(shown)

    found = index.retold("Where is the flat of Alice?", likelihoods, k=3)  # type: ignore[arg-type]
    assert len(read) == SHORTLIST
    assert [one.unit.position for one in found] == [len(index) - 1]


@pytest.mark.parametrize("more", [1, TIED])
def test_what_scores_as_the_last_of_the_shortlist_is_read_too(more: int) -> None:
    """All items of a list under a heading hold the same of a question that names the heading."""
    items = [f"Alice:\n- city number {i}" for i in range(SHORTLIST + more)]
    index = UnitIndex([Unit(i, 1, 0, len(text), text, len("Alice:\n")) for i, text in enumerate(items)])
    read: list[str] = []

    def likelihoods(shown: list[str]) -> list[float]:
        read.extend(shown)
        return [-2.0 + (text == items[-SHORTLIST - 1]) for text in shown]

    found = index.retold("Where does Alice live?", likelihoods, k=1)  # type: ignore[arg-type]
    assert read == items[-TIED:]
    assert found[0].unit.text == items[-SHORTLIST - 1]


def test_a_list_holds_every_unit_the_evidence_first_the_unread_last() -> None:
    index = told(*(f"Alice lives in a small flat, number {i}." for i in range(TIED + 5)))
    log_p = [-1.0] * TIED
    listed = index.ranked_retold("Where is the flat of Alice?", lambda texts: log_p[: len(texts)], k=99)
    positions = [one.unit.position for one in listed]
    assert sorted(positions) == list(range(len(index)))
    assert positions[0] == len(index) - 1
    assert set(positions[-5:]) == set(range(5))
    assert [one.candidate for one in listed] == [True] + [False] * (len(index) - 1)
    assert [one.score for one in listed] == sorted((one.score for one in listed), reverse=True)
    assert (
        index.ranked_retold(ASKED, lambda texts: log_p[: len(texts)], k=2)
        == index.ranked_retold(ASKED, lambda texts: log_p[: len(texts)], k=99)[:2]
    )


@pytest.mark.parametrize("method", ["retold", "ranked_retold"])
def test_an_empty_index_and_a_blank_question(method: str) -> None:
    def never(texts: object) -> list[float]:
        raise AssertionError(texts)

    with pytest.raises(InvalidInput, match="empty"):
        getattr(UnitIndex(), method)("x", never, k=1)
    with pytest.raises(InvalidInput, match="k must be at least 1"):
        getattr(told(BERN), method)("x", never, k=0)
    assert [one.unit.position for one in getattr(told(BERN, ZURICH), method)(" ", never, k=1)] == [1]


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

RETELLINGS = (
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
"""(told, retold, asked)"""


def test_who_reads_brings_the_rules() -> None:
    """A trained reader's likelihoods lie further apart, and words count nothing beside them."""
    index = told(BERN, "Bob owns boats.", ZURICH)

    def first(rules: Rules, log_p: list[float], question: str) -> int:
        return index.retold(question, lambda texts: log_p, k=3, rules=rules)[0].unit.position

    assert first(BARE, [-1.0, -4.0, -1.45], ASKED) == 0
    assert first(TRAINED, [-1.0, -4.0, -1.45], ASKED) == 2
    assert first(BARE, [-1.0, -1.6, -9.0], "Who owns boats?") == 1
    assert first(TRAINED, [-1.0, -1.6, -9.0], "Who owns boats?") == 0


def mistaken(smollm2: BaseModel, rules: Rules, reranker: AdapterRows | None) -> tuple[list[str], list[str], list[str]]:
    """Of pairs that are no retellings, the later ones behind which the earlier is lost; of retellings, the later ones
    beside which the earlier stays, and those that are lost."""

    def found(pair: tuple[str, str, str]) -> set[int]:
        def read(texts: Sequence[str]) -> list[float]:
            return [sum(p) / len(p) for p in question_log_probs(smollm2, texts, pair[2], adapter=reranker)]

        return {one.unit.position for one in told(*pair[:2]).retold(pair[2], read, k=3, rules=rules)}

    lost = [pair[1] for pair in OTHERS if 0 not in found(pair)]
    stayed = [pair[1] for pair in RETELLINGS if found(pair) != {1}]
    return lost, stayed, [pair[1] for pair in RETELLINGS if 1 not in found(pair)]


@pytest.mark.model
def test_of_natural_pairs_few_are_mistaken(smollm2: BaseModel) -> None:
    """The figures of likeness.py: what is asked for is lost in one pair, an old telling stays in three."""
    lost, stayed, gone = mistaken(smollm2, BARE, None)
    assert lost == ["The launch of Heron is led by Ida Voss."]
    assert stayed == [
        "Alice moved to Zurich.",
        "The standup has been moved to Tuesday at 10.",
        "The launch of Heron was postponed to May.",
    ]
    assert gone == []


@pytest.mark.model
def test_of_natural_pairs_the_shipped_reranker_mistakes_fewer(smollm2: BaseModel) -> None:
    folder = shipped_hypernetwork("smollm2-135m")
    assert folder is not None
    sha256 = read_manifest(folder).reranker_sha256
    assert sha256 is not None
    reranker = shared_rows(load_reranker(folder, sha256), device=smollm2.device, dtype=smollm2.dtype)

    assert mistaken(smollm2, TRAINED, reranker) == ([], ["Alice moved to Zurich."], [])
