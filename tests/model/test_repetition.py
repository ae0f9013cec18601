"""When an answer only repeats itself."""

import pytest

from plume_memory.model.repetition import repeated

HEAD = [1, 2, 3]


@pytest.mark.parametrize(
    ("ids", "again"),
    [
        ([], 0),
        (HEAD, 0),
        (HEAD + [7] * 23, 0),
        (HEAD + [7] * 24, 23),
        (HEAD + [7, 8, 9] * 8, 21),
        (HEAD + [7, 8, 9] * 7, 0),
        (HEAD + [*range(20, 32)] * 2, 0),  # a phrase said twice
        (HEAD + [*range(20, 32)] * 3, 24),
        (HEAD + [*range(20, 36)] * 2, 16),  # a whole sentence said twice
        (HEAD + [*range(20, 36)] * 2 + [99], 0),  # and then something else
        (HEAD + [*range(64)] * 2, 64),
        (HEAD + [*range(65)] * 2, 0),  # longer than what is looked for
    ],
)
def test_a_span_that_stands_often_enough_at_the_end_is_repeated(ids: list[int], again: int) -> None:
    assert repeated(ids) == again
