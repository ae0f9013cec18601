"""An answer that runs on is ended behind the last word of its evidence; every other is given as it is."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.model.base import BaseModel
from plume_memory.model.grammar import Grammar
from plume_memory.model.queries import DecodeSettings, Query, collect
from plume_memory.model.run_on import LONGEST, RunOn
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler
from plume_memory.terms import terms_of
from plume_memory.testing import random_factors, tiny_base

EVIDENCE = frozenset(terms_of("Where does Alice live? Alice lives in Bern, at 12 Art street."))
SAID = st.sampled_from(
    [
        "Alice",
        "lives",
        "in",
        "Bern.",
        "bern",
        "ART",
        "party",
        "12th",
        "12",
        "and",
        "x",
        "İzmir",
        "well-known,",
        "Straße",
    ]
)
BLANK = st.sampled_from([" ", " ", " ", "\n", "  ", "\u2003", "\x1f"])
IDLE = " or so" * 20


@st.composite
def texts(draw: st.DrawFn, words: st.SearchStrategy[str] = SAID, most: int = 45) -> str:
    pieces = draw(st.lists(st.tuples(words, BLANK), max_size=most))
    text = "".join(word + blank for word, blank in pieces)
    return text.rstrip() if draw(st.booleans()) else text


def cut(text: str, places: Sequence[int]) -> list[str]:
    """A text in pieces."""
    bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def given_out(pieces: Sequence[str], words: frozenset[str] = EVIDENCE) -> tuple[list[str], bool]:
    """What is given of pieces one by one, the last at the end; and whether the answer was ended."""
    run_on = RunOn(words)
    found = []
    for piece in pieces:
        found.append(run_on.add(piece))
        if run_on.ended:
            break
    return [*found, run_on.finish()], run_on.ended


def new_words(text: str) -> list[bool]:
    """Whether each word of a text says something of the evidence that none before did; slow on purpose."""
    unsaid = {"alice", "live", "lives", "bern", "12", "art", "street"}
    found = []
    for word in text.split():
        new = unsaid & set(terms_of(word))
        unsaid -= new
        found.append(bool(new))
    return found


# --- laws -----------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(text=texts(), places=st.lists(st.integers(0, 400), max_size=30))
def test_what_is_given_is_the_text_or_its_beginning_up_to_a_word_of_the_evidence(text: str, places: list[int]) -> None:
    pieces, ended = given_out(cut(text, places))
    whole = "".join(pieces)
    assert text.startswith(whole)
    if not ended:
        assert whole == text
    else:
        assert text[len(whole)].isspace()
        assert new_words(text)[len(whole.split()) - 1]
        assert not any(new_words(text)[len(whole.split()) : len(whole.split()) + LONGEST + 1])


@settings(max_examples=300)
@given(text=texts(), places=st.lists(st.integers(0, 400), max_size=30))
def test_how_an_answer_is_cut_into_pieces_does_not_matter(text: str, places: list[int]) -> None:
    """A stop text that is held back brings several words at once."""
    pieces, ended = given_out(cut(text, places))
    assert ("".join(pieces), ended) == ("".join(given_out(list(text))[0]), given_out([text])[1])
    assert "".join(pieces) == "".join(given_out([text])[0])


@settings(max_examples=200)
@given(text=texts(), words=st.frozensets(st.sampled_from(["alice", "in", "bern", "and", "x"])))
def test_an_answer_ends_with_the_word_after_the_longest_row_that_adds_nothing(text: str, words: frozenset[str]) -> None:
    """Against the rule in one line: begun, and more than `LONGEST` whole words in a row without a new term."""
    unsaid = set(words) - {"in", "and"}
    idle: int | None = None
    whole = text.split() if not text or text[-1].isspace() else text.split()[:-1]  # the last may go on
    wanted = False
    for word in whole:
        new = unsaid & set(terms_of(word))
        unsaid -= new
        idle = 0 if new else None if idle is None else idle + 1
        wanted = wanted or (idle is not None and idle > LONGEST)
    assert given_out([text], words)[1] is wanted


IDLE_ROW = st.lists(st.sampled_from(["and", "so", "it", "party"]), max_size=LONGEST)


@given(rows=st.lists(IDLE_ROW, max_size=6), last=IDLE_ROW)
def test_an_answer_that_goes_on_with_words_of_the_evidence_is_never_cut(rows: list[list[str]], last: list[str]) -> None:
    news = ["Alice", "lives", "12", "Art", "street,", "Bern."]
    text = " ".join([*(word for row, new in zip(rows, news, strict=False) for word in [*row, new]), *last, ""])
    pieces, ended = given_out(list(text))
    assert not ended
    assert "".join(pieces) == text


# --- examples -------------------------------------------------------------------------------------


def test_a_repetition_of_the_form_is_cut_behind_the_value() -> None:
    words = frozenset(terms_of("What is my shoe size? My shoe size was 38, it is 40 since November."))
    text = "Your shoe size is 40 since November, and my size in December and my size in January and my size in"
    pieces, ended = given_out(list(text), words)
    assert ended
    assert "".join(pieces) == "Your shoe size is 40 since November,"


def test_a_word_of_the_evidence_counts_once() -> None:
    """What says the same over and over adds nothing."""
    pieces, ended = given_out(["Alice lives in Bern,", " and Bern and Alice lives" * 5, " "])
    assert ended
    assert "".join(pieces) == "Alice lives in Bern,"


def test_function_words_and_parts_of_words_are_none_of_the_evidence() -> None:
    pieces, ended = given_out(["Art", " is where she does in at party" * 3, " "])
    assert ended
    assert "".join(pieces) == "Art"


@pytest.mark.parametrize("text", ["Nobody" + IDLE, IDLE, "", " ", "我住在伯尔尼。" * 40])
@pytest.mark.parametrize("words", [EVIDENCE, frozenset(), frozenset(["in", "the"])])
def test_an_answer_without_a_word_of_the_evidence_is_given_as_it_comes(text: str, words: frozenset[str]) -> None:
    run_on = RunOn(words)
    assert [run_on.add(letter) for letter in text] == list(text)
    assert (run_on.finish(), run_on.ended) == ("", False)


def test_what_stands_behind_the_last_word_of_the_evidence_is_held_back_until_it_is_sure() -> None:
    run_on = RunOn(EVIDENCE)
    assert run_on.add("She lives") == "She lives", "before the first word nothing can be cut"
    assert run_on.add(" in Ber") == ""
    assert run_on.add("n") == "", "the word may go on"
    assert run_on.add(", ") == " in Bern,"
    assert run_on.add("I think") == ""
    assert run_on.finish() == " I think"
    assert not run_on.ended


def test_twelve_words_may_add_nothing_and_the_thirteenth_ends_the_answer() -> None:
    run_on = RunOn(EVIDENCE)
    assert run_on.add("Bern " + "so " * LONGEST) == "Bern"
    assert not run_on.ended
    assert run_on.add("an") == ""
    assert not run_on.ended, "the word may become one of the evidence"
    assert run_on.add("d ") == ""
    assert run_on.ended
    assert (run_on.add("Alice "), run_on.finish()) == ("", "")


# --- in a decode ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def writer() -> BaseModel:
    """A tiny model that writes four letters and blanks only, and so words."""
    base = tiny_base("llama", seed=5)
    closed = torch.full((base.model.config.vocab_size,), -1e9)
    closed[[base.tokenizer.encode(letter, add_special_tokens=False)[0] for letter in "abde "]] = 0.0
    base.model.lm_head.bias = torch.nn.Parameter(closed, requires_grad=False)
    return base


def said(base: BaseModel, words: tuple[str, ...] | None) -> Query:
    prompt = tuple(base.chat.prompt_ids("Where?"))
    return Query(Row(prompt), Row(prompt, random_factors(base, seed=3)), words)


LONG = DecodeSettings(max_new_tokens=120, lambda_max=2.0)


def test_a_decode_ends_with_stop_where_its_answer_runs_on(writer: BaseModel) -> None:
    decoder = Scheduler(writer)
    free = decoder.decode([said(writer, None)], LONG)[0]
    word = (free.text.split()[1],)
    kept = " ".join(free.text.split()[:2])

    ended, plain = decoder.decode([said(writer, word), said(writer, None)], LONG)
    streamed = list(decoder.stream([said(writer, word)], LONG))

    assert plain.text == free.text
    assert len(free.text.split()) > LONGEST + 3
    assert (ended.text, ended.finish_reason) == (kept, "stop")
    assert collect(said(writer, word), streamed).text == kept
    assert [token.token_id for token in ended.trace] == [token.token_id for token in free.trace[: len(ended.trace)]]
    written = "".join(token.text for token in ended.trace)
    assert written[-1] == " "
    assert len(written.split()) == 2 + LONGEST + 1, "what was decoded to know it is in the trace"


def test_a_decode_whose_budget_ends_before_it_runs_on_is_given_whole(writer: BaseModel) -> None:
    decoder = Scheduler(writer)
    short = DecodeSettings(max_new_tokens=30, lambda_max=2.0)
    free = decoder.decode([said(writer, None)], short)[0]
    watched = decoder.decode([said(writer, (free.text.split()[1],))], short)[0]
    assert (watched.text, watched.finish_reason) == (free.text, "length")


def test_under_a_grammar_and_where_all_is_to_be_seen_no_answer_is_watched(writer: BaseModel) -> None:
    decoder = Scheduler(writer)
    text = decoder.decode([said(writer, None)], LONG)[0].text
    word = (text.split()[1],)
    for own in ({"grammar": Grammar.lark("start: /[abde ]{110}/")}, {"stop_loops": False}, {"min_new_tokens": 110}):
        settings = DecodeSettings(max_new_tokens=120, lambda_max=2.0, **own)
        watched, free = decoder.decode([said(writer, word), said(writer, None)], settings)
        assert watched.text == free.text
        assert len(watched.text) > 100
