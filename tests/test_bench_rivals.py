"""bench/rivals.py: when an answer about a pair of notes counts as right."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(scope="module")
def rivals() -> dict[str, Any]:
    """The script's names."""
    return runpy.run_path(str(BENCH / "rivals.py"))


def line_of(rivals: dict[str, Any], later: str) -> Any:
    """The line of the pair with this later note."""
    for _, _, texts, questions in rivals["histories"]((), None):
        if texts[1] == later:
            return questions[0]
    raise AssertionError(later)


def test_an_answer_in_the_question_s_words_is_right_whatever_words_the_notes_have(rivals: dict[str, Any]) -> None:
    # by words in common "Alice lives in Zurich." is nearer to "Alice lives in Bern."
    moved = line_of(rivals, "Alice moved to Zurich.")
    assert rivals["_right"](moved, "Alice lives in Zurich.")
    assert not rivals["_right"](moved, "Alice lives in Bern.")
    assert not rivals["_right"](moved, "Alice lives in Bern, now in Zurich.")


def test_two_notes_may_say_the_same_of_two_things(rivals: dict[str, Any]) -> None:
    assert rivals["_right"](line_of(rivals, "Alice works in Bern."), "Alice lives in Bern.")


def test_every_pair_names_what_each_of_its_notes_answers() -> None:
    for text in (BENCH / "pairs.jsonl").read_text(encoding="utf-8").splitlines():
        pair = json.loads(text)
        for note in ("earlier", "later"):
            assert pair[f"{note}_answer"] in pair[note]
