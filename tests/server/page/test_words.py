"""Texts in pieces: word by word, and marked."""

from hypothesis import given
from hypothesis import strategies as st

from plume_memory.records import Span, Transition
from plume_memory.server.page.words import Piece, changes, compared, marked

TEXTS = st.text(alphabet="ab .\nÄ", max_size=40)


@given(TEXTS, TEXTS)
def test_a_comparison_rebuilds_both_texts(before: str, after: str) -> None:
    pieces = compared(before, after)
    assert "".join(piece.text for piece in pieces if piece.kind != "added") == before
    assert "".join(piece.text for piece in pieces if piece.kind != "removed") == after


@given(TEXTS, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))))
def test_a_marked_text_stays_the_text_with_those_characters_marked(text: str, places: list[tuple[int, int]]) -> None:
    spans = [Span(start, min(end, len(text))) for start, end in places if start < min(end, len(text))]
    pieces = marked(text, spans)
    assert "".join(piece.text for piece in pieces) == text
    here = [piece.kind == "marked" for piece in pieces for _ in piece.text]
    assert here == [any(span.start <= at < span.end for span in spans) for at in range(len(text))]


def test_long_texts_are_compared_whole() -> None:
    assert [piece.kind for piece in compared("a " * 5000, "b " * 5000)] == ["removed", "added"]


def test_a_text_that_came_for_a_like_one_is_one_that_changed() -> None:
    held = [Transition(1, "Alice lives in Bern."), Transition(2, "Bob has a boat.")]
    holds = [Transition(2, "Bob has a boat."), Transition(4, "Alice lives in Oslo."), Transition(5, "It rains.")]
    found = {(one.before, one.after): one.kind for one in changes(held, holds)}
    assert found == {(2, 2): "same", (1, 4): "changed", (None, 5): "added"}
    assert Piece("removed", "Bern") in next(one.pieces for one in changes(held, holds) if one.kind == "changed")
    assert {one.kind for one in changes(held, [])} == {"removed"}
