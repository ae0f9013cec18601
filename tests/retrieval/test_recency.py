"""Which of some units supersede an earlier one, and which say the same of somebody else."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.hypernet.fastweight.checkpoint import read_manifest
from plume_memory.hypernet.reranker import load_reranker
from plume_memory.hypernet.shipped import shipped_hypernetwork
from plume_memory.model.base import BaseModel
from plume_memory.records import Overrules, Unit
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.reader import Reader
from plume_memory.retrieval.recency import REACH_NATS, Verdict, verdicts
from plume_memory.retrieval.supersede import candidates

ASKED = "Where does Alice live?"
BERN, ZURICH = "Alice lives in a flat in Bern.", "Alice now lives in a flat in Zurich."


def told(*texts: str) -> list[Unit]:
    """One unit per version."""
    return [Unit(i, i + 1, 0, len(text), text) for i, text in enumerate(texts)]


def current(units: Sequence[Unit], log_p: Sequence[float] | None = None, asked: str = ASKED) -> set[int]:
    """Units that nothing supersedes and that are about what is asked; equally likely if nothing else is said."""
    return {one.newest for one in verdicts(units, asked, log_p or [-1.0] * len(units)) if one.about}


def test_a_unit_supersedes_an_earlier_one_that_is_likelier() -> None:
    found = verdicts(told(BERN, "Bob owns boats.", ZURICH), ASKED, [-1.0, -4.0, -1.49])
    assert found == [Verdict(2, True), Verdict(1, True), Verdict(2, True)]


def test_one_that_shares_too_little_or_is_too_unlikely_or_is_of_the_same_text_supersedes_nothing() -> None:
    assert current(told(BERN, "Bob has a boat.", "The market is on Tuesdays.")) == {0, 1, 2}
    assert current(told(BERN, ZURICH), [-1.0, -1.0 - REACH_NATS]) == {1}
    assert current(told(BERN, ZURICH), [-1.0, -1.0 - REACH_NATS - 1e-9]) == {0, 1}
    assert current([Unit(i, 1, 0, len(text), text) for i, text in enumerate((BERN, ZURICH))]) == {0, 1}


def test_an_earlier_unit_supersedes_nothing_however_likely_it_is() -> None:
    assert verdicts(told(BERN, ZURICH), ASKED, [-0.1, -0.1])[1] == Verdict(1, True)
    assert current(told(ZURICH, BERN), [-0.5, -0.9]) == {1}


def test_a_later_unit_that_lost_what_was_asked_about_supersedes_nothing() -> None:
    units = told("The code of room 12 is 4711.", "The code of room 14 is 9923.")
    assert current(units, asked="What is the code of room 12?") == {0}
    assert current(units, asked="What is the code of room 14?") == {1}
    assert current(units, asked="What is the code?") == {1}, "asked about no room, the later supersedes"


@pytest.mark.parametrize(
    ("earlier", "later", "asked"),
    [
        ("I am allergic to peanuts.", "I am not allergic to peanuts.", "Who is allergic to peanuts?"),
        ("I live in Bern.", "I live in Bern now too.", "Who lives in Bern?"),
        ("My desk is by the door.", "My desk is by the window.", "Where is the desk?"),
    ],
)
def test_what_one_says_of_himself_is_no_news_of_another_speaker(earlier: str, later: str, asked: str) -> None:
    first, second = told(earlier, later)
    for speakers, left in (
        (("Bo", "Anna"), {0, 1}),
        ((None, "Anna"), {0, 1}),
        (("Bo", "Bo"), {1}),
        ((None, None), {1}),
    ):
        units = [replace(one, speaker=speaker) for one, speaker in zip((first, second), speakers, strict=True)]
        assert current(units, asked=asked) == left, speakers
        index = UnitIndex(units[:1])
        assert len(candidates(index, units[1:], Overrules())) == 2 - len(left), "nor is the judge asked"


def test_what_others_say_of_themselves_takes_no_place_among_the_candidates() -> None:
    texts = ("I live in a flat in Bern.", *["I live in Zurich now."] * 4)
    speakers = ("Anna", "Bo", "Cy", "Di", "Anna")
    *earlier, later = (replace(one, speaker=who) for one, who in zip(told(*texts), speakers, strict=True))
    assert [one.position for one, _ in candidates(UnitIndex(earlier), [later], Overrules())] == [0]


def test_what_a_speaker_says_of_somebody_else_is_news_whoever_said_it_before() -> None:
    units = [replace(one, speaker=speaker) for one, speaker in zip(told(BERN, ZURICH), ("Bo", "Anna"), strict=True)]
    assert current(units) == {1}


@pytest.mark.parametrize(
    ("earlier", "later", "asked", "speakers"),
    [
        ("Our meeting is on Tuesday.", "Our meeting is now on Thursday.", "When is the meeting?", ("Bo", "Anna")),
        ("The US launch is on May 3.", "The US launch is on June 7.", "When is the launch?", ("Bo", "Anna")),
        ("I live in Bern.", "I live in Zug now.", "Where does she live?", ("anna", "Anna")),
    ],
)
def test_what_is_ours_is_news_and_a_name_has_no_case(
    earlier: str, later: str, asked: str, speakers: tuple[str, str]
) -> None:
    units = [replace(one, speaker=speaker) for one, speaker in zip(told(earlier, later), speakers, strict=True)]
    assert current(units, asked=asked) == {1}


@pytest.mark.parametrize(
    ("earlier", "later", "asked"),
    [
        ("My name is Teo.", "My wife's name is Elif.", "What is my name?"),
        ("My wife's name is Elif.", "My name is Teo.", "What is my wife's name?"),
        ("My car is a Saab.", "Her car is a Fiat.", "What is my car?"),
        ("I live in Oslo.", "My brother's family lives in Bergen.", "Where do I live?"),
        ("I live in Oslo.", "My brother lives in Bergen.", "Where do I live?"),
        ("The boss drinks tea.", "The boss's assistant drinks cocoa.", "What does the boss drink?"),
    ],
)
def test_what_is_somebody_elses_supersedes_nothing_of_mine(earlier: str, later: str, asked: str) -> None:
    assert 0 in current(told(earlier, later), [-1.0, -1.1], asked=asked)


@pytest.mark.parametrize(
    ("earlier", "later", "asked", "log_p"),
    [
        ("My name is Teo.", "Our name is Teodor.", "What is my name?", -1.1),
        ("My wife's name is Elif.", "My wife's name is Elif Kaya.", "What is my wife's name?", -1.1),
        ("Ada's city is Bonn.", "Ada's city is Mainz.", "In which city does Ada live?", -1.1),
        ("The city of my wife is Bonn.", "My wife's city is Mainz.", "What is my wife's city?", -0.9),
        ("Alice has a job at Fjord.", "Alice's new job is at Nordlys.", "Where does Alice have a job?", -0.9),
    ],
)
def test_what_is_of_the_same_person_or_likelier_supersedes(earlier: str, later: str, asked: str, log_p: float) -> None:
    assert current(told(earlier, later), [-1.0, log_p], asked=asked) == {1}


def test_to_speak_of_me_is_not_to_say_the_same() -> None:
    told_once = told("I am allergic to peanuts.", "I prefer trains to planes.")
    assert current(told_once, [-1.0, -1.0], asked="Which food is dangerous for me?") == {0, 1}
    moved = told("I live in a flat in Bern.", "I now live in a flat in Zurich.")
    assert current(moved, [-1.0, -1.0], asked="What is my address?") == {1}, "that is the same, asked in other words"


@pytest.mark.parametrize(
    ("texts", "right"),
    [
        (("Alice lives in Bern.", "Bob lives in Zurich."), 0),
        (("Bob lives in Zurich.", "Alice lives in Bern."), 1),
    ],
)
def test_what_says_the_same_of_somebody_else_is_not_about_it_in_whatever_order_it_was_told(
    texts: tuple[str, str], right: int
) -> None:
    assert current(told(*texts)) == {right}


@pytest.mark.parametrize("heading", ["## Home town of Alice", "Home town of Alice:"])
def test_a_new_value_under_the_same_heading_supersedes_the_old(heading: str) -> None:
    texts = [f"{heading}\n- {city}" for city in ("Bern", "Rome")]
    units = [Unit(i, i + 1, 0, len(text), text, len(heading) + 1) for i, text in enumerate(texts)]
    assert current(units, asked="What is the home town of Alice?") == {1}


def items(*versions: tuple[str, tuple[str, ...]]) -> list[Unit]:
    """One list per version: its heading, which every item carries, and its items."""
    found: list[Unit] = []
    for version, (heading, lines) in enumerate(versions, start=1):
        for line in lines:
            text = f"{heading}\n{line}" if heading else line
            found.append(Unit(len(found), version, 0, len(text), text, len(text) - len(line)))
    return found


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
    units = items(*lists)
    assert current(units, asked=question) == set(range(len(units)))


def test_a_single_labelled_value_is_superseded_by_the_next() -> None:
    assert current(items(("", ("City: Bern",)), ("", ("City: Rome",))), asked="Which city?") == {1}


def test_of_many_told_of_in_the_same_words_the_one_asked_about_alone_is_left() -> None:
    """What all say is common then, so by rarity they would share next to nothing."""
    jobs = {"Alice": "nurse", "Bob": "pilot", "Carla": "baker", "David": "lawyer", "Emma": "painter", "Frank": "farmer"}
    units = told(*(f"{name} is a {job}." for name, job in jobs.items()))
    for right, name in enumerate(jobs):
        assert current(units, asked=f"What is {name}'s job?") == {right}


def test_each_of_two_that_hold_what_the_other_lacks_stays() -> None:
    units = told("Alice directed the film Heron.", "Bob directed the film Lark.")
    assert current(units, asked="Is Heron or Lark older?") == {0, 1}


def test_of_three_tellings_the_last_supersedes_all() -> None:
    """Also what it could not reach itself: the second supersedes the first, and the third the second."""
    units = told(*(f"Alice lives in a small flat in {city}." for city in ("Bern", "Zug", "Olten")))
    assert [one.newest for one in verdicts(units, ASKED, [-1.0, -1.2, -1.4])] == [2, 2, 2]
    assert [one.newest for one in verdicts(units, ASKED, [-1.0, -1.4, -1.8])] == [2, 2, 2]
    assert [one.newest for one in verdicts(units, ASKED, [-1.0, -2.0, -1.4])] == [2, 2, 2]
    assert [one.newest for one in verdicts(units, ASKED, [-1.0, -1.4, -2.1])] == [1, 1, 2]


@given(
    texts=st.lists(
        st.lists(st.sampled_from(["Alice", "Bob", "lives", "flat", "Bern", "Zug", "boat"]), min_size=1, max_size=5),
        max_size=7,
    ),
    data=st.data(),
)
def test_what_supersedes_is_later_and_itself_not_superseded(texts: list[list[str]], data: st.DataObject) -> None:
    units = told(*(" ".join(words) for words in texts))
    log_p = data.draw(st.lists(st.floats(-4.0, -0.5), min_size=len(units), max_size=len(units)))
    found = verdicts(units, ASKED, log_p)
    assert len(found) == len(units)
    for i, one in enumerate(found):
        assert one.newest >= i
        assert found[one.newest] == one
        assert one.newest == i or units[one.newest].version > units[i].version
    assert not units or any(one.about for one in found), "something is always left"


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


def mistaken(reader: Reader) -> tuple[list[str], list[str], list[str]]:
    """Of pairs of which the later supersedes nothing, the later ones behind which the earlier is lost; of the others,
    the later ones beside which the earlier stays, and those that are lost."""

    def left(pair: tuple[str, str, str]) -> set[int]:
        read = reader.read(pair[:2], pair[2])
        return current(told(*pair[:2]), [one.log_p for one in read], pair[2])

    lost = [pair[1] for pair in OTHERS if 0 not in left(pair)]
    stayed = [pair[1] for pair in SUPERSEDING if left(pair) != {1}]
    return lost, stayed, [pair[1] for pair in SUPERSEDING if 1 not in left(pair)]


@pytest.mark.model
def test_of_natural_pairs_the_bare_model_mistakes_four_or_five(smollm2: BaseModel) -> None:
    """The rules are the trained reader's: it tells better what a unit is about, so they ask for less."""
    lost, stayed, gone = mistaken(Reader(smollm2))
    near_the_reach = "Alice works in Bern."  # processors round bfloat16 to either side of it
    assert [text for text in lost if text != near_the_reach] == [
        "Alice works in Geneva.",
        "Ann reports for duty at nine.",
        "The launch of Heron is led by Ida Voss.",
    ]
    assert stayed == ["The standup has been moved to Tuesday at 10."]
    assert gone == []


@pytest.mark.model
def test_of_natural_pairs_the_shipped_reader_mistakes_two(smollm2: BaseModel) -> None:
    folder = shipped_hypernetwork("smollm2-135m")
    assert folder is not None
    sha256 = read_manifest(folder).reranker_sha256
    assert sha256 is not None

    stayed = ["Alice moved to Zurich.", "The launch of Heron was postponed to May."]
    assert mistaken(Reader(smollm2, load_reranker(folder, sha256))) == ([], stayed, [])
