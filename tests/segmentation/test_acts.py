"""What a sentence does: a learnt judgement, held to what it reached on sentences that chose nothing."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.segmentation.acts import SURE, Acts, acts_of
from plume_memory.segmentation.said import everything_said, is_small_talk

HELD_OUT = Path(__file__).parents[2] / "bench" / "experiments" / "held_out" / "acts.jsonl"


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
        ("do you remember Heidi", True),
        ("does Heidi sail", True),
        ("whos Heidi", True),
        ("hey do you know Heidi", True),
        ("who's my dentist again", True),
        ("what time is the meeting", True),
        ("how old am I", True),
        ("which bus do I take", True),
        ("What I hate most is cilantro", False),
        ("When Ada was in Rome she met Bo", False),
        ("Will drives a van", False),
        ("can you note that I live in Bern", False),
        ("May is in Oslo", False),
        ("Had my appendix removed in 2019", False),
        ("Do the laundry on Mondays", False),
        ("Do it on Mondays", False),
        ("What's new: we moved to Bern", False),
        ("What Ada is allergic to: nuts", False),
        ("have a nice day", False),
        ("", False),
    ],
)
def test_questions_are_told_from_what_is_said(text: str, asking: bool) -> None:
    assert (acts_of(text).asks >= SURE) is asking


@pytest.mark.parametrize(
    "text",
    [
        "I'm deaf",
        "no meat",
        "Heidi",
        "Rex then",
        "meeting 3pm",
        "Me llamo Ana",
        "Can you remember that my badge is 4471?",
        "Where I live: Bern",
        "\u6211\u5bf9\u82b1\u751f\u8fc7\u654f",
        "\u79c1\u306f\u533b\u8005\u3067\u3059",
        "\ub098\ub294 \ubca0\ub978\uc5d0 \uc0b4\uc544\uc694",
    ],
)
def test_short_facts_names_and_other_scripts_are_kept_and_are_evidence(text: str) -> None:
    assert everything_said(text) == text
    assert not is_small_talk(text)
    assert acts_of(text).asks < SURE


@given(st.text(st.characters(), max_size=60))
def test_any_text_does_something(text: str) -> None:
    acts = acts_of(text)
    assert isinstance(acts, Acts)
    assert sum(acts) == pytest.approx(1)
    assert min(acts) >= 0


@pytest.mark.parametrize("text", ["thx", "haha", "\U0001f44d", "go on", "lol", "Sounds good", "ok, thanks a lot"])
def test_chatter_is_neither_kept_nor_looked_up(text: str) -> None:
    assert everything_said(text) is None
    assert is_small_talk(text)


def test_sentences_that_chose_nothing() -> None:
    found: dict[str, list[Acts]] = {act: [] for act in Acts._fields}
    for line in HELD_OUT.read_text("utf-8").splitlines():
        row = json.loads(line)
        found[row["kind"]].append(acts_of(row["text"]))
    nothing = {act: sum(one.says <= 1 - SURE for one in own) / len(own) for act, own in found.items()}
    assert nothing["says"] <= 0.05
    assert min(nothing["asks"], nothing["orders"], nothing["chats"]) >= 0.75
    assert sum(one.asks >= SURE for one in found["says"]) / len(found["says"]) <= 0.02
    assert sum(one.asks >= SURE for one in found["asks"]) / len(found["asks"]) >= 0.7
