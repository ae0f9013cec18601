"""Parts of a text: what is left of it, and where a part lies once others were erased."""

from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.records import Span
from plume_memory.store.spans import Cut, current_cuts, held_slices, held_text, occurrences, original, shifted, without


@pytest.mark.parametrize(
    ("text", "spans", "left"),
    [
        ("Alice lives in Bern. She has a cat.", [(0, 20)], "She has a cat."),
        ("Alice lives in Bern. She has a cat.", [(21, 35)], "Alice lives in Bern."),
        ("A cat named Bo.", [(6, 14)], "A cat."),
        ("One.\n\nTwo. Three.", [(6, 10)], "One.\n\nThree."),
        (" x y\n", [(1, 2)], "y\n"),
        (" x y\n", [(3, 4)], " x"),
        ("ab cd ef", [(0, 2), (3, 5)], "ef"),
        ("a b c d", [(2, 3), (4, 5)], "a d"),
        ("a b c d", [(2, 4), (3, 5)], "a d"),
        ("aXb", [(1, 2)], "ab"),
        ("艾丽丝住在苏黎世。👩‍🚀 x", [(0, 9)], "👩‍🚀 x"),
        ("all", [(0, 3)], ""),
        (" \n all \t", [(3, 6)], ""),
        (" as it was ", [], " as it was "),
    ],
)
def test_white_space_at_a_cut_is_tidied_as_defined(text: str, spans: list[tuple[int, int]], left: str) -> None:
    assert held_text(text, [Span(*span) for span in spans]) == left


TEXT = st.text(alphabet="ab .\n", min_size=1, max_size=30)


@settings(max_examples=300)
@given(data=st.data(), text=TEXT)
def test_an_erased_text_reads_as_the_forgotten_one_did_before(data: st.DataObject, text: str) -> None:
    """Forgets and erasures in any order: what holds depends on what was taken, not on how."""
    now, cuts, gone = text, [], set()
    coordinates = list(range(len(text)))  # of the characters that the log still has
    for number in range(data.draw(st.integers(1, 5))):
        if not now:
            break
        start = data.draw(st.integers(0, len(now) - 1))
        span = Span(start, data.draw(st.integers(start + 1, len(now))))
        is_erased = data.draw(st.booleans())
        gone |= set(coordinates[span.start : span.end])
        cuts.append(Cut(number, span, is_erased))
        if is_erased:
            now = without(now, span)
            del coordinates[span.start : span.end]

    forgotten = held_text(text, [Span(at, at + 1) for at in sorted(gone)])
    assert "".join(held_text(now, current_cuts(cuts)).split()) == "".join(forgotten.split())
    kept = [text[at] for at in range(len(text)) if at not in gone and not text[at].isspace()]
    assert "".join(held_text(now, current_cuts(cuts)).split()) == "".join(kept)


@settings(max_examples=200)
@given(data=st.data(), length=st.integers(4, 40))
def test_a_span_is_found_again_in_another_copy(data: st.DataObject, length: int) -> None:
    left, erased = list(range(length)), []
    for _ in range(data.draw(st.integers(0, 3))):
        if len(left) > 2:
            start = data.draw(st.integers(0, len(left) - 2))
            erased.append(Span(start, data.draw(st.integers(start + 1, len(left) - 1))))
            del left[erased[-1].start : erased[-1].end]
    start = data.draw(st.integers(0, len(left) - 1))
    span = Span(start, data.draw(st.integers(start + 1, len(left))))

    first = original(span, erased)
    back = first
    for gone in erased:
        back = shifted(back, gone)

    assert (first.start, first.end - 1) == (left[span.start], left[span.end - 1])
    assert back == span


def test_words_are_found_across_a_cut_and_in_overlapping_places() -> None:
    slices = held_slices("aa XX bb", [Span(3, 5)])
    assert occurrences("aa bb", "aa XX bb", slices) == [Span(0, 8)]
    assert occurrences("XX", "aa XX bb", slices) == []
    assert occurrences("aa", "aaa") == [Span(0, 2), Span(1, 3)]


@pytest.mark.parametrize("word", ["Café", "Ångström", "한강", "Zoë"])
@pytest.mark.parametrize("told", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_an_accent_is_found_written_with_its_letter_or_behind_it(word: str, told: str, asked: str) -> None:
    text, words = (normalize(form, one) for form, one in ((told, f"x {word}\r\né {word}!"), (asked, word)))
    found = occurrences(words, text)
    assert [normalize("NFC", text[span.start : span.end]) for span in found] == [word, word]


@pytest.mark.parametrize("told", ["NFC", "NFD"])
def test_half_a_letter_is_not_found(told: str) -> None:
    text = normalize(told, "Café und Cafe")
    assert [text[span.start - 1 : span.end] for span in occurrences("Cafe", text)] == [" Cafe"]
    assert occurrences("한", normalize(told, "학")) == []


@given(text=st.text("ae\u0301\u0308é한ᄒ\u1161 \r\n", max_size=12), data=st.data())
def test_whole_letters_of_a_text_are_found_where_they_stand(text: str, data: st.DataObject) -> None:
    written = normalize("NFC", text)
    start = data.draw(st.integers(0, len(written)))
    words = written[start : data.draw(st.integers(start, len(written)))]
    spans = occurrences(words, written) if words else []
    assert all(normalize("NFC", written[span.start : span.end]) == normalize("NFC", words) for span in spans)
    assert not words or normalize("NFC", words) != words or spans
