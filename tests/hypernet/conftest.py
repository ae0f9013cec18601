"""Where the golden fixtures are, and checkpoints in the reference's format for sizes they lack."""

import enum
import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch
from peft import LoraConfig
from torch import Tensor

GOLDEN = ("qwen3", "gemma2", "llama")
D_IN = {"down_proj": 24, "gate_proj": 16, "q_proj": 16}
D_OUT = {"down_proj": 16, "gate_proj": 24, "q_proj": 8}


def fixtures_root() -> Path:
    named = os.environ.get("PLUME_FIXTURES")
    return Path(named) if named else Path(__file__).parents[3] / "shared" / "fixtures" / "d2l"


@pytest.fixture(scope="session", params=GOLDEN)
def golden(request: pytest.FixtureRequest) -> Path:
    """Folder of one golden fixture; tests that ask for it run once for each of the three."""
    folder = fixtures_root() / request.param
    if not (folder / "expected.safetensors").is_file():
        pytest.skip(
            f"no golden fixture in {folder}: put the folders qwen3, gemma2, llama of the shared d2l fixtures "
            "somewhere and name it in $PLUME_FIXTURES"
        )
    return folder


@dataclass(frozen=True)
class Recipe:
    """Sizes and options of a checkpoint to be made."""

    latent: int = 8
    hidden: int = 16
    rank: int = 3
    queries: int = 5
    blocks: int = 2
    self_layers: int = 0
    shared: bool = False
    layers: int = 2
    modules: tuple[str, ...] = ("down_proj",)
    pre_head: int = 1
    per_layer: bool = True
    use_bias: bool = True
    q_width: int = 256
    k_width: int = 128
    compiled: bool = False
    enums: Literal["by value", "by name"] | None = None


@dataclass
class Reference:
    """A checkpoint as the reference would hold it in memory: tensors and configuration objects."""

    recipe: Recipe
    tensors: dict[str, Tensor]
    hypernet: dict[str, Any]
    aggregator: dict[str, Any]
    encoder: dict[str, Any]
    lora: Any

    def save(self, path: Path) -> Path:
        """Pickle with the reference's class names, which this process only pretends to have."""
        with pretended_modules(self.recipe.enums) as classes:
            aggregator = dict(self.aggregator)
            if self.recipe.enums:
                aggregator["aggregator_type"] = classes["AGGREGATOR_TYPE"](aggregator["aggregator_type"])
            hypernet = self.hypernet | {
                "aggregator_config": classes["AggregatorConfig"](aggregator),
                "lora_config": self.lora,
            }
            prefix = "_orig_mod." if self.recipe.compiled else ""
            content: dict[str, Any] = {prefix + name: tensor for name, tensor in self.tensors.items()}
            content["base_model_name_or_path"] = "base"
            content["hypernet_config"] = classes["HypernetConfig"](hypernet)
            content["ctx_encoder_args"] = classes["CtxEncoderArguments"](self.encoder)
            torch.save(content, path)
        return path


def _by_name(member: enum.Enum, protocol: int) -> Any:
    """As Python 3.11.0 to 3.11.3 pickle the member of an enum."""
    return getattr, (type(member), member.name)


def _by_value(member: enum.Enum, protocol: int) -> Any:
    """As every other Python does."""
    return type(member), (member.value,)


class pretended_modules:
    """Classes that pickle under the reference's names, for the length of a `with`."""

    HOMES: ClassVar = {
        "HypernetConfig": "ctx_to_lora.modeling.hypernet",
        "AggregatorConfig": "ctx_to_lora.modeling.aggregator",
        "AGGREGATOR_TYPE": "ctx_to_lora.modeling.aggregator",
        "CtxEncoderArguments": "ctx_to_lora.configs",
    }

    def __init__(self, enums: str | None) -> None:
        self.enums = enums

    def __enter__(self) -> dict[str, Any]:
        self.added = ["ctx_to_lora", "ctx_to_lora.modeling", *sorted(set(self.HOMES.values()))]
        for name in self.added:
            sys.modules[name] = types.ModuleType(name)
        classes: dict[str, Any] = {}
        for name, home in self.HOMES.items():
            made: Any = type(name, (), {"__init__": lambda self, state: self.__dict__.update(state)})
            if name == "AGGREGATOR_TYPE":
                made = enum.Enum(name, {"PERCEIVER": "perceiver", "POOLER": "pooler"}, type=str)
                made.__reduce_ex__ = _by_name if self.enums == "by name" else _by_value
            made.__module__ = home
            setattr(sys.modules[home], name, made)
            classes[name] = made
        return classes

    def __exit__(self, *_: object) -> None:
        for name in self.added:
            del sys.modules[name]


def make_reference(recipe: Recipe = Recipe(), seed: int = 0) -> Reference:
    gen = torch.Generator().manual_seed(seed)
    tensors: dict[str, Tensor] = {}

    def put(name: str, *shape: int) -> None:
        tensors[name] = torch.randn(*shape, generator=gen) * 0.3

    d, D, L, r = recipe.latent, recipe.hidden, recipe.layers, recipe.rank
    names = sorted(recipe.modules)
    for leaf, shape in (("gate_proj", (4 * D, D)), ("up_proj", (4 * D, D)), ("down_proj", (d, 4 * D))):
        put(f"aggregator.perceiver.modality_projection.{leaf}.weight", *shape)
    put("aggregator.perceiver.encoder.latents_q", recipe.queries, d)
    put("aggregator.perceiver.encoder.layernorm.weight", d)
    put("aggregator.perceiver.decoder.latents_q", r * len(names), d)
    put("aggregator.perceiver.decoder.layernorm.weight", d)
    kinds = (["cross"] + ["self"] * recipe.self_layers) * recipe.blocks
    for i, kind in enumerate(kinds):
        _put_layer(put, f"aggregator.perceiver.encoder.layers.{i}", kind, recipe)
    if recipe.shared:
        per_block = 1 + recipe.self_layers
        for name in list(tensors):
            head, _, rest = name.partition("encoder.layers.")
            number, _, leaf = rest.partition(".")
            if rest and int(number) > per_block:
                source = int(number) % per_block or per_block
                tensors[name] = tensors[f"{head}encoder.layers.{source}.{leaf}"]
    _put_layer(put, "aggregator.perceiver.decoder.layers.0", "cross", recipe)
    for i in range(recipe.pre_head):
        if recipe.per_layer:
            for leaf, shape in (("1.weight", (L, d, 4 * d)), ("1.bias", (1, L, 1, 1, 4 * d))):
                put(f"layers.{i}.layers.{leaf}", *shape)
            for leaf, shape in (("3.weight", (L, 4 * d, d)), ("3.bias", (1, L, 1, 1, d))):
                put(f"layers.{i}.layers.{leaf}", *shape)
            norms = ("layers.0", "layers.4")
        else:
            for leaf, shape in (
                ("2.weight", (4 * d, d)),
                ("2.bias", (4 * d,)),
                ("5.weight", (d, 4 * d)),
                ("5.bias", (d,)),
            ):
                put(f"layers.{i}.mlp.{leaf}", *shape)
            norms = ("mlp.0", "mlp.6")
        for norm in norms:
            put(f"layers.{i}.{norm}.weight", d)
            put(f"layers.{i}.{norm}.bias", d)
    width = max(D_IN[m] + D_OUT[m] for m in names)
    put("head.weight", *((L, d, width) if len(names) == 1 else (L, len(names), d, width)))
    for m in names:
        put(f"bias_A.{m}", L, r, D_IN[m])
        put(f"bias_B.{m}", L, r, D_OUT[m])
        put(f"scaler_A.{m}", 1, L, r, 1)
        put(f"scaler_B.{m}", 1, L, r, 1)
    return Reference(
        recipe,
        tensors,
        hypernet={
            "latent_size": d,
            "use_light_weight_lora": False,
            "light_weight_latent_size": 128,
            "per_rank_gen": True,
            "use_per_rank_bias": False,
            "use_bias": recipe.use_bias,
            "per_layer_processing": recipe.per_layer,
            "use_token_mixing": False,
            "num_pre_head_layers": recipe.pre_head,
            "dropout_rate": 0.0,
            "extra_modules": None,
            "base_hidden_size": D,
            "layer_indices": torch.arange(L),
            "feature_sizes": ({m: D_IN[m] for m in names}, {m: D_OUT[m] for m in names}),
        },
        aggregator={
            "aggregator_type": "perceiver",
            "num_layers": L,
            "num_modules": len(names),
            "num_extra_modules": 0,
            "output_size": d,
            "feature_size": D,
            "pooling_type": "mean",
            "num_latent_factor": 8,
            "lora_r": r,
            "per_rank_gen": True,
            "n_latent_queries": recipe.queries,
            "num_blocks": recipe.blocks,
            "num_self_attn_per_block": recipe.self_layers,
            "shared_weights": recipe.shared,
            "layer_to_layer_ctx_encoder": True,
        },
        encoder={
            "ctx_encoder_model_name_or_path": None,
            "ctx_encoder_type": "per_layer_activations",
            "layer_idx": None,
            "quantize_ctx_encoder": False,
            "ctx_encoder_last_layer": None,
        },
        lora=LoraConfig(r=r, lora_alpha=2 * r**1.5, target_modules=set(names), task_type="CAUSAL_LM"),
    )


def _put_layer(put: Callable[..., None], stem: str, kind: str, recipe: Recipe) -> None:
    d, q, k = recipe.latent, recipe.q_width, recipe.k_width
    norms = ["input_latents_layernorm", "post_attention_layernorm", "pre_ff_layernorm", "post_ff_layernorm"]
    for norm in norms + (["input_context_layernorm"] if kind == "cross" else []):
        put(f"{stem}.{norm}.weight", d)
    for leaf, shape in (("q", (q, d)), ("k", (k, d)), ("v", (k, d)), ("o", (d, q))):
        put(f"{stem}.self_attn.{leaf}_proj.weight", *shape)
    for leaf, shape in (("gate", (4 * d, d)), ("up", (4 * d, d)), ("down", (d, 4 * d))):
        put(f"{stem}.mlp.{leaf}_proj.weight", *shape)


@pytest.fixture(scope="session")
def recipe() -> type[Recipe]:
    return Recipe


@pytest.fixture(scope="session")
def reference() -> Callable[..., Reference]:
    return make_reference
