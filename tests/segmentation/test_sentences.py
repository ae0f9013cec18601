"""Segments rebuild the text, respect the budget, and are cut where it hurts least."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.errors import InvalidInput
from plume_memory.segmentation.sentences import segment, sentence_spans
from tests.benches import bench

TEXTS = st.one_of(
    st.text(max_size=400),
    st.text(alphabet="ab .!?\n\t。！é\u0301👩\u200d\U0001f3fb,5\r", max_size=400),
    st.lists(
        st.sampled_from(["One two. ", "Dr. Who left. ", "\n\n", "3.5 m. ", "word" * 30, "終わり。"]), max_size=40
    ).map("".join),
)


def words(text: str) -> int:
    return len(text.split())


def quarters(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def joined_costs_more(text: str) -> int:
    """A counter that breaks additivity: a text costs more than its parts."""
    return len(text) + len(text) // 7


def pieces(text: str, budget: int, count=words) -> list[str]:
    return [text[s.start : s.end] for s in segment(text, budget_tokens=budget, count_tokens=count)]


@pytest.mark.parametrize("count", [words, quarters, len, joined_costs_more])
@settings(max_examples=150)
@given(text=TEXTS, budget=st.integers(1, 40))
def test_spans_join_to_the_text_and_respect_the_budget(count, text, budget):
    spans = segment(text, budget_tokens=budget, count_tokens=count)
    assert "".join(text[s.start : s.end] for s in spans) == text
    assert all(s.start < s.end for s in spans)
    assert all(a.end == b.start for a, b in itertools.pairwise(spans))
    for span in spans:
        piece = text[span.start : span.end]
        alone = all(_continues(piece, i) for i in range(1, len(piece)))
        assert count(piece) <= budget or alone


def _continues(text: str, index: int) -> bool:
    import plume_memory.segmentation.sentences as module

    return module._continues(text, index)


def test_paragraphs_are_packed_whole():
    text = "one two three\n\nfour five\n\nsix seven eight nine"
    assert pieces(text, 5) == ["one two three\n\nfour five\n\n", "six seven eight nine"]


def test_a_long_paragraph_is_cut_at_sentence_ends():
    text = "Ada came home. She slept well! Did she dream? Nobody knows that."
    assert pieces(text, 6) == ["Ada came home. She slept well! ", "Did she dream? Nobody knows that."]


def test_abbreviations_initials_decimals_and_running_speech_do_not_end_a_sentence():
    text = 'Dr. X paid 3.5 dollars to J. Smith, e.g. in U.S. coins. "Really?" she asked. He left.'
    assert pieces(text, 12) == [
        "Dr. X paid 3.5 dollars to J. Smith, e.g. in U.S. coins. ",
        '"Really?" she asked. He left.',
    ]


@pytest.mark.parametrize("text", ["今日は晴れ。明日は雨！本当？はい。", "你好。再见。好的！真的？"])
def test_scripts_without_spaces_are_cut_at_their_own_full_stops(text):
    found = pieces(text, 6, len)
    assert "".join(found) == text
    assert all(piece[-1] in "。！？" for piece in found)


def test_a_long_sentence_is_cut_at_white_space_and_a_long_word_at_characters():
    assert pieces("alpha beta gamma delta", 12, len) == ["alpha beta ", "gamma delta"]
    assert all(len(piece) <= 5 for piece in pieces("x" * 23, 5, len))


def test_a_combining_sequence_is_never_cut():
    text = "e\u0301" * 20
    assert all(piece[0] == "e" for piece in pieces(text, 3, len))


def test_the_empty_text_has_no_span():
    assert segment("", budget_tokens=4, count_tokens=len) == []
    assert segment(" \n\n ", budget_tokens=9, count_tokens=len) == [(0, 4)]


def test_a_budget_below_one_is_refused():
    with pytest.raises(InvalidInput, match="at least 1"):
        segment("a", budget_tokens=0, count_tokens=len)


@pytest.mark.parametrize(
    "text",
    ["word and word. " * 66_000, "x" * 1_000_000, "no full stop here " * 55_000, "para\n\n" * 166_000],
    ids=["sentences", "one word", "one sentence", "paragraphs"],
)
def test_a_megabyte_is_counted_a_bounded_number_of_times(text):
    counted = 0

    def count(piece: str) -> int:
        nonlocal counted
        counted += len(piece)
        return -(-len(piece) // 4)

    spans = segment(text, budget_tokens=128, count_tokens=count)
    assert spans[-1].end == len(text)
    assert counted <= 5 * len(text)


ENDS = bench("experiments/sentences")


@pytest.mark.parametrize(
    ("file", "precision", "recall"),
    [("sentences.jsonl", 99, 98), ("sentences_more.jsonl", 92, 93), ("sentences_last.jsonl", 96, 98)],
)
def test_sentences_end_where_their_writers_ended_them(file, precision, recall):
    """Paragraphs in eleven languages; how they were written, and what they chose, is in docs/decisions/0070."""
    found = [(ENDS.ours(language, text), right) for language, text, right in ENDS.paragraphs(file)]
    both = sum(len(own & right) for own, right in found)
    assert 100 * both >= precision * sum(len(own) for own, _ in found)
    assert 100 * both >= recall * sum(len(right) for _, right in found)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("I said no. She left.", 2),
        ("The plan is no. 4. She left.", 2),
        ("I am 31. My brother is 40.", 2),
        ("OK. I'll be there.", 2),
        ("She studied art. I studied law.", 2),
        ("I asked HR. They said no.", 2),
        ("The gap is 3 mm. Use a shim.", 2),
        ("Seiten 3 bis 12. Danach geht es weiter.", 2),
        ("Mit Hr. Müller am 3. Mai. Er kam.", 2),
        ("Do it.\n– call Bo.\n– buy milk.", 3),
        ("Bread, jam, etc. We paid in cash.", 2),
        ("Der Vertrag endet am 3. Mai. Er gilt seit 2. 5. 2024.", 2),
        ("„Komm!“ Draußen war es still.", 2),
        ("« Viens ! » Elle partit.", 2),
        ("—Será el perro... —dijo él.", 1),
        ("The road is SR 160-A. From there it goes on.", 2),
    ],
)
def test_ends_of_several_languages(text, count):
    assert len(sentence_spans(text)) == count
