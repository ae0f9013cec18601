"""Short replies are found by what was asked: the real model, texts and questions of docs/decisions/0071."""

from pathlib import Path

import pytest

from plume_memory import ParametricMemory

pytestmark = pytest.mark.model

TOLD = [
    (
        "Vera: Who owns the billing service now?\nTom: Aisha.\nVera: And where will the offsite be?\n"
        "Tom: Ghent, as last year.\nVera: Thanks!",
        {"Who owns the billing service?": "Aisha", "Where will the offsite be?": "Ghent"},
    ),
    (
        "Q: How long is the warranty of the Heron pump?\nA: Four years.\nQ: Which oil does it take?\nA: ISO 46.\n"
        "Q: Who repairs it?\nA: Any Brandt dealer.",
        {
            "How long is the warranty of the Heron pump?": "Four years",
            "Which oil does the pump take?": "46",
            "Who repairs the pump?": "Brandt",
        },
    ),
    (
        "Mia: what's the wifi password at the cabin?\nJonas: larch-4471\nMia: and which bus goes there?\n"
        "Jonas: the 36 from the station",
        {"What is the wifi password at the cabin?": "larch-4471", "Which bus goes to the cabin?": "36"},
    ),
    (
        "Interviewer: When did you join the firm?\nMs Okafor: In March 2019.\nInterviewer: What was your first project?"
        "\nMs Okafor: A ferry terminal in Split.\nInterviewer: Who was your mentor?\nMs Okafor: Dario Vlahov.",
        {
            "When did Ms Okafor join the firm?": "2019",
            "What was Ms Okafor's first project?": "ferry",
            "Who was Ms Okafor's mentor?": "Dario",
        },
    ),
    (
        "Ann: Which day is the vet?\nBo: Thursday at nine\nAnn: what does Rex weigh?\nBo: 31 kilos",
        {"Which day is the vet?": "Thursday", "What does Rex weigh?": "31"},
    ),
]
REPLIES = [
    ("Which city do you live in?", "In Bern", "Where do I live?", "Bern"),
    ("Do you have any allergies?", "Peanuts and shellfish", "What am I allergic to?", "Peanuts"),
    ("What is your dog called?", "Rex", "What is the name of my dog?", "Rex"),
    ("And when is the vet appointment?", "Thursday at nine", "When is the vet appointment?", "Thursday"),
]
BAR = 4
"""Of twelve; 5 were right when it was measured, none before a reply stood under its question."""


def test_a_short_reply_answers_what_was_asked(tmp_path: Path) -> None:
    right = 0
    for number, (text, asked) in enumerate(TOLD):
        with ParametricMemory.open("chat", url=f"sqlite:///{tmp_path / f'{number}.db'}") as memory:
            memory.update(text)
            right += sum(said.lower() in memory.ask(question).text.lower() for question, said in asked.items())
    assert right >= BAR


def test_a_reply_in_an_update_of_its_own_answers_what_was_asked(tmp_path: Path) -> None:
    """As an agent's middleware writes it; without the question fewer are found."""
    url = f"sqlite:///{tmp_path / 'replies.db'}"
    right: dict[bool, list[bool]] = {}
    for with_question in (True, False):
        with ParametricMemory.open(f"replies {with_question}", url=url) as memory:
            for asked, reply, _, _ in REPLIES:
                memory.update(reply, in_answer_to=asked if with_question else None, derive=False)
            answers = [(memory.ask(question), value) for _, _, question, value in REPLIES]
        right[with_question] = [answer.known and value.lower() in answer.text.lower() for answer, value in answers]
    assert sum(right[False]) < sum(right[True]), right  # 0 and 2 of 4 when it was measured
