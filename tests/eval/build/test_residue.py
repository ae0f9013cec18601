"""One value has many spellings; an update that keeps any of them keeps the old answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.build.quantities import terms
from eval.build.residue import residues, same_value, states


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7", "seven"),
        ("7,000", "7000"),
        ("seven thousand", "7 thousand"),
        ("one hundred and five", "105"),
        ("1.5 million", "1,500,000"),
        ("two dozen", "24"),
        ("nineteen eighty-seven", "1987"),
        ("21st", "21st"),
        ("first", "1st"),
        ("3 km", "3,000 m"),
        ("3 kilometres", "3km"),
        ("three kilometers", "3000 meters"),
        ("3 miles", "4.8 km"),
        ("2.6-metre", "260 cm"),
        ("two decades", "20 years"),
        ("90 minutes", "1.5 hours"),
        ("60 km/h", "60 kilometres per hour"),
        ("-5 °C", "−5 degrees Celsius"),
        ("50%", "fifty per cent"),
        ("US$1.5 million", "1,500,000 dollars"),
        ("March 3, 1974", "3 March 1974"),
        ("Mar 3rd", "3rd March"),
        ("the red pan", "Red pan"),
        ("Renée's", "Renee"),
    ],
)
def test_two_spellings_are_one_value(one: str, other: str) -> None:
    assert same_value(one, other)
    assert same_value(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7", "8"),
        ("7 km", "7 miles"),
        ("-5 °C", "5 °C"),
        ("1990", "1990s"),
        ("3 kg", "3 km"),
        ("Ward 6B", "Ward 6"),
        ("March 3", "May 3"),
        ("red pan", "blue pan"),
    ],
)
def test_two_values_are_not_one(one: str, other: str) -> None:
    assert not same_value(one, other)


@pytest.mark.parametrize(
    ("old", "update", "left"),
    [
        ("1987", "It opened in 1987.", ["1987"]),
        ("3 km", "The path is 3,000 metres long.", ["3,000 metres"]),
        ("twenty years", "It ran for two decades.", ["two decades"]),
        ("1987", "It was loved in the 1980s.", []),
        ("Sull", "The Sullivan inn.", []),
        ("March 3, 1974", "On 3 March 1974 it closed.", ["3 March 1974"]),
    ],
)
def test_an_old_value_is_found_in_any_spelling(old: str, update: str, left: list[str]) -> None:
    assert residues([old], ["something else"], old, update) == left


def test_a_new_answer_that_holds_the_old_one_is_no_residue() -> None:
    assert residues(["Denver"], ["Denver North"], "In Denver.", "He lives in Denver North.") == []
    assert residues(["Denver"], ["Denver North"], "In Denver.", "Denver North, once Denver.") == ["Denver"]


def test_a_small_number_counts_only_before_what_it_counted() -> None:
    old = "The crew is 14 people."

    assert residues(["14"], ["16"], old, "The crew is 16 people, with 14 boats.") == []
    assert residues(["14"], ["16"], old, "The crew is fourteen people.") == ["fourteen"]
    aboard = "There were 14 of the cooks aboard."
    assert residues(["14"], ["16"], aboard, "There were 14 of the boats ashore.") == []
    assert residues(["14"], ["16"], aboard, "There were 14 cooks aboard.") == ["14"]


@pytest.mark.parametrize(
    ("old", "update"),
    [
        ("They counted 14.", "They counted 14."),
        ("They counted 14 in the hall.", "At dawn they counted 14 by the lake."),
        ("The crew was 14. It left.", "The crew was 14. Then it left."),
        ("The crew was 14. It left.", "The crew was fourteen."),
    ],
)
def test_a_small_number_without_a_noun_counts_beside_the_word_before_it(old: str, update: str) -> None:
    assert len(residues(["14"], ["16"], old, update)) == 1
    assert residues(["14"], ["16"], old, "The guests were 14.") == []


@pytest.mark.parametrize(
    "update",
    [
        "Renquist led it.",
        "T. Renquist led it.",
        "It was led by Renquist.",
        "Then Renquist led it.",
        "It went on. Renquist led it.",
        "Dr. Renquist led it.",
    ],
)
def test_a_name_that_only_the_update_shortens_is_found(update: str) -> None:
    assert residues(["Tislava Renquist"], ["Mara Oll"], "Tislava Renquist led it.", update) == ["Renquist"]


@pytest.mark.parametrize(
    ("answer", "update"),
    [
        ("Tislava Renquist", "Jan Renquist led it."),
        ("Tislava Renquist", "J. Renquist led it."),
        ("New York", "It was moved to York."),
        ("Lake Orm", "It was moved to the village of Orm."),
    ],
)
def test_somebody_else_s_name_is_no_residue(answer: str, update: str) -> None:
    assert residues([answer], ["Mara Oll"], f"{answer} is meant.", update) == []


def test_yes_and_no_are_no_values() -> None:
    assert residues(["no"], ["yes"], "There is no bridge.", "There is no ferry.") == []


def test_initials_and_the_name_used_alone_are_found() -> None:
    bank = "Bank Of Northern Ilse"
    assert residues([bank], ["Sun Bank"], bank, "The BONI lends.") == ["BONI"]
    old = "Tislava Renquist came. Renquist stayed."
    assert residues(["Tislava Renquist"], ["Mara Oll"], old, "Mara Oll came. Renquist stayed.") == ["Renquist"]
    assert residues(["Tislava Renquist"], ["Mara Oll"], old, "Mara Oll came to Renquist Hall.") == []
    assert residues(["Tislava Renquist"], ["Jan Renquist"], old, "Jan Renquist came. Renquist stayed.") == []


def test_a_bare_number_is_stated_under_any_unit() -> None:
    assert states("It is 412 metres deep.", "412")
    assert not states("It is 412 metres deep.", "412 km")


@given(st.text(max_size=60))
def test_any_text_has_terms_inside_it(text: str) -> None:
    assert all(0 <= term.start < term.end <= len(text) for term in terms(text))


@given(st.integers(min_value=0, max_value=999_999))
def test_separators_never_matter(number: int) -> None:
    assert same_value(f"{number}", f"{number:,}")


@pytest.mark.parametrize(
    "update",
    [
        "With Renquist gone, the crew grew.",
        "Under Renquist the crew grew.",
        "It stayed. By Renquist's order it went.",
        "Only Renquist stayed.",
        "Director Renquist resigned.",
        "Chief engineer Mara Oll left; Commander Renquist resigned.",
    ],
)
def test_a_word_that_only_begins_a_sentence_or_a_title_is_no_first_name(update: str) -> None:
    assert residues(["Tislava Renquist"], ["Mara Oll"], "Tislava Renquist led it.", update) == ["Renquist"]


def test_what_the_old_text_shortens_counts_behind_an_article_too() -> None:
    old = "The Denver Broncos played. The Broncos won."
    assert residues(["Denver Broncos"], ["Carolina Panthers"], old, "It rained. The Broncos lost.") == ["Broncos"]


@pytest.mark.parametrize(
    ("old", "new", "update"),
    [
        ("Stanford University", "MIT", "She was at the University of Bergen."),
        ("Houston, Texas", "Tampa, Florida", "Another opened in Dallas, Texas."),
        ("Distinguished Service Medal", "Silver Star", "He kept an Exceptional Service Medal."),
        ("Prime Minister", "Chancellor", "She spoke with the Minister of Finance."),
        ("Prime Minister", "Chancellor", "She spoke with a Minister."),
    ],
)
def test_the_last_word_of_a_kind_of_thing_is_not_that_thing(old: str, new: str, update: str) -> None:
    assert residues([old], [new], f"It was {old}.", update) == []
