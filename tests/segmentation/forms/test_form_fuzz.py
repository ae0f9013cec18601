"""Whatever a text is made of, and whatever form it is named: no word is lost, and units stay within the budget."""

import re
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.records import Context, Form, Transition, Unit
from plume_memory.segmentation.forms.recognise import form_of
from plume_memory.segmentation.units import units_of

BLOCKS = (
    "[04.03.26, 09:15:22] Ann: hello there\n",
    "[05.03.26, 10:15:22] Bo: see you tomorrow\n",
    "10:20 <kes> it broke\n",
    "Ann: I live in Bern.\n",
    "Bob: I live in Rome.\n",
    "name,city,age\n",
    'Ann,"Thun, BE",7\n',
    "Bo,Bern,\n",
    "# Title\n",
    "## Second one\n",
    "| Task | Owner |\n|---|---|\n| paint | Olle |\n",
    "> | Task | Owner |\n> |---|---|\n> | paint | Olle |\n",
    "- item one\n  > quoted in it\n",
    "  - | a | b |\n",
    "```\ncode = here\n```\n",
    '{"name": "Ada", "pets": [{"kind": "cat"}]}\n',
    "service:\n  name: heron\n  port: 9443\n",
    "[coach]\nphone = 55\n",
    "From: Ann <ann@a.example>\nTo: Bo <bo@b.example>\nSubject: Looms\n\n",
    "On Tue, 10 Mar 2026 at 11:05, Cy <c@c.example> wrote:\n> they come on Monday\n",
    "> quoted words\n>> deeper words\n",
    "[00:00:03] Vera: Good morning.\n",
    "00:00:04.000 --> 00:00:09.500\nfourteen hives\n",
    "I like tea\nmy dog is Rex\n",
    "A sentence of its own. And more!\n",
    "\n",
    "\r\n",
    "\ufeff",
    "   ",
    '"',
    "|",
)
MIXED = st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=12).map("".join)
FORMS = st.sampled_from([None, *get_args(Form)])


def cut(text: str, form: Form | None, budget: int) -> tuple[Unit, ...]:
    told = [Transition(1, text, context=Context(form))]
    return units_of(told, budget_tokens=budget, count_tokens=lambda t: len(t.split()), single_sentences=True)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@settings(max_examples=400, deadline=None)
@given(text=st.one_of(MIXED, st.text(max_size=200)), form=FORMS, budget=st.integers(8, 60))
def test_units_lose_no_word_and_stay_within_the_text_and_the_budget(text, form, budget):
    units = cut(text, form, budget)
    assert all(0 <= unit.start < unit.end <= len(text) for unit in units)
    assert all(text[unit.start : unit.end].strip() for unit in units)
    assert [unit.position for unit in units] == list(range(len(units)))
    assert all(len(unit.text.split()) <= budget for unit in units)
    assert all(0 <= unit.own < len(unit.text) for unit in units)
    said = set[str]().union(*(words(f"{unit.text} {text[unit.start : unit.end]}") for unit in units))
    known = form or form_of(text)
    if known not in ("data", "html"):  # a path is said in other words
        assert not {word for word in words(text) - said if not word.isdigit()} - {"webvtt"}


@settings(max_examples=200, deadline=None)
@given(text=MIXED)
def test_units_are_the_same_each_time(text):
    assert cut(text, None, 40) == cut(text, None, 40)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("- a list\n  > a quote\n  > | a | b |\n  > |---|---|\n  > | 1 | 2 |\n- more", None),
        ("> # quoted title\n> | a | b |\n> |---|---|\n> | 1 | 2 |\n", "markdown"),
    ],
)
def test_a_table_in_a_quote_in_a_list_is_told_whole(text, form):
    units = cut(text, form, 60)
    assert words(text) <= set[str]().union(*(words(unit.text) for unit in units))
