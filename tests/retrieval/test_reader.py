"""Likelihoods of a question against plain forward passes of transformers, one text at a time."""

from collections.abc import Callable, Iterator, Sequence
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
from plume_memory.model.adapters import decoder_layers, shared_rows
from plume_memory.model.base import BaseModel
from plume_memory.retrieval.reader import (
    BATCH_TOKENS,
    QUESTION_TOKENS,
    ReadText,
    Rows,
    question_likelihoods,
    question_log_probs,
)
from plume_memory.testing import byte_tokenizer, tiny_base

QUESTION = "Where does Alice live?"
TEXTS = (
    "Alice lives in Bern.",
    "x",
    "  The ferry leaves the old harbour at seven, and nobody in the village has ever found out why.\n",
    "Zürich 艾丽丝",
)
"""Longer and shorter than the tiny models' sliding window of 24 tokens (bytes)."""


def slow(base: BaseModel, text_ids: Sequence[int], question_ids: Sequence[int]) -> float:
    """Mean log p of the question's ids: the whole logits of one unpadded forward pass."""
    ids = [*text_ids, *question_ids]
    with torch.no_grad():
        log_p = base.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double().log_softmax(-1)
    values = [log_p[at - 1, ids[at]].item() for at in range(len(text_ids), len(ids))]
    return sum(values) / len(values)


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

    def note(module: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        (seen.questions if "attention_mask" in kwargs else seen.texts).append(kwargs["input_ids"].shape)

    hooks = [
        base.model.model.register_forward_pre_hook(note, with_kwargs=True),
        base.model.lm_head.register_forward_pre_hook(
            lambda module, args: seen.projected.append(args[0][..., 0].numel())
        ),
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def test_a_likelihood_is_the_mean_over_the_questions_tokens(tiny: BaseModel) -> None:
    by_token = question_log_probs(tiny, TEXTS, QUESTION)
    assert {len(one) for one in by_token} == {len(tiny.chat.encode(" " + QUESTION))}
    assert question_likelihoods(tiny, TEXTS, QUESTION) == pytest.approx([sum(one) / len(one) for one in by_token])


def test_a_batch_gives_the_mean_log_p_of_each_text_alone(tiny: BaseModel) -> None:
    asked = tiny.chat.encode(" " + QUESTION)

    found = question_likelihoods(tiny, TEXTS, QUESTION)

    assert found == pytest.approx([slow(tiny, text_ids(tiny, text), asked) for text in TEXTS], abs=1e-5)
    assert len(set(found)) == len(TEXTS)
    assert question_likelihoods(tiny, TEXTS[:1], f"\n{QUESTION} ") == pytest.approx(found[:1], abs=1e-5)


def test_with_an_adapter_a_text_is_read_as_by_the_model_that_has_it(tiny: BaseModel) -> None:
    chance = torch.Generator().manual_seed(0)
    inner = decoder_layers(tiny.model)[1].get_submodule("mlp.down_proj")
    pair = Pair(torch.randn(1, 2, 64, generator=chance), torch.randn(1, 2, 32, generator=chance))
    factors = LoraFactors({"mlp.down_proj": pair}, (1,), scale=0.5)
    bare = question_likelihoods(tiny, TEXTS, QUESTION)
    asked, before = tiny.chat.encode(f" {QUESTION}"), tiny.chat.encode("\n")

    adapter = shared_rows(factors, device=tiny.device, dtype=tiny.dtype)
    found = question_log_probs(tiny, TEXTS, QUESTION, adapter=adapter)
    delta = factors.delta("mlp.down_proj", 1)
    with torch.no_grad():
        inner.weight += delta
        expected = [slow(tiny, [*before, *text_ids(tiny, text)], asked) for text in TEXTS]
        inner.weight -= delta

    assert [sum(one) / len(one) for one in found] == pytest.approx(expected, abs=1e-4)
    assert expected != pytest.approx(bare, abs=1e-2)
    assert question_likelihoods(tiny, TEXTS, QUESTION) == pytest.approx(bare, abs=1e-5), "nothing stays attached"


def test_batches_are_bounded_and_only_the_questions_logits_are_computed(tiny: BaseModel) -> None:
    texts = ["word " * (7 * i % 90) + str(i) for i in range(60)]
    asked = tiny.chat.encode(" " + QUESTION)

    with watched(tiny) as seen:
        found = question_likelihoods(tiny, texts, QUESTION)

    assert found == pytest.approx([slow(tiny, text_ids(tiny, text), asked) for text in texts], abs=1e-5)
    assert all(rows * width <= BATCH_TOKENS for rows, width in seen.texts)
    assert len(seen.texts) > 1
    assert [width for _, width in seen.texts] == sorted((width for _, width in seen.texts), reverse=True)
    assert sum(rows for rows, _ in seen.texts) == sum(rows for rows, _ in seen.questions) == len(texts)
    assert {width for _, width in seen.questions} == {len(asked) - 1}, "its last token foretells nothing of it"
    assert len(seen.questions) > 1, "their states are bounded too"
    assert sum(seen.projected) == len(texts) * len(asked)
    assert max(seen.projected) < 256, "the logits of a large vocabulary are never held for a whole batch"


def test_what_was_read_of_a_text_does_not_depend_on_what_was_read_beside_it(tiny: BaseModel) -> None:
    """Kernels round differently at every width, and what is kept serves more questions than the one of that day."""
    read: list[ReadText] = []

    def keep(texts: Rows, make: Callable[[Rows], Sequence[ReadText]]) -> Sequence[ReadText]:
        read.extend(make(texts))
        return read[-len(texts) :]

    with watched(tiny) as together:
        question_log_probs(tiny, TEXTS, QUESTION, keep=keep)
    with watched(tiny) as alone:
        for text in TEXTS:
            question_log_probs(tiny, [text], QUESTION, keep=keep)

    assert {width for _, width in together.texts} == {width for _, width in alone.texts}
    for one, other in zip(read[: len(TEXTS)], read[len(TEXTS) :], strict=True):
        for states, again in ((one.keys, other.keys), (one.values, other.values), (one.last, other.last)):
            torch.testing.assert_close(states, again, rtol=0, atol=1e-6)
    assert read[0].nbytes == sum(states.nbytes for states in (read[0].keys, read[0].values, read[0].last))


def test_what_was_read_serves_another_question(tiny: BaseModel) -> None:
    kept: dict[tuple[int, ...], ReadText] = {}

    def keep(texts: Rows, make: Callable[[Rows], Sequence[ReadText]]) -> Sequence[ReadText]:
        missing = [ids for ids in texts if tuple(ids) not in kept]
        kept.update(zip(map(tuple, missing), make(missing) if missing else [], strict=True))
        return [kept[tuple(ids)] for ids in texts]

    question_log_probs(tiny, TEXTS[:2], QUESTION, keep=keep)
    question_log_probs(tiny, TEXTS[2:], QUESTION, keep=keep)
    with watched(tiny) as seen:
        found = question_log_probs(tiny, TEXTS, "And who has a boat?", keep=keep)
        one_token = question_log_probs(tiny, TEXTS, "Who", keep=keep)

    assert seen.texts == []
    for texts, question in ((found, "And who has a boat?"), (one_token, "Who")):
        plain = question_log_probs(tiny, TEXTS, question)
        assert [p for each in texts for p in each] == pytest.approx([p for each in plain for p in each], abs=1e-5)


def test_a_text_beyond_the_batchs_bound_is_read_alone(tiny_llama: BaseModel) -> None:
    base = tiny_base("llama", context_window=6000)
    texts = ["fish " * 1000, "moon", "lamp"]

    with watched(base) as seen:
        question_likelihoods(base, texts, QUESTION)

    assert [shape[0] for shape in seen.texts] == [shape[0] for shape in seen.questions] == [1, 2]
    assert seen.texts[0][1] > BATCH_TOKENS


def test_a_text_beyond_the_window_keeps_its_end_and_so_does_a_question(tiny_llama: BaseModel) -> None:
    base = tiny_base("llama", context_window=64)
    long, asked = "beginning " * 9 + "the end", base.chat.encode(" " + QUESTION)

    with watched(base) as seen:
        found = question_likelihoods(base, [long], QUESTION)
        question_likelihoods(base, [long], QUESTION * 9)

    assert found == pytest.approx([slow(base, text_ids(base, long)[-(64 - len(asked)) :], asked)], abs=1e-5)
    assert seen.texts == [(1, 48), (1, 32)], "the next multiple of 16, within the window"
    assert seen.questions == [(1, len(asked) - 1), (1, 31)]

    question = "Tell me about the pasted report. " * 20 + QUESTION
    expected = slow(
        tiny_llama, text_ids(tiny_llama, TEXTS[0]), tiny_llama.chat.encode(" " + question)[-QUESTION_TOKENS:]
    )
    assert question_likelihoods(tiny_llama, TEXTS[:1], question) == pytest.approx([expected], abs=1e-5)


def test_a_tokenizer_that_begins_every_text_with_a_token_does_so_here(tiny_llama: BaseModel) -> None:
    tokenizer = byte_tokenizer()
    begin = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{tokenizer.bos_token} $A", special_tokens=[(tokenizer.bos_token, begin)]
    )
    base = replace(tiny_llama, tokenizer=tokenizer)
    asked = base.chat.encode(" " + QUESTION)

    found = question_likelihoods(base, TEXTS, QUESTION)

    assert found == pytest.approx([slow(base, [begin, *text_ids(base, text)], asked) for text in TEXTS], abs=1e-5)


def test_nothing_to_read_and_nothing_to_ask(tiny_llama: BaseModel) -> None:
    assert question_likelihoods(tiny_llama, [], QUESTION) == []
    for blank in ("", " \n"):
        with pytest.raises(InvalidInput, match="no token"):
            question_likelihoods(tiny_llama, TEXTS, blank)
    with pytest.raises(InvalidInput, match="half a character"):
        question_likelihoods(tiny_llama, TEXTS, "half \ud83d a character")


@pytest.mark.model
def test_a_reranker_reads_the_first_word_of_a_text_too(smollm2: BaseModel) -> None:
    folder = shipped_hypernetwork("smollm2-135m")
    assert folder is not None
    sha256 = read_manifest(folder).reranker_sha256
    assert sha256 is not None
    reranker = shared_rows(load_reranker(folder, sha256), device=smollm2.device, dtype=smollm2.dtype)
    texts = ("Alice was born on 3 May.", "Bob was born on 7 June.", "Carla was born on 9 July.")

    found = question_log_probs(smollm2, texts, "When was Carla born?", adapter=reranker)

    told = [sum(log_probs) / len(log_probs) for log_probs in found]
    assert told[2] > max(told[:2]) + 0.2
