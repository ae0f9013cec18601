"""Reading a text costs time in proportion to its length, whatever it is made of: none can freeze a process."""

import gc
import time
from collections.abc import Callable
from datetime import datetime

import pytest
from langchain_plume.middleware import corrections_in, everything_said

from plume_memory.distill.questions import keyword_questions
from plume_memory.model.copying import Copying
from plume_memory.segmentation.acts import acts_of
from plume_memory.segmentation.dates import with_dates
from plume_memory.segmentation.sentences import segment
from plume_memory.segmentation.statements import statements_of
from plume_memory.segmentation.unreadable import unreadable_spans
from plume_memory.terms import terms_of

SHAPES = {
    "full stops": ".",
    "question marks": "?!",
    "ellipses": "…",
    "quoted stops": '."',
    "stops and spaces": ". ",
    "wide stops": "。」",
    "initials": "A.",
    "abbreviations": "e.g. ",
    "quotes": "\"'",
    "blanks": " ",
    "tabs and returns": "\t\r",
    "blank lines": " \n",
    "one word": "w",
    "marks above letters": "a\u0301\u0301\u0301",
    "joiners": "\u200d",
    "stars": "**",
    "rules": "- - -\n",
    "bullets in a line": "- ",
    "bullets": "- a\n",
    "numbers": "123456789. ",
    "typed bullets": "(1) [x] •\n",
    "underlines": "a\n=\n",
    "titles": "# a\n",
    "labels": "a: b\n",
    "dashes": "a – ",
    "fences": "```\n",
    "small tables": "|a|\n|-|\n|b|\n",
    "weekdays": "on monday ",
    "dots and hyphens in a word": "a.-,'",
}
READERS: dict[str, Callable[[str], object]] = {
    "statements": statements_of,
    "segments": lambda text: segment(text, budget_tokens=64, count_tokens=len),
    "turns": everything_said,
    "corrections": corrections_in,
    "questions": acts_of,
    "words": terms_of,
    "no words": unreadable_spans,
    "values": lambda text: Copying([text]).begun("12"),
    "days": lambda text: with_dates(text, datetime(2026, 3, 4)),
    "keywords": lambda text: keyword_questions([text], per_sentence=1, seed=0),
}


def wide_table(chars: int) -> str:
    """A head of many columns above many short rows: Markdown fills each of them up."""
    columns = chars // 16
    return f"{'|a' * columns}\n{'|-' * columns}\n" + "|b\n" * (chars // 4)


def deep_list(chars: int) -> str:
    return "".join(" " * (2 * level) + "- a\n" for level in range(60)) * (chars // 3800 + 1)


def seconds(read: Callable[[str], object], text: str) -> float:
    """Processor time of this thread, so that a busy machine counts little.

    Without the collector, which would go over everything that pytest holds.
    """
    gc.disable()
    try:
        begun = time.thread_time()
        read(text)
        return time.thread_time() - begun
    finally:
        gc.enable()


def check_growth(read: Callable[[str], object], made: Callable[[int], str]) -> None:
    """Allow four times as long for each character of ten and forty times the text; a square takes ten and forty."""
    small = min(seconds(read, made(5_000)) for _ in range(3)) + 0.002
    for times in (10, 40):  # in this order: what grows with the square is found out before it takes minutes
        spent = seconds(read, made(5_000 * times))
        assert spent <= 4 * times * small, f"{times} times the text took {spent / small:.0f} times as long"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_text_takes_longer_than_its_length_allows(reader, shape):
    check_growth(READERS[reader], lambda chars: (SHAPES[shape] * chars)[:chars])


@pytest.mark.parametrize("made", [wide_table, deep_list])
def test_no_table_and_no_list_takes_longer_than_its_length_allows(made):
    check_growth(statements_of, made)


def test_a_small_text_with_a_wide_table_is_read_at_once():
    """Its cells would be 65,536."""
    assert seconds(statements_of, wide_table(5_000)) < 0.02 + 40 * seconds(statements_of, "- a word\n" * 550)


@pytest.mark.parametrize("end", [".....", "?!?!?!", "…", '."', ".)"])
def test_a_run_of_end_marks_ends_one_sentence(end):
    text = f"He left{end} She stayed{end}{end} They{end}met."
    pieces = statements_of(text)
    assert pieces == [f"He left{end}", f"She stayed{end}{end}", f"They{end}met."]


def test_a_long_list_is_read_in_parts_and_stays_under_its_title():
    items = "".join(f"- Item number {number} of the list\n" for number in range(3_000))
    pieces = statements_of(f"# Shopping\n\n{items}")
    assert len(pieces) == 3_000
    assert all("# Shopping" in piece for piece in pieces)


def test_a_line_of_any_length_is_one_item():
    long = "word " * 2_000
    assert statements_of(f"Notes:\n- Met Anna today\n- {long}end\n- Saw Bob today\n")[1].endswith("word end")
