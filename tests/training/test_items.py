"""Samples to items, token by token."""

import random

import pytest

from plume_memory.model.base import BaseModel
from plume_memory.training.items import COMPLETE, RECONSTRUCT, Item, ItemWriter, tokens_of
from plume_memory.training.samples import Ask

TEXT = "Alice lives in Bern. She keeps two cats.\n\nThe door code is 4711."
END = 2


@pytest.fixture
def writer(tiny_llama: BaseModel) -> ItemWriter:
    return ItemWriter(tiny_llama.chat, END, span_tokens=10)


def read(base: BaseModel, ids: tuple[int, ...]) -> str:
    return base.tokenizer.decode(ids)


def test_a_question_ends_where_the_answer_starts(writer: ItemWriter, tiny_llama: BaseModel) -> None:
    item = writer.answer(Ask("  Where does Alice live? ", " Bern "))

    whole = tiny_llama.chat.prompt_ids("Where does Alice live?")
    assert [*tiny_llama.chat.prefix_ids(), *item.prompt_ids] == whole
    assert read(tiny_llama, item.target_ids) == "Bern<|im_end|>"
    assert (item.kind, item.stale_ids, item.affected) == ("answer", (), False)


def test_a_corrected_answer_carries_the_outdated_one(writer: ItemWriter, tiny_llama: BaseModel) -> None:
    item = writer.answer(Ask("Where?", "Rome", affected=True, stale="Bern"))

    assert read(tiny_llama, item.stale_ids) == "Bern<|im_end|>"
    assert item.affected


def test_a_statement_says_where_its_answer_stands(tiny_llama: BaseModel) -> None:
    writer = ItemWriter(tiny_llama.chat, END, span_tokens=10, statements=True)
    ask = Ask("Where does Alice live?", "Rome", affected=True, stale="Bern", reply="Alice lives in Rome.")

    item = writer.answer(ask)

    assert item.answer is not None
    start, end = item.answer
    assert read(tiny_llama, item.target_ids) == "Alice lives in Rome.<|im_end|>"
    assert read(tiny_llama, item.target_ids[start:end]) == " Rome", "white space belongs to the word behind it"
    assert read(tiny_llama, item.stale_ids) == "Alice lives in Bern.<|im_end|>"


@pytest.mark.parametrize("reply", [None, "It is not said."])
def test_without_a_statement_that_holds_it_the_answer_stands_alone(tiny_llama: BaseModel, reply: str | None) -> None:
    writer = ItemWriter(tiny_llama.chat, END, span_tokens=10, statements=True)
    item = writer.answer(Ask("Where?", "Rome", reply=reply))

    assert read(tiny_llama, item.target_ids) == "Rome<|im_end|>"
    assert item.answer is None


def test_statements_are_left_out_where_they_are_switched_off(writer: ItemWriter, tiny_llama: BaseModel) -> None:
    item = writer.answer(Ask("Where?", "Rome", reply="Alice lives in Rome."))

    assert read(tiny_llama, item.target_ids) == "Rome<|im_end|>"


def test_retelling_is_cut_after_its_span_and_ends_where_it_fits(writer: ItemWriter, tiny_llama: BaseModel) -> None:
    long, short = (writer.reconstruction(text, random.Random(0)) for text in (TEXT, "Hi Bo.\n"))

    assert read(tiny_llama, long.target_ids) == "Alice live"
    assert read(tiny_llama, short.target_ids) == "Hi Bo.<|im_end|>"
    assert read(tiny_llama, long.prompt_ids).startswith(RECONSTRUCT)


def test_a_completion_goes_on_where_the_shown_words_end(writer: ItemWriter, tiny_llama: BaseModel) -> None:
    flat = " ".join(TEXT.split())
    suffix = tiny_llama.chat.suffix
    starts = set()
    for seed in range(40):
        item = writer.completion(TEXT, random.Random(seed))
        prompt = read(tiny_llama, item.prompt_ids)
        stem = next(c for c in COMPLETE if prompt.startswith(c))
        shown = prompt.removeprefix(stem).removesuffix(suffix)
        starts.add(shown.split()[0])
        at = flat.index(shown)
        expected = (*tiny_llama.chat.encode(flat[at + len(shown) :].strip()), END)[:10]
        assert item.target_ids == expected
        assert 1 <= len(shown.split()) <= 8
    assert starts == {"Alice", "She", "The"}, "every sentence is begun"


def test_a_text_of_one_word_is_continued_by_its_end(writer: ItemWriter) -> None:
    assert writer.completion("Hello", random.Random(0)).target_ids == (END,)


def test_the_tokens_of_a_row_are_all_but_the_last_targets() -> None:
    assert tokens_of([Item((1, 2, 3), (4, 5), "answer"), Item((1,), (2,), "kept")]) == 4 + 1


@pytest.mark.parametrize("reply", ["Al lives in Rome now.", None])
def test_the_outdated_answer_stands_in_the_current_ones_statement(writer: ItemWriter, reply: str | None) -> None:
    """Scored as it is unlearnt: a bare value is never what a memory of the old text says."""
    ask = Ask("Where does Al live?", "Rome", affected=True, stale="Bern", reply=reply)

    assert writer.answer(ask.before()).target_ids == writer.answer(ask).stale_ids
    assert ask.before().reply == (None if reply is None else "Al lives in Bern now.")
    assert Ask("Who?", "Bo").before() == Ask("Who?", "Bo")


def test_a_text_in_front_is_what_answers_compile(writer: ItemWriter, tiny_llama: BaseModel) -> None:
    framed = tiny_llama.chat.framed([{"role": "user", "content": " Where does Alice live?"}])

    assert [*tiny_llama.chat.prefix_ids(), *writer.states(f" {TEXT}\n")] == framed.evidence_ids(f" {TEXT}\n")
    assert list(writer.answer(Ask(" Where does Alice live?", "Bern")).prompt_ids) == framed.continuation_ids()
