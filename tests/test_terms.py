"""What a text's words are: of any script, with their accents and signs, and a name that is spelt like a small word."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.terms import FUNCTION_WORDS, method_terms, possessors, speaks_of_me, terms_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("IT", "HR"),
        ("WHO", "UNICEF"),
        ("Will", "Mark"),
        ("C++", "C#"),
        ("F#", "F"),
        ("+5", "-5"),
        ("+5", "\u22125"),
        ("Jörg", "Jürg"),
        ("Åsa", "Ása"),
        ("α", "β"),
        ("田中", "佐藤"),
        ("Пётр", "Ольга"),
        ("한강", "금강"),
        ("أحمد", "سعيد"),
        ("हिन्दी", "हन्द"),
        ("vitamin A", "vitamin C"),
        ("The Who", "The Cure"),
        ("🦊", "🐻"),
        ("release 2.1", "release 2.10"),
        ("A+", "A-"),
        ("B+", "B"),
        ("AB\u2212", "AB"),
        ("100 $", "100 \u20ac"),
        ("\u20ac5", "\u00a35"),
        ("\U0001f1eb\U0001f1f7", "\U0001f1e9\U0001f1ea"),
    ],
)
def test_two_names_differ_in_a_word_that_names_something(one: str, other: str) -> None:
    found = [set(terms_of(f"The badge of {name} is red.")) - FUNCTION_WORDS for name in (one, other)]
    assert found[0] - found[1]


@pytest.mark.parametrize("text", ["Jörg and Jürg", "Пётр works in Kazan", "Café Zoë", "αβγ", "हिन्दी", "Zażółć gęślą"])
def test_a_text_composed_or_not_and_in_capitals_or_not_has_the_same_words(text: str) -> None:
    found = terms_of(text)
    assert terms_of(unicodedata.normalize("NFD", text)) == found
    assert terms_of(text.upper()) == found


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("Disney+ costs 9", "Disney"),
        ("U- und S-Bahn", "U"),
        ("200+ guests", "200"),
        ("Jörg's locker", "jorg"),
        ("Øystein drives", "oystein"),
        ("Café Łódź", "cafe"),
        ("valve \u22123", "-3"),
    ],
)
def test_what_is_typed_without_accents_is_found(written: str, asked: str) -> None:
    assert set(terms_of(asked)) <= set(terms_of(written))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What is it? Is it IT?", ["IT"]),
        ("Will you come? We will ask Will.", ["Will", "Will"]),
        ("It is hers. The end. \u201cWhat\u201d\n- A list\n(To do)", []),
        ("WHAT IS MY NAME", []),
        ("I think that I am in", []),
        ("Ask Can, and take vitamin A.", ["Can", "A"]),
    ],
)
def test_a_small_word_is_a_name_where_it_is_written_as_one(text: str, names: list[str]) -> None:
    assert [term for term in terms_of(text) if term != term.casefold()] == names


def test_other_words_are_those_of_the_method() -> None:
    text = "Alice's cat (born 12/03/2019) isn't in Bern; she's B-level, of C - or c-d - flat 4b."
    assert terms_of(text) == method_terms(text)


def test_the_methods_terms_are_letters_and_digits_of_ascii() -> None:
    assert method_terms("The IT of Jörg is C++ 2.1") == ["the", "it", "of", "j", "rg", "is", "c", "2", "1"]


@given(st.text(max_size=60))
def test_any_text_has_words_and_no_word_is_empty(text: str) -> None:
    assert all(term and not term.isspace() for term in terms_of(text))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("My wife's name is Elif.", {"my", "wife"}),
        ("The boss\u2019s assistant drinks cocoa.", {"boss"}),
        ("Our parents' alarm code is 1093.", {"my", "parents"}),
        ("Zoë's desk is 12.", {"zoë", "zoe"}),
        ("She's a nurse, it's fine, what's left and there's more.", set()),
        ("The desk is Zoë's.", set()),
        ("My name is Teo.", {"my"}),
        ("I am called Teo.", set()),
    ],
)
def test_whose_something_is_said_to_be(text: str, found: set[str]) -> None:
    assert possessors(text) == found


@pytest.mark.parametrize(
    ("text", "of_me"),
    [
        ("I live in Bern.", True),
        ("Where's MY cat?", True),
        ("Ours is red", True),
        ("Her cat", False),
        ("Mystery", False),
    ],
)
def test_what_is_in_the_first_person(text: str, of_me: bool) -> None:
    assert speaks_of_me(text) is of_me
