"""The start of a fresh network: read keys that tell states apart."""

import random

import pytest
import torch

from plume_memory.errors import TrainingError
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.reading import read_texts
from plume_memory.model.base import BaseModel
from plume_memory.training.calibrate import OUT_SHARE, calibrate

CHANCE = random.Random(0)
TEXTS = [[CHANCE.randrange(3, 259) for _ in range(CHANCE.randint(5, 30))] for _ in range(60)]


def calibrated(base: BaseModel, *, rank: int = 12, seed: int = 0) -> FastWeightNetwork:
    torch.manual_seed(1)
    sizes = FastWeightConfig(
        hidden_size=32, intermediate_size=64, layers=(0, 2), rank=rank, value_width=8, mixer_layer=1
    )
    network = FastWeightNetwork(sizes)
    calibrate(network, base, TEXTS, seed=seed)
    return network


def test_read_keys_of_the_models_own_states_are_white_and_of_length_one(tiny_llama: BaseModel) -> None:
    """E[k kᵀ] = I / r over the texts it was calibrated on; float32, condition clamped at 10⁷."""
    network = calibrated(tiny_llama)
    total, count = torch.zeros(2, 12, 12), 0
    for text in TEXTS:
        reading = read_texts(tiny_llama.passes, [text], tiny_llama.chat.prefix_ids(), (0, 2), 1)
        keys = reading.activations[:, reading.mask] @ network.read_keys.detach().mT
        total, count = total + keys.mT @ keys, count + len(text)

    torch.testing.assert_close(total / count, torch.eye(12).expand(2, -1, -1) / 12, atol=2e-3, rtol=0)


def test_keys_start_as_read_keys(tiny_llama: BaseModel) -> None:
    network = calibrated(tiny_llama)
    assert torch.equal(network.key_activations, network.read_keys.mT)


def test_a_matched_key_adds_a_small_share_of_the_residual_stream(tiny_llama: BaseModel) -> None:
    network = calibrated(tiny_llama)
    norms = torch.stack(
        [
            read_texts(tiny_llama.passes, [t], tiny_llama.chat.prefix_ids(), (0, 2), 1)
            .hidden[:, 0, : len(t)]
            .norm(dim=-1)
            .median(1)
            .values
            for t in TEXTS
        ]
    ).mean(0)
    value = torch.randn(1000, 8)
    added = (value @ network.out.detach()).norm(dim=-1).square().mean(-1).sqrt()  # [L], over unit-variance values

    torch.testing.assert_close(added, OUT_SHARE * norms, rtol=0.15, atol=0)


def test_the_seed_alone_decides(tiny_llama: BaseModel) -> None:
    one, same, other = (calibrated(tiny_llama, seed=seed) for seed in (0, 0, 1))

    assert torch.equal(one.read_keys, same.read_keys)
    assert not torch.equal(one.read_keys, other.read_keys)


def test_a_rank_beyond_the_models_directions_is_refused(tiny_llama: BaseModel) -> None:
    with pytest.raises(TrainingError, match="rank 65 was asked for; 'tiny-llama' has 64"):
        calibrated(tiny_llama, rank=65)
