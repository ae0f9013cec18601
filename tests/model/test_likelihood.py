"""Likelihoods of a question against plain forward passes of transformers, one text at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

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
from plume_memory.model.likelihood import BATCH_TOKENS, QUESTION_TOKENS, question_likelihoods, question_log_probs
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


@contextmanager
def watched(base: BaseModel) -> Iterator[tuple[list[torch.Size], list[int]]]:
    """Shapes of the ids that are read, and numbers of positions whose logits are computed."""
    read: list[torch.Size] = []
    projected: list[int] = []
    hooks = [
        base.model.model.register_forward_pre_hook(
            lambda module, args, kwargs: read.append(kwargs["input_ids"].shape), with_kwargs=True
        ),
        base.model.lm_head.register_forward_pre_hook(lambda module, args: projected.append(args[0][..., 0].numel())),
    ]
    try:
        yield read, projected
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

    with watched(tiny) as (read, projected):
        found = question_likelihoods(tiny, texts, QUESTION)

    assert found == pytest.approx([slow(tiny, text_ids(tiny, text), asked) for text in texts], abs=1e-5)
    assert all(rows * width <= BATCH_TOKENS for rows, width in read)
    assert len(read) > 1
    assert [width for _, width in read] == sorted((width for _, width in read), reverse=True)
    assert sum(rows for rows, _ in read) == len(texts)
    assert sum(projected) == len(texts) * len(asked)
    assert max(projected) < 256, "the logits of a large vocabulary are never held for a whole batch"


def test_a_text_beyond_the_batchs_bound_is_read_alone(tiny_llama: BaseModel) -> None:
    base = tiny_base("llama", context_window=6000)
    texts = ["fish " * 1000, "moon", "lamp"]

    with watched(base) as (read, _):
        question_likelihoods(base, texts, QUESTION)

    assert [shape[0] for shape in read] == [1, 2]
    assert read[0][1] > BATCH_TOKENS


def test_a_text_beyond_the_window_keeps_its_end_and_so_does_a_question(tiny_llama: BaseModel) -> None:
    base = tiny_base("llama", context_window=64)
    long, asked = "beginning " * 9 + "the end", base.chat.encode(" " + QUESTION)

    with watched(base) as (read, _):
        found = question_likelihoods(base, [long], QUESTION)
        question_likelihoods(base, [long], QUESTION * 9)

    assert found == pytest.approx([slow(base, text_ids(base, long)[-(64 - len(asked)) :], asked)], abs=1e-5)
    assert read == [(1, 64), (1, 64)]

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
