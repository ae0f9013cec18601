"""Whether a memory bears on a question."""

import pytest

from plume_memory.answering.relevance import NAMED, gain_of, share_needed


def test_what_some_tokens_lose_does_not_hide_what_others_gain() -> None:
    assert gain_of([-3.0] * 30, [-3.5] * 28 + [-0.5, -0.2]) == pytest.approx(2.5 + 2.8)


@pytest.mark.parametrize(
    ("question", "told", "needed"),
    [
        ("What does Kim own?", "Kim owns a red kayak.", NAMED),
        ("What is my job?", "I work as a nurse.", NAMED),  # both in the first person
        ("What is your job?", "I work as a nurse.", 1.0),
        ("Who is the president of France?", "The launch is on 2 November.", 1.0),  # "the" and "is" name nothing
        ("Where do I live?", "Kim owns a red kayak.", 1.0),
    ],
)
def test_half_is_enough_where_both_name_the_same(question: str, told: str, needed: float) -> None:
    assert share_needed(question, told) == needed
