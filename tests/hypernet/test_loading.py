"""One way in for every kind of hypernetwork."""

from pathlib import Path

import pytest
import torch

from plume_memory.errors import CheckpointError
from plume_memory.hypernet import shipped
from plume_memory.hypernet.d2l.checkpoint import save_trained
from plume_memory.hypernet.d2l.config import D2LConfig, ModuleShape
from plume_memory.hypernet.d2l.network import D2LNetwork
from plume_memory.hypernet.fastweight import checkpoint
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.parameterizer import FastWeightParameterizer
from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.hypernet.parameterizer import D2LParameterizer
from plume_memory.model.base import BaseModel
from plume_memory.policy import AnswerPolicy


@pytest.fixture
def fast_weight(tmp_path: Path) -> Path:
    sizes = FastWeightConfig(hidden_size=32, intermediate_size=64, layers=(2,), rank=4, value_width=4, mixer_layer=1)
    policy = AnswerPolicy(alpha=0.8, beta=0.6, lambda_max=2, tau=0.2, delta=0.1, unit_tokens=50)
    checkpoint.save(FastWeightNetwork(sizes), tmp_path, base_model="tiny", max_tokens=40, policy=policy)
    return tmp_path


def test_a_trained_network_brings_its_policy(fast_weight: Path, tiny_llama: BaseModel) -> None:
    loaded = load_hypernetwork(tiny_llama, fast_weight)

    assert isinstance(loaded.parameterizer, FastWeightParameterizer)
    assert loaded.policy == AnswerPolicy(alpha=0.8, beta=0.6, lambda_max=2, tau=0.2, delta=0.1, unit_tokens=50)


def test_settings_that_are_given_hold_and_the_rest_stays_the_networks(fast_weight: Path, tiny_llama: BaseModel) -> None:
    brought = load_hypernetwork(tiny_llama, fast_weight).policy
    found = load_hypernetwork(tiny_llama, fast_weight, AnswerPolicy(alpha=0.3, beta=0.75)).policy

    assert found == brought.model_copy(update={"alpha": 0.3, "beta": 0.75}), "also where the default is given"
    assert load_hypernetwork(tiny_llama, fast_weight, AnswerPolicy.paper()).policy == AnswerPolicy()


def test_a_doc_to_lora_network_trained_here_is_loaded_as_a_converted_one(tmp_path: Path, tiny_llama: BaseModel) -> None:
    torch.manual_seed(0)
    config = D2LConfig(
        hidden_size=32,
        latent_size=16,
        rank=2,
        lora_alpha=1.0,
        layers=(0, 1, 2),
        modules=(ModuleShape(name="down_proj", path="mlp.down_proj", d_in=64, d_out=32),),
        latent_queries=2,
        heads=2,
        kv_heads=1,
        head_size=8,
        projection_size=32,
        mlp_size=32,
        encoder_layers=("cross",),
        encoder_order=(0,),
        decoder_layers=("cross",),
        decoder_order=(0,),
        pre_head_blocks=1,
        pre_head_size=16,
        per_layer_pre_head=True,
        use_bias=False,
    )
    network = D2LNetwork(config)
    save_trained(network, tmp_path, base_model="tiny")

    loaded = load_hypernetwork(tiny_llama, tmp_path)

    assert isinstance(loaded.parameterizer, D2LParameterizer)
    assert loaded.policy == AnswerPolicy()
    state = loaded.parameterizer._network.state_dict()
    for name, tensor in network.state_dict().items():
        assert torch.equal(state[name], tensor)


def test_a_folder_that_holds_neither_is_refused(tmp_path: Path, tiny_llama: BaseModel) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(CheckpointError):
        load_hypernetwork(tiny_llama, tmp_path)


def test_a_shipped_network_is_a_whole_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "_SHIPPED", tmp_path)
    (tmp_path / "half").mkdir()
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "config.json").write_text("{}")

    assert shipped.shipped_hypernetwork("half") is None
    assert shipped.shipped_hypernetwork("none") is None
    assert shipped.shipped_hypernetwork("whole") == tmp_path / "whole"
