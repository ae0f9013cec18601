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
HEADS = (
    "From: Ann <ann@a.example>\n",
    'From: "\n',
    "From: ((((\n",
    "To: =?utf-8?q?x?=@\n",
    "To: Bo <bo@b.example>, ;:<>\n",
    "Cc: undisclosed:;\n",
    "Subject: =?nosuch?b?!?=\n",
    "Date: Wed, 04 Mar 2026 09:00:00 +99999999999999999999\n",
    "MIME-Version: 1.0\n",
    "Message-ID: <[\n",
    "Content-Type: text/html; charset=nosuch\n",
    'Content-Type: text/plain; charset="\0"\n',
    "Content-Type: multipart/mixed; boundary=x\n",
    "Content-Type: message/rfc822\n",
    "Content-Type: ;;=\n",
    "Content-Transfer-Encoding: base64\n",
    "Content-Transfer-Encoding: x-uuencode\n",
    "Content-Disposition: attachment; filename*=\n",
)
BODIES = (
    "\n",
    "--x\n",
    "--x--\n",
    "<p>a</p>\n",
    "<p><![a b[ c</p>\n",
    "<p><![1[ >c</p>\n",
    "SGk=\n",
    "=FF\n",
    "begin 6\n",
    *HEADS,
)
MAILS = st.builds(
    lambda heads, body: "".join([*heads, "\n", *body]),
    st.lists(
        st.sampled_from(HEADS) | st.text('"<>()@,;:=?[]\\ ax', max_size=12).map("To: {}\n".format),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.sampled_from(BODIES), max_size=6),
)
MIXED = st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=12).map("".join)
FORMS = st.sampled_from([None, *get_args(Form)])


def cut(text: str, form: Form | None, budget: int) -> tuple[Unit, ...]:
    told = [Transition(1, text, context=Context(form))]
    return units_of(told, budget_tokens=budget, count_tokens=lambda t: len(t.split()), single_sentences=True)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@settings(max_examples=400)
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


@settings(max_examples=400)
@given(text=st.one_of(MAILS, st.builds(str.__add__, st.sampled_from(HEADS), MAILS)), form=FORMS)
def test_a_mail_that_no_parser_can_read_is_read_all_the_same(text, form):
    cut(text, form, 40)


@pytest.mark.parametrize(
    "text",
    [
        'From: "\nSubject: x\n\nI live in Bern.',
        "From: a@b.example\nTo: =?utf-8?q?x?=@\n\nI live in Bern.",
        "From: a@b.example\nSubject: x\nContent-Type: text/html; charset=nosuch\n\nI live in Bern.",
        f"From: {'(' * 5000}\nSubject: x\n\nI live in Bern.",
        "From: a@b.example\nDate: Wed, 04 Mar 2026 09:00:00 +99999999999999999999\n\nI live in Bern.",
        "<p><![a b[ ]]></p><p>I live in Bern.</p>",
        "<p><![1[ ></p><p>I live in Bern.</p>",
        f"[a]\nb = {'9' * 5000}\nc = 'I live in Bern.'\n",
        "[a]\nb = 2026-99-99\nc = 'I live in Bern.'\n",
    ],
)
def test_what_the_parsers_fail_at_is_told(text):
    assert any("I live in Bern" in unit.text for unit in cut(text, None, 40))


@settings(max_examples=200)
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
