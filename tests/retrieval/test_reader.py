"""What a text does for a question, against plain forward passes of transformers, one text at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from plume_memory.errors import InvalidInput
from plume_memory.hypernet.fastweight.checkpoint import read_manifest
from plume_memory.hypernet.reranker import load_reranker
from plume_memory.hypernet.shipped import shipped_hypernetwork
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.adapters import decoder_layers
from plume_memory.model.base import BaseModel
from plume_memory.model.reading import BATCH_TOKENS
from plume_memory.retrieval.reader import QUESTION_TOKENS, Reader, Reading
from plume_memory.testing import byte_tokenizer, random_factors, tiny_base
from tests import passes
from tests.owner import Owner

QUESTION = "Where does Alice live?"
TEXTS = (
    "Alice lives in Bern.",
    "x",
    "  The ferry leaves the old harbour at seven, and nobody in the village has ever found out why.\n",
    "Zürich 艾丽丝",
)
"""Longer and shorter than the tiny models' sliding window of 24 tokens (bytes)."""


def slow(base: BaseModel, text_ids: Sequence[int], question_ids: Sequence[int]) -> list[float]:
    """Log p of each of the question's ids: the whole logits of one unpadded forward pass."""
    ids = [*text_ids, *question_ids]
    with torch.no_grad():
        log_p = base.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double().log_softmax(-1)
    return [log_p[at - 1, ids[at]].item() for at in range(len(text_ids), len(ids))]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def log_ps(reader: Reader, texts: Sequence[str], question: str, owner: Owner | None = None) -> list[float]:
    """Mean log p of the question's tokens behind each text."""
    return [one.log_p for one in reader.read(texts, question, owner)]


def flat(values: Sequence[Sequence[float]]) -> list[float]:
    return [value for own in values for value in own]


def text_ids(base: BaseModel, text: str) -> list[int]:
    return base.chat.encode(text.strip() + "\n\nQuestion:")


class Watched(NamedTuple):
    """What a model is given."""

    texts: list[torch.Size]
    """Shapes of the ids that are read of texts."""
    questions: list[torch.Size]
    """Of a question, behind texts that were read."""
    projected: list[int]
    """Numbers of positions whose logits are computed."""


@contextmanager
def watched(base: BaseModel) -> Iterator[Watched]:
    """Watch what a model is given."""
    seen = Watched([], [], [])

    def note(ids: torch.Tensor, positions: torch.Tensor) -> None:
        (seen.texts if int(positions[0, 0]) == 0 else seen.questions).append(ids.shape)

    def counted(logits: torch.Tensor) -> torch.Tensor:
        seen.projected.append(logits[..., 0].numel())
        return logits

    with passes.watched(base, note, says=counted):
        yield seen


# --- log p ----------------------------------------------------------------------------------------


def test_a_batch_gives_the_log_p_of_each_token_behind_each_text_alone(tiny: BaseModel) -> None:
    asked = tiny.chat.encode(" " + QUESTION)

    found = Reader(tiny).log_probs(TEXTS, QUESTION)

    assert {len(own) for own in found} == {len(asked)}
    for text, own in zip(TEXTS, found, strict=True):
        assert own == pytest.approx(slow(tiny, text_ids(tiny, text), asked), abs=1e-4)
    assert len({mean(own) for own in found}) == len(TEXTS)
    assert flat(Reader(tiny).log_probs(TEXTS[:1], f"\n{QUESTION} ")) == pytest.approx(found[0], abs=1e-5)


def test_a_reading_is_the_mean_over_the_questions_tokens_and_what_those_gain_that_gain(tiny: BaseModel) -> None:
    """Against separate passes: behind nothing, and behind each text alone."""
    asked = tiny.chat.encode(" " + QUESTION)
    nothing = slow(tiny, text_ids(tiny, ""), asked)

    found = Reader(tiny).read(TEXTS, QUESTION)

    for text, one in zip(TEXTS, found, strict=True):
        behind = slow(tiny, text_ids(tiny, text), asked)
        assert one.log_p == pytest.approx(mean(behind), abs=1e-5)
        gains = [b - n for n, b in zip(nothing, behind, strict=True)]
        assert one.gain == pytest.approx(sum(g for g in gains if g > 0), abs=1e-3)
        assert min(gains) < 0 < one.gain, "what some tokens lose does not hide what others gain"


def test_the_gain_of_the_same_pass_is_that_of_separate_passes(tiny: BaseModel) -> None:
    reader = Reader(tiny)
    together = reader.read([*TEXTS, TEXTS[0]], QUESTION)
    alone = [reader.read([text], QUESTION)[0] for text in TEXTS]
    by_token = zip(reader.log_probs([""], QUESTION) * len(TEXTS), reader.log_probs(TEXTS, QUESTION), strict=True)
    gains = [sum(max(0.0, b - n) for n, b in zip(nothing, behind, strict=True)) for nothing, behind in by_token]

    assert [one.gain for one in together[:-1]] == pytest.approx([one.gain for one in alone], abs=1e-4)
    assert [one.gain for one in together[:-1]] == pytest.approx(gains, abs=1e-4)
    assert together[-1] == together[0]


def test_no_text_gains_nothing(tiny: BaseModel) -> None:
    (found,) = Reader(tiny).read([" \n"], QUESTION)
    assert found == Reading(pytest.approx(mean(Reader(tiny).log_probs([""], QUESTION)[0])), 0.0)  # type: ignore[arg-type]


def test_with_a_reranker_a_text_is_read_as_by_the_model_that_has_it(tiny: BaseModel) -> None:
    chance = torch.Generator().manual_seed(0)
    inner = decoder_layers(tiny.model)[1].get_submodule("mlp.down_proj")
    pair = Pair(torch.randn(1, 2, 64, generator=chance), torch.randn(1, 2, 32, generator=chance))
    factors = LoraFactors({"mlp.down_proj": pair}, (1,), scale=0.5)
    bare = log_ps(Reader(tiny), TEXTS, QUESTION)
    asked, before = tiny.chat.encode(f" {QUESTION}"), tiny.chat.encode("\n")

    found = log_ps(Reader(tiny, factors), TEXTS, QUESTION)
    delta = factors.delta("mlp.down_proj", 1)
    with torch.no_grad():
        inner.weight += delta
        expected = [mean(slow(tiny, [*before, *text_ids(tiny, text)], asked)) for text in TEXTS]
        inner.weight -= delta

    assert found == pytest.approx(expected, abs=1e-4)
    assert expected != pytest.approx(bare, abs=1e-2)
    assert log_ps(Reader(tiny), TEXTS, QUESTION) == pytest.approx(bare, abs=1e-5), "nothing stays attached"


def test_batches_are_bounded_and_only_the_questions_logits_are_computed(tiny: BaseModel) -> None:
    texts = ["word " * (7 * i % 90) + str(i) for i in range(60)]
    asked = tiny.chat.encode(" " + QUESTION)

    with watched(tiny) as seen:
        found = Reader(tiny).log_probs(texts, QUESTION)

    expected = [mean(slow(tiny, text_ids(tiny, text), asked)) for text in texts]
    assert [mean(own) for own in found] == pytest.approx(expected, abs=1e-5)
    assert all(rows * width <= BATCH_TOKENS for rows, width in seen.texts)
    assert len(seen.texts) > 1
    assert [width for _, width in seen.texts] == sorted((width for _, width in seen.texts), reverse=True)
    assert sum(rows for rows, _ in seen.texts) == sum(rows for rows, _ in seen.questions) == len(texts)
    assert {width for _, width in seen.questions} == {len(asked) - 1}, "its last token foretells nothing of it"
    assert len(seen.questions) > 1, "their states are bounded too"
    assert sum(seen.projected) == len(texts) * len(asked)
    assert max(seen.projected) < 256, "the logits of a large vocabulary are never held for a whole batch"


def test_a_text_beyond_the_batchs_bound_is_read_alone() -> None:
    base = tiny_base("llama", context_window=6000)
    texts = ["fish " * 1000, "moon", "lamp"]

    with watched(base) as seen:
        Reader(base).log_probs(texts, QUESTION)

    assert [shape[0] for shape in seen.texts] == [shape[0] for shape in seen.questions] == [1, 2]
    assert seen.texts[0][1] > BATCH_TOKENS


def test_a_text_beyond_the_window_keeps_its_end_and_so_does_a_question(tiny_llama: BaseModel) -> None:
    base = tiny_base("llama", context_window=64)
    long, asked = "beginning " * 9 + "the end", base.chat.encode(" " + QUESTION)

    with watched(base) as seen:
        found = Reader(base).log_probs([long], QUESTION)
        Reader(base).log_probs([long], QUESTION * 9)

    assert found[0] == pytest.approx(slow(base, text_ids(base, long)[-(64 - len(asked)) :], asked), abs=1e-4)
    assert seen.texts == [(1, 48), (1, 32)], "the next multiple of 16, within the window"
    assert seen.questions == [(1, len(asked) - 1), (1, 31)]


@pytest.mark.parametrize("texts", [1, 8, 64])
def test_what_is_read_of_a_pasted_document_is_bounded_and_said(
    tiny_llama: BaseModel, texts: int, caplog: pytest.LogCaptureFixture
) -> None:
    base = tiny_base("llama", context_window=32_000)
    question = "Tell me about the pasted report. " * 500 + QUESTION
    whole = base.chat.encode(" " + question)
    end = whole[-(QUESTION_TOKENS // (texts + 1)) :]  # nothing is read beside the texts
    told = [f"{n}" for n in range(texts)]

    with watched(base) as seen:
        found = log_ps(Reader(base), told, question)

    assert sum(rows * tokens for rows, tokens in seen.questions) <= QUESTION_TOKENS
    assert found[0] == pytest.approx(mean(slow(base, text_ids(base, told[0]), end)), abs=1e-3)
    assert f"Of a question of {len(whole)} tokens the last {len(end)} are read." in caplog.text


def test_a_tokenizer_that_begins_every_text_with_a_token_does_so_here(tiny_llama: BaseModel) -> None:
    tokenizer = byte_tokenizer()
    begin = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{tokenizer.bos_token} $A", special_tokens=[(tokenizer.bos_token, begin)]
    )
    base = replace(tiny_llama, tokenizer=tokenizer)
    asked = base.chat.encode(" " + QUESTION)

    found = log_ps(Reader(base), TEXTS, QUESTION)

    expected = [mean(slow(base, [begin, *text_ids(base, text)], asked)) for text in TEXTS]
    assert found == pytest.approx(expected, abs=1e-5)


def test_nothing_to_read_and_nothing_to_ask(tiny_llama: BaseModel) -> None:
    reader = Reader(tiny_llama)
    assert reader.read([], QUESTION) == []
    assert reader.log_probs([], QUESTION, Owner()) == []
    for blank in ("", " \n"):
        with pytest.raises(InvalidInput, match="no token"):
            reader.read(TEXTS, blank)
    with pytest.raises(InvalidInput, match="half a character"):
        reader.read(TEXTS, "half \ud83d a character")


# --- what is kept ---------------------------------------------------------------------------------


def test_what_was_read_for_one_question_serves_the_next(tiny: BaseModel) -> None:
    reader, owner = Reader(tiny), Owner()
    reader.read(TEXTS[:2], QUESTION, owner)
    reader.read(TEXTS[2:], QUESTION, owner)
    with watched(tiny) as seen:
        found = {question: reader.read(TEXTS, question, owner) for question in ("And who has a boat?", "Who")}

    assert seen.texts == []
    for question, readings in found.items():
        plain = Reader(tiny).read(TEXTS, question)
        assert [one.log_p for one in readings] == pytest.approx([one.log_p for one in plain], abs=1e-5)
        assert [one.gain for one in readings] == pytest.approx([one.gain for one in plain], abs=1e-4)


def test_only_what_is_missing_is_read_and_a_text_that_is_given_twice_once(tiny_llama: BaseModel) -> None:
    reader, owner = Reader(tiny_llama), Owner()
    reader.log_probs(TEXTS[:1], QUESTION, owner)
    with watched(tiny_llama) as seen:
        found = reader.log_probs([TEXTS[1], TEXTS[0], TEXTS[1], f" {TEXTS[0]}\n"], QUESTION, owner)
    assert sum(rows for rows, _ in seen.texts) == 1
    assert found[0] == pytest.approx(found[2])
    assert found[1] == pytest.approx(found[3])


@pytest.mark.parametrize("size", [None, 8])
def test_what_is_kept_of_a_text_does_not_depend_on_what_was_read_beside_it(tiny: BaseModel, size: int | None) -> None:
    """Kernels round differently at every width, and what is kept serves more questions than the one of that day."""
    reranker = random_factors(tiny, rank=size) if size else None
    together, apart = Reader(tiny, reranker), Reader(tiny, reranker)
    with watched(tiny) as at_once:
        together.log_probs(TEXTS, QUESTION, Owner())
    with watched(tiny) as one_by_one:
        for text in TEXTS:
            apart.log_probs([text], QUESTION, Owner())
    assert {width for _, width in at_once.texts} == {width for _, width in one_by_one.texts}
    question = "And who has a boat?"
    found, again = (reader.log_probs(TEXTS, question, Owner()) for reader in (together, apart))
    assert flat(found) == pytest.approx(flat(again), abs=1e-5)


def read_again(reader: Reader, base: BaseModel, owner: Owner | None, texts: Sequence[str] = TEXTS) -> int:
    """How many texts must be read for a question."""
    with watched(base) as seen:
        reader.log_probs(texts, QUESTION, owner)
    return sum(rows for rows, _ in seen.texts)


def test_of_no_owner_nothing_is_kept(tiny_llama: BaseModel) -> None:
    reader = Reader(tiny_llama)
    assert [read_again(reader, tiny_llama, None) for _ in range(2)] == [4, 4]
    assert read_again(reader, tiny_llama, Owner()) == 4


def test_what_one_place_has_read_is_not_kept_for_another(tiny_llama: BaseModel) -> None:
    reader = Reader(tiny_llama)
    assert [read_again(reader, tiny_llama, Owner(place)) for place in ("here", "there", "here")] == [4, 4, 0]


def test_an_owned_reader_keeps_what_it_reads_of_its_owner(tiny_llama: BaseModel) -> None:
    reader = Reader(tiny_llama)
    here = reader.of(Owner())
    assert here.read(TEXTS, QUESTION) == reader.read(TEXTS, QUESTION, Owner())
    assert read_again(reader, tiny_llama, Owner(), ["", *TEXTS]) == 0
    assert read_again(reader, tiny_llama, Owner("there")) == 4


@pytest.mark.parametrize(
    "let_go", [lambda reader: reader.discard(Owner("here")), lambda reader: reader.release("here")]
)
def test_what_is_discarded_or_released_is_read_again_in_its_place_alone(tiny_llama: BaseModel, let_go) -> None:  # type: ignore[no-untyped-def]
    reader = Reader(tiny_llama)
    for place in ("here", "there"):
        read_again(reader, tiny_llama, Owner(place))
    let_go(reader)
    assert read_again(reader, tiny_llama, Owner("there")) == 0
    assert [read_again(reader, tiny_llama, Owner()) for _ in range(2)] == [4, 0]


def test_of_what_is_released_while_it_is_read_or_was_erased_nothing_is_kept(tiny_llama: BaseModel) -> None:
    reader = Reader(tiny_llama)

    with passes.watched(tiny_llama, lambda ids, positions: reader.release("here")):
        found = reader.log_probs(TEXTS, QUESTION, Owner())
    assert flat(found) == pytest.approx(flat(Reader(tiny_llama).log_probs(TEXTS, QUESTION)), abs=1e-5)
    assert [read_again(reader, tiny_llama, Owner()) for _ in range(2)] == [4, 0]

    outdated = Reader(tiny_llama)
    assert [read_again(outdated, tiny_llama, Owner(current=False)) for _ in range(2)] == [4, 4]


def test_no_more_is_kept_than_there_is_room_for(tiny_llama: BaseModel) -> None:
    """Keys and values of a token take 3 layers · 2 · 2 heads · 8 · 4 bytes, and a text's last state 32 · 4."""
    texts = ["a" * 90, "b" * 90, "c" * 90]
    of_one = len(text_ids(tiny_llama, texts[0])) * 3 * 2 * 2 * 8 * 4 + 32 * 4
    reader, owner = Reader(tiny_llama, room=2 * of_one), Owner()
    assert [read_again(reader, tiny_llama, owner, [text]) for text in texts] == [1, 1, 1]
    assert read_again(reader, tiny_llama, owner, texts[1:]) == 0
    assert read_again(reader, tiny_llama, owner, texts[:1]) == 1

    scarce = Reader(tiny_llama, room=1)
    assert flat(scarce.log_probs(TEXTS, QUESTION, owner)) == pytest.approx(
        flat(reader.log_probs(TEXTS, QUESTION)), abs=1e-5
    ), "a question whose texts have no room is answered"


# --- the shipped reranker -------------------------------------------------------------------------


@pytest.mark.model
def test_a_reranker_reads_the_first_word_of_a_text_too(smollm2: BaseModel) -> None:
    folder = shipped_hypernetwork("smollm2-135m")
    assert folder is not None
    sha256 = read_manifest(folder).reranker_sha256
    assert sha256 is not None
    texts = ("Alice was born on 3 May.", "Bob was born on 7 June.", "Carla was born on 9 July.")

    told = log_ps(Reader(smollm2, load_reranker(folder, sha256)), texts, "When was Carla born?")

    assert told[2] > max(told[:2]) + 0.2
