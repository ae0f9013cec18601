"""From the contents of a reference checkpoint to a `D2LConfig` and the network's own tensors.

Every size is read off the tensors and held against the options; an option that this package does not
support is refused by name. Every tensor is used, listed as unused with a known reason, or named in an
error: none is dropped silently.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from plume_memory.errors import CheckpointError
from plume_memory.hypernet.d2l.config import D2LConfig, LayerKind, ModuleShape
from plume_memory.hypernet.d2l.options import Options, read_options

_PERCEIVER = "aggregator.perceiver"
_HEAD_SIZE = 128
"""Head size of the reference; the numbers of heads follow from the projections' widths."""
_LAYER_NORMS = (
    "input_latents_layernorm",
    "post_attention_layernorm",
    "pre_ff_layernorm",
    "post_ff_layernorm",
)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A checkpoint, understood."""

    config: D2LConfig
    tensors: dict[str, Tensor]
    """State dict of `D2LNetwork(config)`."""
    unused: tuple[str, ...]
    """Tensors that the reference stores and never reads."""
    base_model: str
    encoder_last_layer: int | None
    """The reference's `ctx_encoder_last_layer`; None: all blocks but the last."""


@dataclass(frozen=True, slots=True)
class _Stack:
    kinds: tuple[LayerKind, ...]
    order: tuple[int, ...]


class _Taker:
    """Tensors by name, each taken once, with its shape checked; knows what was left."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.left = dict(tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self.left:
            raise CheckpointError(f"The checkpoint has no tensor {name!r}.")
        return tuple(self.left[name].shape)

    def take(self, name: str, shape: tuple[int, ...], option: str) -> Tensor:
        found = self.shape(name)
        if found != shape:
            raise CheckpointError(f"Tensor {name!r} has shape {found}; {option} demands {shape}.")
        return self.left.pop(name)

    def count(self, prefix: str) -> int:
        """Number of list entries `{prefix}.0 … {prefix}.n`."""
        stems = {name[len(prefix) + 1 :].partition(".")[0] for name in self.left if name.startswith(f"{prefix}.")}
        numbers = sorted(int(stem) for stem in stems if stem.isdecimal())
        if numbers != list(range(len(numbers))):
            raise CheckpointError(f"The checkpoint's {prefix} are numbered {numbers}; some are missing.")
        return len(numbers)


def draw_blueprint(content: Mapping[str, Any]) -> Blueprint:
    """Understand what `read_checkpoint` returned.

    Raises:
        CheckpointError: an option or a tensor that is not supported, missing or contradictory, by name.
    """
    plain: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    for key, value in content.items():
        name = key.replace("_orig_mod.", "")  # torch.compile's wrapper
        if name in tensors or name in plain:
            raise CheckpointError(f"The checkpoint has {name!r} twice, with and without `_orig_mod.`.")
        (tensors if isinstance(value, Tensor) else plain)[name] = value
    options = read_options(plain)
    wrong = [name for name, tensor in tensors.items() if not tensor.is_floating_point()]
    if wrong:
        raise CheckpointError(f"Weights must be floating point; these are not: {', '.join(wrong)}.")
    taker = _Taker(tensors)
    taken: dict[str, Tensor] = {}
    sizes = _perceiver_sizes(taker, options, taken)
    sizes |= _head_sizes(taker, options, taken)
    unused = _take_bias(taker, options, sizes["modules"], taken)
    if taker.left:
        raise CheckpointError(
            f"The checkpoint has {len(taker.left)} tensors this package does not know: {', '.join(sorted(taker.left))}."
        )
    config = D2LConfig(
        rank=options.rank,
        lora_alpha=options.lora_alpha,
        layers=options.layers,
        use_bias=options.use_bias,
        **sizes,
    )
    return Blueprint(config, taken, unused, options.base_model, options.encoder_last_layer)


def _perceiver_sizes(taker: _Taker, options: Options, taken: dict[str, Tensor]) -> dict[str, Any]:
    """Take the perceiver's tensors; its own names are the reference's."""
    queries, latent = _two(taker, f"{_PERCEIVER}.encoder.latents_q")
    inner, hidden = _two(taker, f"{_PERCEIVER}.modality_projection.gate_proj.weight")
    first = f"{_PERCEIVER}.encoder.layers.0"
    q_width, k_width = (_two(taker, f"{first}.self_attn.{p}_proj.weight")[0] for p in "qk")
    mlp_size = _two(taker, f"{first}.mlp.gate_proj.weight")[0]
    heads, kv_heads, head_size = _head_counts(q_width, k_width)
    options.require("latent_size", latent)
    options.require("output_size", latent)
    options.require("feature_size", hidden)
    options.require("n_latent_queries", queries)
    _take_mlp(taker, "modality_projection", (hidden, inner, latent), taken)
    outputs = options.rank * len(options.module_names)
    stacks: dict[str, _Stack] = {}
    for side, rows, option in (
        ("encoder", queries, "n_latent_queries"),
        ("decoder", outputs, "r × target modules (per_rank_gen)"),
    ):
        name = f"{_PERCEIVER}.{side}"
        taken[f"perceiver.{side}.latents_q"] = taker.take(f"{name}.latents_q", (rows, latent), option)
        taken[f"perceiver.{side}.layernorm.weight"] = taker.take(f"{name}.layernorm.weight", (latent,), "latent_size")
        stacks[side] = _take_stack(taker, side, (latent, q_width, k_width, mlp_size), taken)
    _require_pattern(stacks["encoder"], options)
    return {
        "hidden_size": hidden,
        "latent_size": latent,
        "latent_queries": queries,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_size": head_size,
        "projection_size": inner,
        "mlp_size": mlp_size,
        "encoder_layers": stacks["encoder"].kinds,
        "encoder_order": stacks["encoder"].order,
        "decoder_layers": stacks["decoder"].kinds,
        "decoder_order": stacks["decoder"].order,
    }


def _take_stack(taker: _Taker, side: str, widths: tuple[int, int, int, int], taken: dict[str, Tensor]) -> _Stack:
    """Take a resampler's layers; layers with the same weights are stored once (`shared_weights`)."""
    latent, q_width, k_width, mlp_size = widths
    distinct: list[dict[str, Tensor]] = []
    kinds: list[LayerKind] = []
    order: list[int] = []
    for number in range(taker.count(f"{_PERCEIVER}.{side}.layers")):
        stem = f"{_PERCEIVER}.{side}.layers.{number}"
        cross = f"{stem}.input_context_layernorm.weight" in taker.left
        shapes: dict[str, tuple[int, ...]] = {f"{norm}.weight": (latent,) for norm in _LAYER_NORMS}
        if cross:
            shapes["input_context_layernorm.weight"] = (latent,)
        shapes |= {
            "self_attn.q_proj.weight": (q_width, latent),
            "self_attn.k_proj.weight": (k_width, latent),
            "self_attn.v_proj.weight": (k_width, latent),
            "self_attn.o_proj.weight": (latent, q_width),
            "mlp.gate_proj.weight": (mlp_size, latent),
            "mlp.up_proj.weight": (mlp_size, latent),
            "mlp.down_proj.weight": (latent, mlp_size),
        }
        layer = {leaf: taker.take(f"{stem}.{leaf}", shape, "latent_size") for leaf, shape in shapes.items()}
        same = (i for i, known in enumerate(distinct) if _equal(known, layer))
        index = next(same, len(distinct))
        if index == len(distinct):
            distinct.append(layer)
            kinds.append("cross" if cross else "self")
        order.append(index)
    if not order:
        raise CheckpointError(f"The checkpoint's {side} has no layers; num_blocks must be at least 1.")
    for index, layer in enumerate(distinct):
        taken |= {f"perceiver.{side}.layers.{index}.{leaf}": tensor for leaf, tensor in layer.items()}
    return _Stack(tuple(kinds), tuple(order))


def _require_pattern(stack: _Stack, options: Options) -> None:
    """Hold the encoder's layers against num_blocks, num_self_attn_per_block and shared_weights."""
    found = tuple(stack.kinds[index] for index in stack.order)
    expected = ("cross", *("self",) * options.self_layers_per_block) * options.blocks
    if found != expected:
        raise CheckpointError(
            f"The encoder's layers are {found}; num_blocks={options.blocks} and "
            f"num_self_attn_per_block={options.self_layers_per_block} demand {expected}."
        )
    per_block = 1 + options.self_layers_per_block
    shared = [min(number, per_block) if number % per_block == 0 else number % per_block for number in range(len(found))]
    if options.shared_weights and any(stack.order[n] != stack.order[first] for n, first in enumerate(shared)):
        raise CheckpointError("shared_weights is set, but the encoder's blocks do not share their weights.")


def _head_sizes(taker: _Taker, options: Options, taken: dict[str, Tensor]) -> dict[str, Any]:
    """Take residual blocks, head and scalers; they get names of our own."""
    L, M, r = len(options.layers), len(options.module_names), options.rank
    latent = options.latent_size
    modules = tuple(ModuleShape(name=n, path=p, d_in=i, d_out=o) for n, p, i, o in options.module_sizes)
    width = max(shape.d_in + shape.d_out for shape in modules)
    # the reference leaves the module axis out when there is one module
    stored = (L, latent, width) if M == 1 else (L, M, latent, width)
    head = taker.take("head.weight", stored, "feature_sizes (L, d, d_in + d_out)")
    taken["heads.head"] = head.reshape(L, M, latent, width)
    for shape in modules:
        for letter in "AB":
            scaler = taker.take(f"scaler_{letter}.{shape.name}", (1, L, r, 1), "r")
            taken[f"heads.scaler_{letter}.{shape.name}"] = scaler
    blocks = taker.count("layers")
    options.require("num_pre_head_layers", blocks)
    per_layer = options.per_layer_processing
    inner = 4 * latent
    for number in range(blocks):
        stem = f"layers.{number}"
        found_per_layer = f"{stem}.layers.1.weight" in taker.left
        if found_per_layer != per_layer:
            raise CheckpointError(f"per_layer_processing is {per_layer}, but not so the weights of {stem}.")
        if per_layer:
            inner = taker.shape(f"{stem}.layers.1.weight")[-1]
            block = _take_per_layer_block(taker, stem, (L, latent, inner))
        else:
            inner = taker.shape(f"{stem}.mlp.2.weight")[0]
            block = _take_shared_block(taker, stem, (latent, inner))
        taken |= {f"heads.pre_head.{number}.{leaf}": tensor for leaf, tensor in block.items()}
    return {
        "modules": modules,
        "pre_head_blocks": blocks,
        "pre_head_size": inner,
        "per_layer_pre_head": per_layer,
    }


def _take_per_layer_block(taker: _Taker, stem: str, sizes: tuple[int, int, int]) -> dict[str, Tensor]:
    """One residual block with weights [L, i, o] and biases [1, L, 1, 1, o]."""
    L, d, p = sizes
    option = "per_layer_processing"
    return _take_norms(taker, (f"{stem}.layers.0", f"{stem}.layers.4"), d) | {
        "weight_in": taker.take(f"{stem}.layers.1.weight", (L, d, p), option),
        "bias_in": taker.take(f"{stem}.layers.1.bias", (1, L, 1, 1, p), option).reshape(L, p),
        "weight_out": taker.take(f"{stem}.layers.3.weight", (L, p, d), option),
        "bias_out": taker.take(f"{stem}.layers.3.bias", (1, L, 1, 1, d), option).reshape(L, d),
    }


def _take_shared_block(taker: _Taker, stem: str, sizes: tuple[int, int]) -> dict[str, Tensor]:
    """One residual block with plain linear layers; entries 1 and 4 of its list are dropouts."""
    d, p = sizes
    option = "latent_size"
    return _take_norms(taker, (f"{stem}.mlp.0", f"{stem}.mlp.6"), d) | {
        "weight_in": taker.take(f"{stem}.mlp.2.weight", (p, d), option).T.unsqueeze(0),
        "bias_in": taker.take(f"{stem}.mlp.2.bias", (p,), option).unsqueeze(0),
        "weight_out": taker.take(f"{stem}.mlp.5.weight", (d, p), option).T.unsqueeze(0),
        "bias_out": taker.take(f"{stem}.mlp.5.bias", (d,), option).unsqueeze(0),
    }


def _take_norms(taker: _Taker, stems: tuple[str, str], d: int) -> dict[str, Tensor]:
    return {
        f"{ours}.{leaf}": taker.take(f"{stem}.{leaf}", (d,), "latent_size")
        for ours, stem in zip(("norm_in", "norm_out"), stems, strict=True)
        for leaf in ("weight", "bias")
    }


def _take_bias(
    taker: _Taker, options: Options, modules: tuple[ModuleShape, ...], taken: dict[str, Tensor]
) -> tuple[str, ...]:
    """Take the bias block. Without `use_bias` the reference stores one all the same, and never reads it."""
    unused: list[str] = []
    L, r = len(options.layers), options.rank
    for shape in modules:
        for letter, width in (("A", shape.d_in), ("B", shape.d_out)):
            name = f"bias_{letter}.{shape.name}"
            if not options.use_bias and name not in taker.left:
                continue
            option = "use_per_rank_bias" if options.use_per_rank_bias else "feature_sizes (L, r, width)"
            tensor = taker.take(name, (L, r, width), option)
            if options.use_bias:
                taken[name] = tensor
            else:
                unused.append(name)
    return tuple(unused)


def _take_mlp(taker: _Taker, name: str, sizes: tuple[int, int, int], taken: dict[str, Tensor]) -> None:
    d_in, inner, d_out = sizes
    for leaf, shape in (
        ("gate_proj", (inner, d_in)),
        ("up_proj", (inner, d_in)),
        ("down_proj", (d_out, inner)),
    ):
        stored = f"{_PERCEIVER}.{name}.{leaf}.weight"
        taken[f"perceiver.{name}.{leaf}.weight"] = taker.take(stored, shape, "feature_size, latent_size")


def _head_counts(q_width: int, k_width: int) -> tuple[int, int, int]:
    """Heads, key/value heads, head size: heads of 128 where they fit, else the reference's 16 and 4."""
    heads, kv_heads = q_width // _HEAD_SIZE, k_width // _HEAD_SIZE
    fit = (q_width, k_width) == (heads * _HEAD_SIZE, kv_heads * _HEAD_SIZE)
    if fit and kv_heads and heads % kv_heads == 0:
        return heads, kv_heads, _HEAD_SIZE
    if q_width % 16 == 0 and q_width == 4 * k_width:
        return 16, 4, q_width // 16
    raise CheckpointError(
        f"Attention of widths {q_width} (queries) and {k_width} (keys) is neither heads of {_HEAD_SIZE} nor "
        "16 heads over 4 key/value heads; it is not supported."
    )


def _two(taker: _Taker, name: str) -> tuple[int, int]:
    match taker.shape(name):
        case (first, second):
            return first, second
        case other:
            raise CheckpointError(f"Tensor {name!r} has shape {other}; expected two axes.")


def _equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[leaf], other[leaf]) for leaf in one)
