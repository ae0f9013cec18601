"""Reading a text by its form costs time in proportion to its length, whatever it is made of."""

import gc
import time
from collections.abc import Callable
from datetime import datetime
from typing import get_args

import pytest

from plume_memory.records import Context, Form, Transition
from plume_memory.segmentation.units import units_of

SHAPES = {
    "cells": "a,b\n",
    "semicolons": ";",
    "quotes": '"',
    "open quotes": 'a,"b\n',
    "brackets": "[",
    "pairs of brackets": "[]",
    "braces": '{"a":',
    "records": '{"a": 1}\n',
    "keys": "a:\n b: c\n",
    "keys in keys": "a:\n  b:\n    c: d\n",
    "anchors": "a: &a\n  b: *a\n",
    "dashes": "- ",
    "less than": "<",
    "paragraphs": "<p>a",
    "tables": "<table><tr><th>a<td>b",
    "comments": "<!--",
    "declarations": "<!a",
    "instructions": "<?",
    "open marks": "<a ",
    "open attributes": "<p a='",
    "attributes that end nowhere": "<p a='>",
    "marks in marks": "<a<a>",
    "end marks": "</",
    "scripts": "<script>",
    "entities": "&amp;&",
    "stamped": "[04.03.26, 09:15:22] Anna: hello\n",
    "nicks": "10:20 <a> b\n",
    "names": "Anna: hello there\nBob: I am here too\n",
    "stamps alone": "10:20 ",
    "stamps without a space": "10:20",
    "names above": "Anna  10:20\nhello\n",
    "quoted": "> a\n",
    "quotes in quotes": ">",
    "headers": "From: a\n",
    "announced": "On 3 Mar 2026, Anna wrote:\n",
    "assignments": "a = 1\n",
    "sections": "[a]\n",
    "cues": "00:00:01.000 --> 00:00:02.000\na\n",
    "rows": "| a | b |\n",
    "rules": "|-",
    "titles": "# a\n",
    "fences": "```\n",
    "yesterdays": "yesterday ",
    "numbers of days": "in 3 days ago ",
    "numbers": "1",
    "blanks": " ",
    "line breaks": "\n",
    "lines": "a b c\n",
    "returns": "a\r\n",
}
BEGINNINGS = {
    "html": "<html><p>a</p>",
    "email": "From: Anna <a@b.example>\nSubject: x\nDate: Tue, 3 Mar 2026 10:00:00 +0100\n\n",
    "chat": "[04.03.26, 09:15:22] Anna: hello\n[04.03.26, 09:15:23] Bob: hello\n",
    "table": "a,b,c\n1,2,3\n4,5,6\n",
    "transcript": "[00:00:01] Anna: a\n[00:00:02] Bob: b\n",
    "data": "a:\n  b: c\n  d: e\n",
}


def seconds(text: str, form: Form | None) -> float:
    """Processor time of this thread, without the collector, which would go over everything that pytest holds."""
    told = [Transition(1, text, context=Context(form=form, observed_at=datetime(2026, 3, 4)))]
    gc.disable()
    try:
        begun = time.thread_time()
        units_of(told, budget_tokens=200, count_tokens=len, single_sentences=True)
        return time.thread_time() - begun
    finally:
        gc.enable()


def check(form: Form | None, made: Callable[[int], str]) -> None:
    small = min(seconds(made(2_000), form) for _ in range(2)) + 0.002
    for times in (8, 32):
        spent = seconds(made(2_000 * times), form)
        assert spent <= 4 * times * small, f"{times} times the text took {spent / small:.0f} times as long"


@pytest.mark.parametrize("form", [None, *get_args(Form)])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_text_takes_longer_than_its_length_allows(form, shape):
    begun = BEGINNINGS.get(form or "", "")
    check(form, lambda chars: (begun + SHAPES[shape] * chars)[:chars])
