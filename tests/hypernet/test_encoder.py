"""The streamed features are those of output_hidden_states, one layer alive at a time, hooks always gone."""

import weakref

import pytest
import torch
import transformers as hf

from plume_memory.errors import ModelError
from plume_memory.hypernet.encoder import stream_features
from plume_memory.model.modules import Modules

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
FAMILIES = {
    "llama": (hf.LlamaConfig, hf.LlamaForCausalLM),
    "mistral": (hf.MistralConfig, hf.MistralForCausalLM),
    "qwen2": (hf.Qwen2Config, hf.Qwen2ForCausalLM),
    "qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM),
    "gemma2": (hf.Gemma2Config, hf.Gemma2ForCausalLM),
}
IDS = torch.tensor([[3, 14, 15, 9, 2, 6], [5, 3, 5, 8, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])


def tiny(family="llama", layers=4):
    config, model = FAMILIES[family]
    sizes = {k: v for k, v in SIZES.items() if not (family == "qwen2" and k == "head_dim")}
    torch.manual_seed(0)
    return model(config(**sizes, num_hidden_layers=layers)).float().eval()


def collect(model, **options):
    seen = []
    stream_features(Modules(model), IDS, MASK, lambda layer, x: seen.append((layer, x)), **options)
    return seen


@pytest.mark.parametrize("family", FAMILIES)
def test_features_are_the_hidden_states_with_the_last_one_normed(family):
    model = tiny(family)
    with torch.no_grad():
        states = model.model(IDS, attention_mask=MASK, output_hidden_states=True).hidden_states
        expected = [*states[:3], model.model.norm(states[3])]
    seen = collect(model)
    assert [layer for layer, _ in seen] == [0, 1, 2, 3]
    for (_, found), wanted in zip(seen, expected, strict=True):
        assert torch.equal(found, wanted)


def test_only_some_layers_stop_earlier_and_norm_the_last():
    model = tiny()
    with torch.no_grad():
        states = model.model(IDS, attention_mask=MASK, output_hidden_states=True).hidden_states
    seen = collect(model, layers=2)
    assert torch.equal(seen[1][1], model.model.norm(states[1]))
    assert len(seen) == 2


def test_the_last_block_is_not_computed():
    model = tiny()
    ran = []
    for i, block in enumerate(model.model.layers):
        block.mlp.register_forward_hook(lambda *_, i=i: ran.append(i))
    collect(model)
    assert ran == [0, 1, 2]


def test_features_of_one_layer_at_a_time_are_alive():
    refs, alive = [], []

    def visit(_, x):
        alive.append(sum(ref() is not None for ref in refs))
        refs.append(weakref.ref(x))

    stream_features(Modules(tiny(layers=12)), IDS, MASK, visit)
    assert max(alive) <= 1
    assert not any(ref() is not None for ref in refs)


def test_the_model_is_left_bit_identical():
    model = tiny()
    before = model(IDS, attention_mask=MASK).logits
    collect(model)
    assert torch.equal(model(IDS, attention_mask=MASK).logits, before)


def test_nothing_is_visited_after_an_exception_in_the_visitor():
    model = tiny()
    before, seen = model(IDS, attention_mask=MASK).logits, []

    def fail(layer, _):
        seen.append(layer)
        if layer == 1:
            raise RuntimeError("visitor failed")

    with pytest.raises(RuntimeError, match="visitor failed"):
        stream_features(Modules(model), IDS, MASK, fail)
    assert torch.equal(model(IDS, attention_mask=MASK).logits, before)
    assert seen == [0, 1]


def test_models_that_cannot_be_read_are_refused():
    with pytest.raises(ModelError, match="has 4 blocks"):
        collect(tiny(), layers=5)
