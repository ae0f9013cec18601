"""Text assembly on a byte tokenizer, where every character beyond ASCII is split over tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.model.text import TextAssembler
from plume_memory.testing import byte_tokenizer

TOKENIZER = byte_tokenizer()


def pieces(text: str, stop: tuple[str, ...] = ()) -> list[str]:
    assembler = TextAssembler(TOKENIZER, stop)
    made = []
    for token in TOKENIZER(text, add_special_tokens=False)["input_ids"]:
        made.append(assembler.add(token))
        if assembler.stopped:
            return made
    return [*made, assembler.finish()]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd<"), max_size=30))
def test_pieces_join_to_the_text_and_never_hold_half_a_character(text: str) -> None:
    made = pieces(text)

    assert "".join(made) == text
    assert not any("\ufffd" in piece for piece in made)


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("one. two. three", (". ",), "one"),
        ("abcabd", ("abd",), "abc"),
        ("aaab", ("aab",), "a"),
        ("end", ("ending",), "end"),
        ("x\n\ny", ("\n\n", "y"), "x"),
        ("Zürich liegt", ("ü",), "Z"),
    ],
)
def test_the_text_ends_before_the_first_stop_string(text: str, stop: tuple[str, ...], expected: str) -> None:
    assert "".join(pieces(text, stop)) == expected


def test_a_possible_stop_string_is_held_back_and_released_when_it_is_none() -> None:
    made = pieces("ab|c", ("|d",))

    assert made[2] == ""
    assert made[3] == "|c"
