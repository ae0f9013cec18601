"""Literal slices of both ways to cut, edge cases included."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.errors import InvalidInput
from plume_memory.hypernet.chunking import fixed_windows, near_equal

PRE, SUF = [91, 92], [81, 82, 83]
ids_of = st.lists(st.integers(0, 9), max_size=60)


def test_a_context_that_fits_is_left_alone():
    assert near_equal([1, 2, 3], 3, PRE, SUF) == [[1, 2, 3]]


def test_near_equal_slices_get_the_references_affixes():
    assert near_equal([1, 2, 3, 4, 5, 6, 7], 3, PRE, SUF) == [
        [1, 2, 3, 81, 82, 83],
        [91, 92, 4, 5, 6, 81, 82, 83],
        [91, 92, 7],
    ]


def test_slices_are_near_equal_not_full():
    assert near_equal([1, 2, 3, 4, 5, 6], 5, [], []) == [[1, 2, 3], [4, 5, 6]]


def test_edge_a_chunks_exceed_the_maximum_by_the_affixes():
    chunks = near_equal([1, 2, 3, 4, 5, 6, 7, 8, 9], 3, PRE, SUF)
    assert [len(c) for c in chunks] == [6, 8, 5]


def test_edge_b_a_suffix_longer_than_the_last_slice_is_cut_in_two():
    templated = [*PRE, 1, 2, *SUF]  # slices of 3: [91 92 1] [2 81 82] [83]
    assert near_equal(templated, 3, PRE, SUF) == [
        [91, 92, 1, 81, 82, 83],
        [91, 92, 2, 81, 82, 81, 82, 83],
        [91, 92, 83],
    ]


@given(ids_of.filter(bool), st.integers(1, 20))
def test_edge_c_there_are_always_exactly_n_slices(ids, max_tokens):
    """The size is at most max_tokens, so rounding it up never saves a whole slice."""
    assert len(near_equal(ids, max_tokens, PRE, SUF)) == -(-len(ids) // max_tokens)


def test_edge_d_every_boundary_moves_when_the_text_grows_by_one_token():
    before = near_equal([1, 2, 3, 4, 5, 6, 7, 8], 5, [], [])
    after = near_equal([1, 2, 3, 4, 5, 6, 7, 8, 9], 5, [], [])
    assert before == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert after == [[1, 2, 3, 4, 5], [6, 7, 8, 9]]


@given(ids_of, st.integers(1, 20))
def test_near_equal_slices_rebuild_the_ids(ids, max_tokens):
    assert [i for chunk in near_equal(ids, max_tokens, [], []) for i in chunk] == ids


def test_windows_are_whole_turns_of_at_most_the_maximum():
    assert fixed_windows([1, 2, 3, 4, 5], 7, PRE, SUF) == [
        [91, 92, 1, 2, 81, 82, 83],
        [91, 92, 3, 4, 81, 82, 83],
        [91, 92, 5, 81, 82, 83],
    ]


@given(ids_of, ids_of, st.integers(6, 20))
def test_closed_windows_never_move_when_the_text_grows(ids, more, max_tokens):
    before, after = (fixed_windows(x, max_tokens, PRE, SUF) for x in (ids, ids + more))
    assert after[: max(len(before) - 1, 0)] == before[:-1]
    assert all(len(window) <= max_tokens for window in after)


@given(ids_of.filter(bool), st.integers(65, 90))
def test_both_ways_agree_on_a_context_that_fits(ids, max_tokens):
    assert fixed_windows(ids, max_tokens, PRE, SUF) == near_equal([*PRE, *ids, *SUF], max_tokens, PRE, SUF)


def test_empty_ids_have_no_chunks():
    assert near_equal([], 4, PRE, SUF) == fixed_windows([], 9, PRE, SUF) == []


def test_a_maximum_without_room_is_refused():
    with pytest.raises(InvalidInput, match="at least one"):
        near_equal([1], 0, [], [])
    with pytest.raises(InvalidInput, match="at least 6"):
        fixed_windows([1], 5, PRE, SUF)
