"""The strip under an answer."""

import math

from plume_memory.records import TokenTrace
from plume_memory.server.page.strip import HEIGHT, spoken, strip_of


def token(text: str, js: float = 0.0, weight: float = 0.0) -> TokenTrace:
    return TokenTrace(token_id=0, text=text, js=js, weight=weight, log_prob=-0.1)


def test_tokens_are_words_where_white_space_begins_one() -> None:
    words = strip_of([token("Al"), token("ice"), token(" lives"), token("."), token("\nHere")])
    assert [word.text for word in words] == ["Alice", " lives.", "\nHere"]
    assert [len(word.bars) for word in words] == [2, 2, 1]


def test_bars_are_full_at_ln_2_and_at_the_largest_weight() -> None:
    [word] = strip_of([token("a", math.log(2), 2.0), token("b", math.log(2) / 2, 4.0)])
    first, second = word.bars
    assert (first.divergence, second.divergence) == (HEIGHT, HEIGHT / 2)
    assert (first.weight, second.weight) == (HEIGHT / 2, HEIGHT)
    assert second.weight_x + second.width <= word.width
    assert word.says == "JS 0.693 nats, λ 4.00"


def test_an_answer_without_any_weight_has_bars_still() -> None:
    [word] = strip_of([token("a")])
    assert 0 < word.bars[0].weight < 1


def test_what_ended_an_answer_is_no_word_of_it() -> None:
    trace = [token("In"), token(" Oslo"), token("."), token("<|im_end|>")]
    assert [one.text for one in spoken(trace, "In Oslo.")] == ["In", " Oslo", "."]


def test_of_a_withheld_answer_nothing_was_spoken() -> None:
    assert spoken([token("In"), token(" Oslo")], "I have nothing about that in memory.") == []
    assert spoken([], "I have nothing about that in memory.") == []
