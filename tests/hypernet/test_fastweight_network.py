"""The fast-weight network on a tiny model's states: where gradients reach, what depends on what."""

import dataclasses

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.mixer import MixerBlock
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.reading import Reading, read_texts
from plume_memory.model.base import BaseModel
from plume_memory.testing import tiny_base

TEXTS = tuple(list(range(30, 30 + n)) for n in (1, 2, 13, 14, 29))


def make(*, stirred: bool = True, mixer_blocks: int = 1) -> FastWeightNetwork:
    """A network; `stirred` moves every weight off its start, where some are zero."""
    torch.manual_seed(0)
    network = FastWeightNetwork(
        FastWeightConfig(
            hidden_size=32,
            intermediate_size=64,
            layers=(1, 2),
            rank=8,
            value_width=6,
            taps=3,
            mixer_blocks=mixer_blocks,
            mixer_width=16,
            mixer_heads=2,
            mixer_layer=1,
        )
    )
    if stirred:
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
    return network


def read(base: BaseModel, texts: tuple[list[int], ...], network: FastWeightNetwork) -> Reading:
    config = network.config
    return read_texts(base.passes, texts, base.chat.prefix_ids(), config.layers, config.mixer_layer)


def test_gradients_reach_every_parameter(tiny_llama: BaseModel) -> None:
    network = make()
    B = network(read(tiny_llama, TEXTS, network))
    (B.square().sum() + network.read_keys.square().sum()).backward()

    silent = {
        name
        for name, p in network.named_parameters()
        if p.grad is None or not p.grad.abs().max() > 0 or p.grad.isnan().any()
    }
    assert silent == set()
    assert all(p.grad is None for p in tiny_llama.model.parameters())


def test_a_texts_first_token_counts_only_where_the_place_before_it_files_it(tiny_llama: BaseModel) -> None:
    """Value and key of the first token alone: its embedding is exchanged where the others' states cannot see it."""
    network = make()
    config = network.config
    head = tiny_llama.chat.prefix_ids()
    filed, left_out = (
        read_texts(tiny_llama.passes, TEXTS, head, config.layers, config.mixer_layer, first_token=first_token)
        for first_token in (True, False)
    )
    other = dataclasses.replace(filed, following=filed.following.clone())
    other.following[:, 0] += 1.0

    written = network(filed)
    assert (written - network(other)).abs().amax((0, 2, 3)).gt(1e-5).all(), "every text's factors follow it"
    assert (written - network(left_out)).abs().max() > 1e-4


def test_the_key_before_a_text_is_the_mixers(tiny_llama: BaseModel) -> None:
    """Without a mixer the place before a text says nothing of the text, and files nothing."""
    network = make(mixer_blocks=0)
    config, head = network.config, tiny_llama.chat.prefix_ids()
    with torch.no_grad():
        network.key_taps[1:] = 0
    led, plain = (
        network(read_texts(tiny_llama.passes, TEXTS, head, config.layers, config.mixer_layer, first_token=first_token))
        for first_token in (True, False)
    )
    torch.testing.assert_close(led, plain, atol=1e-5, rtol=1e-4)


def test_the_mixer_starts_as_the_identity() -> None:
    block = MixerBlock(16, 2)
    x = torch.randn(2, 5, 16)

    assert torch.equal(block(x, torch.tensor([[True] * 5, [True] * 2 + [False] * 3])), x)


def test_the_mixer_looks_both_ways_and_never_at_padding() -> None:
    torch.manual_seed(0)
    block = MixerBlock(16, 2)
    with torch.no_grad():
        block.out.weight.normal_()
    x, mask = torch.randn(1, 6, 16), torch.tensor([[True] * 4 + [False] * 2])
    later, padded = x.clone(), x.clone()
    later[0, 3] += 1
    padded[0, 4:] += 1

    assert (block(later, mask)[0, 0] - block(x, mask)[0, 0]).abs().max() > 1e-3
    torch.testing.assert_close(block(padded, mask)[0, :4], block(x, mask)[0, :4], atol=1e-6, rtol=1e-5)


def test_the_convolution_is_causal_and_sums_its_taps() -> None:
    network = make()
    keys = torch.randn(2, 3, 7, 8)
    found = network._convolved(keys)
    expected = torch.zeros_like(keys)
    for t in range(7):
        for back in range(min(t, 2) + 1):
            expected[:, :, t] += keys[:, :, t - back] * network.key_taps[back][:, None]

    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    assert network._convolved(keys[:, :, :2]).shape == (2, 3, 2, 8), "fewer tokens than taps"


@pytest.mark.parametrize("mixer_blocks", [0, 1])
def test_a_texts_factors_are_the_same_alone_and_in_a_batch(tiny_llama: BaseModel, mixer_blocks: int) -> None:
    """Of every length up to a whole block of padding; float32, relative to the largest entry."""
    network = make(mixer_blocks=mixer_blocks).requires_grad_(False)
    texts = tuple(list(range(30, 30 + n)) for n in range(1, 18))
    together = network(read(tiny_llama, (*texts, TEXTS[-1]), network))
    for row, text in enumerate(texts):
        assert distance(network(read(tiny_llama, (text,), network))[:, 0], together[:, row]) < 1e-4, len(text)


def test_in_bfloat16_a_batch_costs_rounding_only() -> None:
    """bfloat16 has 8 bits: 2⁻⁸ per product, a few of them one after the other."""
    base = tiny_base("llama")
    base.model.bfloat16()
    network = make().requires_grad_(False)
    together = network(read(base, TEXTS, network))

    assert together.dtype == torch.float32
    for row, text in enumerate(TEXTS):
        assert distance(network(read(base, (text,), network))[:, 0], together[:, row]) < 0.05


def distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"layers": (2, 1)}, "ascending"), ({"layers": ()}, "at least 1"), ({"mixer_width": 18}, "even multiple")],
)
def test_senseless_sizes_are_refused(wrong: dict[str, object], message: str) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "layers": (0,), "mixer_heads": 4} | wrong
    with pytest.raises(ValidationError, match=message):
        FastWeightConfig.model_validate(sizes)
