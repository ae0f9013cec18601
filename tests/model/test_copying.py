"""A value of the evidence that an answer has begun goes on as the evidence has it; other words are the model's own."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.model.copying import Copying
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler
from plume_memory.testing import tiny_base
from tests.passes import watched

VALUES = (
    "CH93 0076 2011 6238 5295 7",
    "192.168.14.7",
    "+41 44 555 18 06",
    "https://wiki.fjord.example/space/ops?view=2",
    "9fceb02a41",
    "1,250.50",
    "-18.5",
    "3/4",
    r"C:\Users\mina\My Backups\2026",
    "billing+eu@north-pier.example.org",
    "T!g3r&lily_88",
    "978-3-16-148410-0",
    "47.3769 N, 8.5417 E",
    "^ORD-[0-9]{6}$",
    "#1A7F5C",
)
LETTERS = "0123456789abcXYZ.,-/ "


def slipping(values: Copying, said: str, wanted: str) -> str:
    """Go on with `wanted`, a character at a time, by a model that at each place would rather say anything else."""
    for right in wanted:
        wrong = next(char for char in LETTERS if char != right)
        ranked = [wrong, *(char for char in LETTERS if char not in (wrong, right)), right]
        chosen = values.choose(said, ord(wrong), partial(list, map(ord, ranked)), chr)
        said += chr(chosen)
    return said


@pytest.mark.parametrize("value", [value for value in VALUES if " " not in value])
def test_a_value_that_is_begun_is_copied_to_its_end(value: str) -> None:
    values = Copying(["What is it?", f"The canteen opens at noon. It is {value}."])
    begun = next(end for end in range(2, len(value)) if not value[:end].isalpha())
    said = f"It is {value[:begun]}"
    assert slipping(values, said, value[begun:]) == f"It is {value}"
    whole = f"It is {value}"
    assert values.choose(whole, ord("9"), lambda: [ord("9"), ord(".")], chr) == ord("."), "and not beyond it"
    assert values.choose(whole, 0, lambda: [], lambda _: "") == 0, "there the answer may end"
    assert values.choose(said, 0, lambda: [0, ord(value[begun])], lambda one: chr(one) if one else "") == ord(
        value[begun]
    )


@pytest.mark.parametrize(
    "said",
    [
        "In 4",  # one character, behind another word
        "It is 45",  # no value begins so
        "The ",
        "",
        "Alic",  # letters alone
        "It is 4471 ",
    ],
)
def test_what_begins_no_value_is_the_models_own(said: str) -> None:
    values = Copying(["Alice's code is 4471, at 12 Mill-Street."])

    def never() -> list[int]:
        raise AssertionError("nothing to choose from")

    assert values.choose(said, ord("x"), never, chr) == ord("x")


def test_one_character_is_enough_behind_the_word_before_the_value() -> None:
    values = Copying(["Her code is 4471."])
    assert values.choose("Your code is 4", ord("5"), lambda: [ord("5"), ord("4")], chr) == ord("4")
    assert values.choose("In 4", ord("5"), lambda: [ord("5"), ord("4")], chr) == ord("5")


@pytest.mark.parametrize(
    ("source", "said", "token"),
    [("Ada likes tea and/or coffee.", "Ada and", " "), ("Ada/Bob share it.", "Ada", " "), ("Order no.5", "No, no", "")],
)
def test_a_word_of_letters_begins_no_value(source: str, said: str, token: str) -> None:
    one = ord(token) if token else 0
    assert Copying([source]).choose(said, one, lambda: [ord("/"), ord(".")], lambda i: chr(i) if i else "") == one


def test_of_two_values_that_begin_alike_each_may_follow() -> None:
    values = Copying(["Release 2.1 was in March, release 2.10 in October."])
    for token in (".", "0", " "):
        assert values.choose("release 2.1", ord(token), lambda: [], chr) == ord(token)
    assert values.choose("release 2.1", ord("5"), lambda: [ord("5"), ord(" ")], chr) == ord(" ")


def test_a_letter_of_several_tokens_is_left_to_the_model() -> None:
    values = Copying(["It is 18°C4."])
    assert values.choose("It is 18", ord("x"), lambda: [], chr) == ord("x")


@given(
    text=st.text("ab1. \u00e9/", max_size=20),
    said=st.text("ab1. \u00e9/", max_size=12),
    token=st.sampled_from("ab1. /"),
)
def test_any_token_is_kept_where_nothing_else_is_to_be_had(text: str, said: str, token: str) -> None:
    assert Copying([text]).choose(said, ord(token), lambda: [], chr) == ord(token)


def test_a_decode_copies_the_values_of_its_sources() -> None:
    """What a random model says first is made the beginning of a value: what it says next must go on with it."""
    base = tiny_base(seed=5)
    prompt = tuple(base.chat.prompt_ids("What is the code?"))
    letters = torch.zeros(base.model.config.vocab_size)
    letters[[base.tokenizer.encode(digit, add_special_tokens=False)[0] for digit in "479 "]] = 100.0
    letters[base.tokenizer.encode(" ", add_special_tokens=False)[0]] = 98.0  # words, not blanks
    decoder, settings = Scheduler(base), DecodeSettings(max_new_tokens=24, stop_loops=False)
    query = Query(Row(prompt), Row(prompt))
    with watched(base, says=lambda logits: logits + letters):
        [free] = decoder.decode([query], settings)
        value = f"{next(word for word in free.text.split() if len(word) > 2)[:2]}a#b"
        query = replace(query, sources=(f"It is {value}.",))
        [held] = decoder.decode([query], settings)
        streamed = "".join(step.text for step in decoder.stream([query], settings))
    assert value in held.text
    assert value not in free.text
    assert streamed == held.text
    assert all(math.isfinite(token.log_prob) for token in held.trace)
