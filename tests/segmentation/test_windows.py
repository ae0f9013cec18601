"""What a parameterizer reads of a text with a form is what its units say."""

from datetime import datetime

from plume_memory.records import Context, Transition
from plume_memory.segmentation.windows import Segmenter, WindowRule


def windows(text: str, context: Context | None = None, tokens: int = 12) -> list[str]:
    rule = WindowRule("pieces", tokens)
    segmenter = Segmenter(lambda t: len(t.split()), unit_tokens=64, single_sentences=True, windows=rule)
    return segmenter.windows([Transition(1, text, context=context or Context())])


def test_cells_are_said_and_headings_once_a_window():
    text = "# Tasks\n\n| Task | Owner | State |\n|---|---|---|\n| Paint | Olle | open |\n"
    assert windows(text) == [
        "# Tasks\nTable of 1 row: task, owner, state.",
        "# Tasks\nThe owner of Paint is Olle.",
        "# Tasks\nThe state of Paint is open.",
    ]
    assert windows(text, tokens=40) == [
        "# Tasks\nTable of 1 row: task, owner, state.\nThe owner of Paint is Olle.\nThe state of Paint is open."
    ]


def test_whose_words_they_are_is_said_and_plain_text_stays_as_it_is():
    said = Context(speaker="Bo", observed_at=datetime(2026, 3, 4))
    assert windows("I saw her yesterday.", said) == ["Bo (2026-03-04):\nI saw her yesterday (2026-03-03)."]
    assert windows("I live in Thun. I sail.\n\n") == ["I live in Thun. I sail.\n\n"]
