"""The own forward pass against Hugging Face's modules, and what a row may depend on."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.adapters import AdapterRows, stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.key_values import Passes
from plume_memory.model.modules import Modules
from plume_memory.model.streams import Row, RunningRows
from plume_memory.model.transformer import Transformer
from plume_memory.testing import byte_tokenizer, random_factors, tiny_base

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma2")
"""Gemma-2 and Mistral have a sliding window of 24 tokens here."""

TOKENS = 40


def everywhere(base: BaseModel, seed: int) -> LoraFactors:
    """Factors for every linear module of every layer."""
    generator = torch.Generator().manual_seed(seed)
    layers = base.model.model.layers
    names = [name for name, module in layers[0].named_modules() if isinstance(module, torch.nn.Linear)]
    assert len(names) == 7
    modules = {}
    for name in names:
        linear = layers[0].get_submodule(name)
        A = torch.randn(len(layers), 3, linear.in_features, generator=generator)
        modules[name] = Pair(A, 0.05 * torch.randn(len(layers), 3, linear.out_features, generator=generator))
    return LoraFactors(modules, tuple(range(len(layers))))


def stacked(base: BaseModel, *factors: LoraFactors | None) -> AdapterRows | None:
    return stack_rows(factors, device=base.device, dtype=base.dtype)


def both(base: BaseModel) -> tuple[Passes, Passes]:
    assert isinstance(base.passes, Transformer)
    return base.passes, Modules(base.model)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_whole_text_is_read_as_hugging_face_reads_it(family: str) -> None:
    base = tiny_base(family)
    ids = torch.randint(3, 200, (2, TOKENS), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(TOKENS).expand(2, -1)
    adapters = stacked(base, everywhere(base, 1), everywhere(base, 2))
    with torch.inference_mode():
        bare = base.model(input_ids=ids, use_cache=False).logits
        for passes in both(base):
            torch.testing.assert_close(passes.logits(passes.run(ids, positions)), bare, atol=1e-5, rtol=1e-5)
        own, theirs = (passes.run(ids, positions, adapters=adapters) for passes in both(base))
        torch.testing.assert_close(own, theirs, atol=1e-5, rtol=1e-5)
        assert (own - both(base)[0].run(ids, positions)).abs().max() > 0.1


@pytest.mark.parametrize("family", FAMILIES)
def test_token_by_token_is_the_same_as_at_once(family: str) -> None:
    base = tiny_base(family)
    ids = torch.randint(3, 200, (2, TOKENS), generator=torch.Generator().manual_seed(2))
    positions = torch.arange(TOKENS).expand(2, -1)
    adapters = stacked(base, everywhere(base, 1), None)
    with torch.inference_mode():
        for passes in both(base):
            cache = passes.room(2, TOKENS + 8)
            parts = [passes.run(ids[:, :9], positions[:, :9], cache, adapters=adapters)]
            for at in range(9, TOKENS):
                here = slice(at, at + 1)
                parts.append(passes.run(ids[:, here], positions[:, here], cache, adapters=adapters))
            whole = passes.run(ids, positions, adapters=adapters)
            torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_watched_is_what_hugging_face_shows(family: str) -> None:
    base = tiny_base(family)
    ids = torch.randint(3, 200, (2, TOKENS))
    seen: list[list[torch.Tensor]] = []
    with torch.inference_mode():
        for passes in both(base):
            kept: list[torch.Tensor] = []
            see: Callable[[torch.Tensor], None] = kept.append
            passes.run(ids, torch.arange(TOKENS).expand(2, -1), watch={(1, ""): see, (2, "mlp.down_proj"): see})
            seen.append(kept)
    assert [one.shape[-1] for one in seen[0]] == [32, 64]
    for own, theirs in zip(*seen, strict=True):
        torch.testing.assert_close(own, theirs, atol=1e-5, rtol=1e-5)


def test_texts_packed_in_one_row_see_what_the_mask_says() -> None:
    base = tiny_base("llama")
    ids = torch.randint(3, 200, (1, 6))
    apart = torch.tensor([[0, 1, 2, 0, 1, 2]])
    mask = torch.block_diag(*[torch.ones(3, 3).tril()] * 2).bool()[None, None]
    with torch.inference_mode():
        for passes in both(base):
            packed = passes.run(ids, apart, mask=mask)
            alone = passes.run(ids[:, 3:], apart[:, 3:])
            torch.testing.assert_close(packed[:, 3:], alone, atol=1e-5, rtol=1e-5)


def test_a_model_of_other_than_plain_layers_keeps_its_own_forward() -> None:
    class Quantised(torch.nn.Linear):
        pass

    base = tiny_base("llama")
    base.model.model.layers[1].mlp.down_proj.__class__ = Quantised
    assert isinstance(base.passes, Modules)


@pytest.mark.parametrize("fixed", [False, True])
@settings(max_examples=25)
@given(moves=st.lists(st.sampled_from(["admit", "admit two", "leave", "step"]), max_size=24), seed=st.integers(0, 99))
def test_a_row_depends_on_no_row_that_comes_or_goes(fixed: bool, moves: list[str], seed: int) -> None:
    """Every row of a changing batch against the same row alone."""
    base = tiny_base("mistral")
    chance = torch.Generator().manual_seed(seed)
    together = RunningRows(base, fixed=fixed)
    alone: dict[int, tuple[RunningRows, int]] = {}

    def some_row() -> Row:
        ids = torch.randint(3, 200, (int(torch.randint(1, 30, (), generator=chance)),), generator=chance).tolist()
        rank = int(torch.randint(0, 4, (), generator=chance))
        return Row(tuple(ids), random_factors(base, rank=rank, seed=rank) if rank else None)

    def check(numbers: list[int], logits: torch.Tensor, expected: list[torch.Tensor]) -> None:
        assert len(numbers) == len(logits)
        torch.testing.assert_close(logits, torch.cat(expected), atol=1e-3, rtol=1e-3)

    with torch.inference_mode():
        for move in moves:
            if move.startswith("admit"):
                rows = [some_row() for _ in range(2 if move == "admit two" else 1)]
                numbers, logits = together.admit(rows)
                expected = []
                for number, row in zip(numbers, rows, strict=True):
                    own = RunningRows(base, fixed=False)
                    [at], first = own.admit([row])
                    alone[number] = (own, at)
                    expected.append(first)
                check(numbers, logits, expected)
            elif move == "leave" and together.present:
                gone = together.present[seed % len(together.present)]
                together.leave([gone])
                del alone[gone]
            elif move == "step" and together.present:
                tokens = {number: 3 + number % 200 for number in together.present}
                logits = together.step(tokens)
                check(
                    together.present,
                    logits,
                    [alone[number][0].step({alone[number][1]: tokens[number]}) for number in together.present],
                )


def test_frequencies_are_hugging_faces() -> None:
    """Of all kinds that do not depend on the length of the text."""
    import transformers as hf

    for rope in (
        {"rope_type": "default", "rope_theta": 1234.5},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 256,
        },
        {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 256},
    ):
        config = hf.LlamaConfig(
            vocab_size=300,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            rope_parameters=dict(rope),
            pad_token_id=0,
        )
        torch.manual_seed(0)
        base = BaseModel.wrap(hf.LlamaForCausalLM(config).float(), byte_tokenizer(), name="rope", fingerprint="rope")
        ids = torch.randint(3, 200, (1, 300))
        with torch.inference_mode():
            own, theirs = (passes.run(ids, torch.arange(300)[None]) for passes in both(base))
        torch.testing.assert_close(own, theirs, atol=1e-5, rtol=1e-5)


def test_frequencies_that_follow_the_length_are_left_to_hugging_face() -> None:
    base = tiny_base("llama")
    base.config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    assert isinstance(base.passes, Modules)
