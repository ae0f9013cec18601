"""Units lose no word, stay in their transition and in the budget; what can be told alone is a unit of its own."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plume_memory.records import NOTICE, Transition
from plume_memory.segmentation.forms.recognise import form_of
from plume_memory.segmentation.statements import statements_of
from plume_memory.segmentation.units import units_of

PARTS = (
    *(
        "# Alice\n",
        "\n",
        "- lives in Bern\n",
        "  - since 2020. Likes it.\n",
        "city: Rome\n",
        "Bob:\n",
        "4711\n",
        "Ada came. ",
    ),
    *("| a | b |\n", "|---|---|\n", "  ", "3. third\n", "Bob has a boat\n", "def f(x):\n"),
)
LISTS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)
MARKDOWN = (
    *("- ", "* ", "1. ", "2) ", "• ", "(1) ", "[x] ", "    ", "\t", "> ", "# ", "---", "===", "```", "~~~", "|"),
    *("a | b", "|---|---|", "Name: x", "Alice:", "**Bob**", "word ", "Hello there. ", "Is it? ", "[a]: b", "<div>"),
    *("\n", "\n", "\n\n", "\r\n", "\r", "\x0b", "\x00", "\u2028", "\ufeff", "\\", "&#0;", "{", "=", "日本。"),
)
MARKS = st.lists(st.sampled_from(MARKDOWN), max_size=60).map("".join)
TEXTS = st.one_of(st.text(max_size=400), st.text(alphabet="ab .!?\n\t。é-*#:|1", max_size=400), LISTS, MARKS)


def words(text: str) -> int:
    return len(text.split())


def alone(text: str, budget: int = 40) -> list[str]:
    units = units_of([Transition(1, text)], budget_tokens=budget, count_tokens=words, single_sentences=True)
    return [unit.text for unit in units]


def test_white_space_alone_makes_no_unit():
    assert units_of([Transition(1, " \n\n ")], budget_tokens=9, count_tokens=len) == ()


def test_units_never_cross_a_transition_and_the_notice_belongs_to_none():
    transitions = [Transition(1, "old one. " * 9), Transition(4, "new one."), Transition(5, "third.")]
    units = units_of(transitions, budget_tokens=8, count_tokens=words)
    texts = {t.version: t.text for t in transitions}
    assert [u.position for u in units] == list(range(len(units)))
    assert [u.version for u in units] == sorted(u.version for u in units)
    assert all(texts[u.version][u.start : u.end] == u.text for u in units)
    assert not any(NOTICE in u.text for u in units)


def test_positions_go_on_where_the_history_was_extended():
    first, second = Transition(1, "a b c d e f"), Transition(2, "g h")
    whole = units_of([first, second], budget_tokens=3, count_tokens=words)
    begun = units_of([first], budget_tokens=3, count_tokens=words)
    rest = units_of([second], budget_tokens=3, count_tokens=words, first_position=len(begun))
    assert whole == begun + rest


def test_single_sentences_are_units_at_their_place_and_what_has_no_sentence_end_stays_whole():
    told = (Transition(1, "One two. Three four!\n\nFive."), Transition(2, "def f(x):\n    return x + 1\n"))
    units = units_of(told, budget_tokens=40, count_tokens=words, first_position=3, single_sentences=True)
    assert [unit.text for unit in units] == ["One two. ", "Three four!\n\n", "Five.", told[1].text]
    assert [unit.position for unit in units] == [3, 4, 5, 6]
    assert all(told[unit.version - 1].text[unit.start : unit.end] == unit.text for unit in units)


def test_a_piece_without_a_letter_goes_with_the_next_sentence_or_the_last():
    told = (Transition(1, "1. Alice lives in Bern.\n2. Bob has a canoe. 4711! ..."),)
    units = units_of(told, budget_tokens=40, count_tokens=words, single_sentences=True)
    assert [unit.text for unit in units] == ["1. Alice lives in Bern.\n", "2. Bob has a canoe. ", "4711! ..."]
    assert all(told[0].text[unit.start : unit.end] == unit.text for unit in units)


@settings(max_examples=300)
@given(text=TEXTS, budget=st.integers(1, 40))
def test_single_sentences_lose_no_word_and_respect_the_budget(text, budget):
    assume(form_of(text) is None)  # else: tests/segmentation/forms
    told = (Transition(1, text),)
    packed, single = (
        units_of(told, budget_tokens=budget, count_tokens=words, single_sentences=single) for single in (False, True)
    )
    spans = [(unit.start, unit.end) for unit in single]
    assert spans == sorted(spans)
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
    assert len(single) >= len(packed)
    assert all(unit.text.endswith(text[unit.start : unit.end]) for unit in single)
    assert all(words(unit.text) <= budget for unit in single)
    assert all(0 <= unit.own < len(unit.text) for unit in single)


@pytest.mark.parametrize("mark", ["- ", "* ", "• ", "  - ", "[ ] ", ""])
def test_every_line_of_a_list_is_a_unit(mark):
    lines = [f"{mark}Population of Wexosk: 576,500\n", f"{mark}Kirnero's population: 162,200\n", f"{mark}Founded: 1963"]
    assert alone("".join(lines)) == lines


@pytest.mark.parametrize(
    "text",
    [
        "me | city | Bern\nBob Stone | dog | Rex",
        "Instrument (Bob): organ\nUsual drink (St. John): barley water",
        "Bob – instrument: organ\nAnna – drink: tea",
        "1. Alice lives in Bern\n2. Bob sails",
        "Alice lives in Bern\nBob has a boat\nThe cat is called Tom",
        "- Alice lives in Bern\n\n- Bob sails",
    ],
)
def test_so_is_every_line_that_is_a_note_of_its_own(text):
    lines = text.split("\n")
    assert statements_of(text) == [line for line in lines if line]


@pytest.mark.parametrize(
    "text",
    [
        "I met my old friend\nBob in Paris yesterday\nand we ate well.",
        "Yesterday I met my friend\nBob Stone in Paris.",
        "def f(x):\n    return x + 1\n",
        "class Point(Base):\n    X: int = 1\n    Y: int = 2",
        "Anna\nBob\nCarla",
        '{\n  "a": 1,\n  "b": 2\n}',
        "- a single dash begins this line",
    ],
)
def test_what_is_no_list_stays_whole(text):
    assert statements_of(text) == [text.strip()]


def test_an_item_carries_the_headings_it_stands_under():
    text = "# Notes\n\n## Alice\n\n- Lives in: Bern\n\n- Works at: Acme\n\n## Bob\n- Lives in: Rome\n- Sails: often\n"
    assert statements_of(text) == [
        "# Notes\n\n## Alice\n\n- Lives in: Bern",
        "# Notes\n## Alice\n- Works at: Acme",
        "# Notes\n## Bob\n- Lives in: Rome",
        "# Notes\n## Bob\n- Sails: often",
    ]


@pytest.mark.parametrize("heading", ["Alice", "Alice:", "What I know of Alice:\n", "### Alice\n"])
def test_a_line_before_a_list_is_its_heading_and_part_of_its_first_item(heading):
    kept = heading.strip()
    assert statements_of(f"{heading}\n- city: Bern\n- dog: Rex\n\nThis is prose. More of it.") == [
        f"{heading}\n- city: Bern",
        f"{kept}\n- dog: Rex",
        "This is prose.",
        "More of it.",
    ]


def test_labelled_lines_have_headings_too():
    assert statements_of("About me\nBorn in: 1990\nCity: Bern") == ["About me\nBorn in: 1990", "About me\nCity: Bern"]


def test_a_heading_holds_until_prose_or_another_heading():
    told = statements_of("Alice:\n- city: Bern\n- dog: Rex\n\nNothing more was said.\n\n- city: Rome\n- dog: Max")
    assert told[-2:] == ["- city: Rome", "- dog: Max"]


def test_a_fenced_block_is_no_list_and_its_comments_are_no_headings():
    code = "```sh\nmake\n\n# run it\n- a: b\n- c: d\n```"
    told = statements_of(f"## Alice\n\n{code}\n\n- city: Bern\n- dog: Rex")
    assert told[-2:] == ["## Alice\n- city: Bern", "## Alice\n- dog: Rex"]
    assert "# run it\n- a: b\n- c: d\n```" in told


def test_nested_items_carry_their_parents():
    assert statements_of("- Alice\n  - lives in Bern\n    - since 2020\n  - works\n- Bob\n  - sails") == [
        "- Alice",
        "- Alice\n  - lives in Bern",
        "- Alice\n  - lives in Bern\n    - since 2020",
        "- Alice\n  - works",
        "- Bob",
        "- Bob\n  - sails",
    ]


def test_an_item_goes_on_until_the_next_and_is_cut_at_its_sentence_ends():
    told = statements_of(
        "Some words about this and that, before the list comes at last\n- one\n  goes on. Ends here.\n- two"
    )
    assert told == [
        "Some words about this and that, before the list comes at last",
        "- one\n  goes on.",
        "Ends here.",
        "- two",
    ]


def test_a_number_before_an_item_is_no_sentence_and_each_sentence_of_it_carries_the_headings():
    told = statements_of("# Bread\n\nSteps:\n1. Mix it. Rest it.\n2. Bake it. Eat it.")
    assert told == [
        "# Bread\n\nSteps:\n1. Mix it.",
        "# Bread\nSteps:\nRest it.",
        "# Bread\nSteps:\n2. Bake it.",
        "# Bread\nSteps:\nEat it.",
    ]


@pytest.mark.parametrize(("first", "second"), [("Decided:", "To do:"), ("Alice", "Bob"), ("## Alice", "## Bob")])
def test_a_heading_between_two_lists_needs_no_blank_line(first, second):
    assert statements_of(f"{first}\n- city: Bern\n- dog: Rex\n{second}\n- city: Rome\n- dog: Max") == [
        f"{first}\n- city: Bern",
        f"{first}\n- dog: Rex",
        f"{second}\n- city: Rome",
        f"{second}\n- dog: Max",
    ]


@pytest.mark.parametrize("line", ["  with these:", "Bob Stone", "goes on"])
def test_a_line_that_goes_on_from_an_item_is_no_heading(line):
    assert statements_of(f"- Alice went out\n{line}\n- Bob sails") == [f"- Alice went out\n{line}", "- Bob sails"]


def test_the_rows_of_a_table_carry_its_columns():
    columns = "| Name | City |\n|---|---|\n"
    assert statements_of(f"{columns}| Alice | Bern |\n| Bob | Rome |") == [
        f"{columns}| Alice | Bern |",
        f"{columns}| Bob | Rome |",
    ]


def test_a_heading_that_does_not_fit_the_budget_is_left_out():
    assert alone("one two three:\n- a b\n- c d", budget=5) == ["one two three:\n", "- a b\n", "- c d"]


def test_a_list_of_many_items_and_headings_costs_what_its_length_does(growth):
    def told(n: int) -> list[str]:
        return alone("".join(f"{' ' * depth}- item\n" for depth in range(400)) + "Bob:\n" * n + "- a b\n" * n)

    assert len(told(2_000)) > 2_000
    assert growth(told, 2_000) < 9


def test_many_short_lines_before_a_list_cost_what_their_number_does(growth):
    def told(n: int) -> list[str]:
        return statements_of("some words\n" * n + "- a b\n- c d")

    assert len(told(10_000)) == 3
    assert growth(told, 10_000) < 9
