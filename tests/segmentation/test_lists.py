"""Lists as people and agents write them: what heads what, and what does not."""

import pytest

from plume_memory.records import Transition
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.recency import Verdict, verdicts
from plume_memory.segmentation.statements import statements_of
from plume_memory.segmentation.units import units_of


def own_words(text: str) -> list[str]:
    units = units_of(
        [Transition(1, text)], budget_tokens=99, count_tokens=lambda t: len(t.split()), single_sentences=True
    )
    return [unit.text[unit.own :].strip() for unit in units]


def test_a_record_stands_under_the_line_that_names_whom_it_is_about():
    assert statements_of("Name: Alice\nCity: Bern\nJob: pilot\nName: Bob\nCity: Rome") == [
        "Name: Alice",
        "Name: Alice\nCity: Bern",
        "Name: Alice\nJob: pilot",
        "Name: Bob",
        "Name: Bob\nCity: Rome",
    ]
    assert statements_of("- **Name:** Alice\n- City: Bern")[1] == "- **Name:** Alice\n- City: Bern"
    assert statements_of("1. Name: Alice\n2. City: Bern")[1] == "1. Name: Alice\n2. City: Bern"


def test_records_that_begin_alike_do_so_too_unless_they_have_headings():
    assert statements_of("Customer: Acme\nCity: Bern\n\nCustomer: Bolt\nCity: Rome") == [
        "Customer: Acme",
        "Customer: Acme\nCity: Bern",
        "Customer: Bolt",
        "Customer: Bolt\nCity: Rome",
    ]
    headed = statements_of("## Alice\nJob: nurse\nCity: Bern\n\n## Bob\nJob: pilot\nCity: Rome")
    assert headed[1::2] == ["## Alice\nCity: Bern", "## Bob\nCity: Rome"]


def test_a_title_above_all_records_is_no_heading_of_one():
    told = statements_of("# Customers\n\nCustomer: Acme\nCity: Bern\n\nCustomer: Bolt\nCity: Rome")
    assert told[1] == "# Customers\nCustomer: Acme\nCity: Bern"
    assert told[3] == "# Customers\nCustomer: Bolt\nCity: Rome"


def test_a_record_that_begins_with_a_number_has_its_name_too():
    told = statements_of("ID: 1\nName: Alice\nCity: Bern\n\nID: 2\nName: Bob\nCity: Rome")
    assert told[2] == "ID: 1\nName: Alice\nCity: Bern"
    assert told[5].strip() == "ID: 2\nName: Bob\nCity: Rome"


def test_short_lines_of_their_own_are_no_heading_of_a_list_behind_a_blank_line():
    assert statements_of("Alice moved\n\nShe is happy\n\n- city: Bern\n- dog: Rex") == [
        "Alice moved",
        "She is happy",
        "- city: Bern",
        "- dog: Rex",
    ]


@pytest.mark.parametrize("heading", ["**Alice**", "Alice:", "## Alice", "Alice\n====="])
def test_what_is_marked_is_one(heading):
    assert statements_of(f"{heading}\n\n- city: Bern\n- dog: Rex")[1] == f"{heading.splitlines()[0]}\n- dog: Rex"


def test_a_title_without_text_is_no_part_of_the_item_under_the_next():
    assert statements_of("# Plans\n\n# Facts\n\n- a b\n- c d") == ["# Plans", "# Facts\n\n- a b", "# Facts\n- c d"]


def test_of_prose_before_a_list_only_the_last_sentence_announces_it():
    assert statements_of("We met for hours. Bob was late. Decided, in the end:\n- Bern it is\n- Rome is out") == [
        "We met for hours.",
        "Bob was late.",
        "Decided, in the end:\n- Bern it is",
        "Decided, in the end:\n- Rome is out",
    ]
    assert statements_of("We met in Paris.\nGroceries\n- whole milk\n- rye bread")[1:] == [
        "Groceries\n- whole milk",
        "Groceries\n- rye bread",
    ]


def test_items_below_others_keep_them_across_blank_lines():
    assert statements_of("- Alice\n\n  - city: Bern\n\n  - dog: Rex\n\n- Bob\n\n  - city: Rome") == [
        "- Alice",
        "- Alice\n  - city: Bern",
        "- Alice\n  - dog: Rex",
        "- Bob",
        "- Bob\n  - city: Rome",
    ]
    assert statements_of("1. Alice\n- city: Bern\n2. Bob\n- city: Rome")[1::2] == [
        "1. Alice\n- city: Bern",
        "2. Bob\n- city: Rome",
    ]


def test_an_item_that_is_a_list_has_no_words_of_its_own():
    assert statements_of("Orders:\n- - two cups\n  - one pot\n- - a spoon") == [
        "Orders:\n- - two cups",
        "Orders:\n  - one pot",
        "Orders:\n- - a spoon",
    ]
    assert statements_of("Hello there\n- 1.") == ["Hello there\n- 1."]


def test_what_announces_stands_under_words_alone():
    assert statements_of("Alice\nContact:\n- phone: 1\nFamily:\n- dog: Rex\n\nBob\n- dog: Max") == [
        "Alice\nContact:\n- phone: 1",
        "Alice\nFamily:\n- dog: Rex",
        "Bob\n- dog: Max",
    ]


def test_an_underlined_title_and_front_matter():
    assert statements_of("---\nname: Alice\ncity: Bern\n---\n\nWork\n----\n- Acme, Bern\n- since 2020") == [
        "---\nname: Alice",
        "name: Alice\ncity: Bern\n---",
        "Work\n----\n- Acme, Bern",
        "Work\n- since 2020",
    ]


@pytest.mark.parametrize("code", ["```x```", "Use ```pip``` now", "~~~\n- a\n~~~"])
def test_lists_behind_code_are_lists(code):
    assert statements_of(f"{code}\n\n- city: Bern\n- dog: Rex")[-2:] == ["- city: Bern", "- dog: Rex"]


@pytest.mark.parametrize("bullet", ["•", "–", "●", "(1)", "[x]", "12."])
def test_bullets_that_people_type(bullet):
    assert statements_of(f"Alice:\n\n{bullet} city: Bern\n{bullet} dog: Rex")[1] == f"Alice:\n{bullet} dog: Rex"


@pytest.mark.parametrize(
    "turns",
    [
        ("Alice: I live in Bern.", "Bob: I live in Rome.", "Alice: And I sail.", "Bob: I do not."),
        ("User: I moved to Rome", "Assistant: Nice city", "User: And I sail", "Assistant: I see"),
    ],
)
def test_a_dialogue_with_blank_lines_is_none_either(turns):
    told = statements_of(f"{turns[0]}\n{turns[1]}\n\n{turns[2]}\n{turns[3]}")
    assert [one.strip() for one in told] == list(turns)


def test_a_sentence_above_a_rule_is_no_title():
    told = statements_of("I live in Bern.\n---\n- I now live in Rome\n- my dog is Rex")
    assert told == ["I live in Bern.\n---", "- I now live in Rome", "- my dog is Rex"]


def test_a_rule_ends_what_was_announced_and_is_no_statement():
    told = statements_of("Alice:\n- city: Bern\n- dog: Rex\n\n---\n\n- whole milk\n- rye bread\n\n---\n")
    assert told[1:] == ["Alice:\n- dog: Rex\n\n---", "- whole milk", "- rye bread\n\n---"]
    assert statements_of("It rains.\n\n* * *\n") == ["It rains.\n\n* * *"]


def test_items_without_words_are_their_own_and_cost_what_their_number_does(growth):
    def told(n: int) -> list[str]:
        return statements_of("- a b\n" + "*\n" * n + "- c d\n- e f\n")

    assert len(told(3_000)) == 3
    assert growth(told, 3_000) < 9


def test_the_columns_of_a_wide_table_are_kept():
    row = "| " + " | ".join(f"{cell:<15}" for cell in ("name", "born", "firm", "city", "cats", "food")) + " |"
    rule = "|" + "|".join("-" * 17 for _ in range(6)) + "|"
    told = statements_of(
        f"{row}\n{rule}\n| Ann | 1990 | Acme | Bern | 1 | figs |\n| Bob | 1991 | Bolt | Rome | 2 | soup |"
    )
    assert told[-1].startswith("| name ")
    assert told[-1].endswith("| Bob | 1991 | Bolt | Rome | 2 | soup |")


@pytest.mark.parametrize("indent", ["\t", "    ", "      "])
def test_lists_far_from_the_margin_are_lists(indent):
    assert statements_of(f"{indent}- Alice lives in Bern\n{indent}- Bob lives in Rome") == [
        "- Alice lives in Bern",
        f"{indent}- Bob lives in Rome".strip(),
    ]
    told = statements_of(f"Alice:\n\n{indent}- city: Bern\n{indent}  - part: old\n\n{indent}- dog: Rex\n\nBob sails.")
    assert [one.split() for one in told[1:]] == [
        ["Alice:", "-", "city:", "Bern", "-", "part:", "old"],
        ["Alice:", "-", "dog:", "Rex"],
        ["Bob", "sails."],
    ]


def test_bullets_behind_a_blank_line_do_not_belong_to_the_last_number():
    assert statements_of("1. Wake up\n2. Call Bob\n\n- whole milk\n- rye bread")[2:] == ["- whole milk", "- rye bread"]


def test_prose_that_begins_and_ends_in_bold_is_no_heading():
    assert statements_of("**Alice** lives in **Bern**\n\nCity: Rome\nDog: Rex")[0] == "**Alice** lives in **Bern**"


def test_a_dialogue_is_no_record():
    assert statements_of("User: I live in Bern.\nAssistant: Good to know.") == [
        "User: I live in Bern.",
        "Assistant: Good to know.",
    ]


def test_the_own_words_of_a_unit_are_behind_its_headings():
    assert own_words("## Where is Alice?\n- in Bern\n- since May. Or June.\n\nBob sails.") == [
        "- in Bern",
        "- since May.",
        "Or June.",
        "Bob sails.",
    ]


def test_what_stands_under_a_question_is_evidence_and_the_question_is_none():
    units = units_of(
        [Transition(1, "## Where does Alice live?\n- Bern, in a flat\n- Why?")],
        budget_tokens=99,
        count_tokens=lambda t: len(t.split()),
        single_sentences=True,
    )
    found = UnitIndex(units).best("Where does Alice live?", k=9, tied=9)
    assert [one.unit.text for one in found] == ["## Where does Alice live?\n- Bern, in a flat\n"]


def test_items_of_a_list_are_not_alike_for_their_heading():
    text = "Things that Alice Keller of Bern told me:\n- home: Thun\n- work: Acme"
    units = units_of(
        [Transition(1, text), Transition(2, text.replace("home: Thun\n- work: Acme", "dog: Rex\n- boat: Ida"))],
        budget_tokens=99,
        count_tokens=lambda t: len(t.split()),
        single_sentences=True,
    )
    found = verdicts(units, "What is the home of Alice Keller?", [-1.0] * len(units))
    assert found == [Verdict(at, True) for at in range(len(units))]


def test_numbers_without_a_word_cost_what_their_number_does(growth):
    assert len(statements_of("47! " * 5_000)) == 1
    assert growth(lambda n: statements_of("47! " * n), 5_000) < 9
