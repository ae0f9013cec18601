"""PEFT itself is the judge of the export: its logits equal those of the merged weights."""

import json

import pytest
import torch
import transformers as hf
from peft import PeftConfig, PeftModel

from plume_memory.lora.files import export_peft

SIZES = {
    "vocab_size": 61,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "pad_token_id": 0,
}
FAMILIES = {
    "llama": (hf.LlamaConfig, hf.LlamaForCausalLM),
    "qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM),
    "gemma2": (hf.Gemma2Config, hf.Gemma2ForCausalLM),
}
IDS = torch.tensor([[3, 14, 15, 9, 2, 6]])

# PEFT asks the model by a name that transformers 5.24 calls old
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")


def tiny(family):
    config, model = FAMILIES[family]
    torch.manual_seed(0)
    return model(config(**SIZES)).float().eval()


def merged_logits(model, factors):
    with torch.no_grad():
        for name in factors.modules:
            for layer in factors.layers:
                weight = model.get_submodule(f"model.layers.{layer}.{name}").weight
                weight += factors.delta(name, layer)
        return model(IDS).logits


def peft_logits(family, folder):
    adapted = PeftModel.from_pretrained(tiny(family), str(folder)).eval()
    with torch.no_grad():
        return adapted(IDS).logits


@pytest.mark.parametrize("layers", [(0, 1, 2), (0, 2), (1,)])
@pytest.mark.parametrize("family", FAMILIES)
def test_peft_gives_the_logits_of_the_merged_weights(make, tmp_path, family, layers):
    factors = make(1, rank=5, layers=layers, widths=(24, 16), scale=0.7, dtype=torch.float32)
    export_peft(factors, tmp_path / "adapter", base_model="tiny", base_fingerprint="f")
    base = tiny(family)(IDS).logits.detach()
    found = peft_logits(family, tmp_path / "adapter")
    torch.testing.assert_close(found, merged_logits(tiny(family), factors), rtol=1e-4, atol=1e-4)
    assert (found - base).abs().max() > 0.01


def test_exporting_again_replaces_the_adapter(make, tmp_path):
    for seed in (1, 2):
        factors = make(seed, rank=seed, widths=(24, 16), dtype=torch.float32)
        export_peft(factors, tmp_path, base_model="tiny", base_fingerprint="f")
    torch.testing.assert_close(
        peft_logits("llama", tmp_path), merged_logits(tiny("llama"), factors), rtol=1e-4, atol=1e-4
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]


def test_scale_is_folded_so_that_alpha_over_r_is_one(make, tmp_path):
    export_peft(make(0, scale=45.25), tmp_path, base_model="tiny", base_fingerprint="f")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["lora_alpha"] == config["r"] == 3


def test_the_base_models_revision_is_named(make, tmp_path):
    export_peft(make(0), tmp_path, base_model="owner/name", base_fingerprint="f", revision="5d4c1f")
    found = PeftConfig.from_pretrained(str(tmp_path))
    assert (found.base_model_name_or_path, found.revision) == ("owner/name", "5d4c1f")
