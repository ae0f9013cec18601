"""A message that asks may say something too."""

import pytest

from plume_memory.records import Unit
from plume_memory.retrieval.asking import only_asks


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Where do I live?", True),
        ("I live in Bern.", False),
        ("I went to the harbour on Monday. How about you?", False),
        ("Thanks, Ann! How about you?", True),
        ("Where is it? When do we go?", True),
        ("I sail. I row.", False),
    ],
)
def test_what_only_asks(text, asked):
    assert only_asks(Unit(0, 1, 0, len(text), text)) is asked


def test_headings_are_not_asked():
    assert not only_asks(Unit(0, 1, 0, 9, "Where is Alice?\n- in Bern, at home", 16))
