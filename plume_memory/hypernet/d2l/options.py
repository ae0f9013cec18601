"""The options of a reference checkpoint: read from its configuration objects, refused where unsupported.

Knows the names the reference gave its options and the defaults of the ones older checkpoints lack; knows
nothing of tensors but `layer_indices`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from plume_memory.errors import CheckpointError
from plume_memory.hypernet.d2l.pickle_reader import Stub

_ENTRIES = ("base_model_name_or_path", "hypernet_config", "ctx_encoder_args")
_PATHS = {
    "down_proj": "mlp.down_proj",
    "gate_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "o_proj": "self_attn.o_proj",
}
# Options that change what the network computes in ways this package does not: (object, option, what is read).
_UNSUPPORTED: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("hypernet", "use_light_weight_lora", (False, None)),
    ("hypernet", "use_token_mixing", (False, None)),
    ("hypernet", "per_rank_gen", (True, None)),
    ("hypernet", "extra_modules", (None, [], ())),
    ("aggregator", "aggregator_type", ("perceiver",)),
    ("aggregator", "num_extra_modules", (0, None)),
    ("aggregator", "per_rank_gen", (True, None)),
    ("aggregator", "layer_to_layer_ctx_encoder", (True, None)),
    ("lora", "use_dora", (False, None)),
    ("lora", "lora_bias", (False, None)),
    ("lora", "bias", ("none", None)),
    ("lora", "rank_pattern", ({}, None)),
    ("lora", "alpha_pattern", ({}, None)),
    ("lora", "layer_replication", (None, [])),
    ("encoder", "ctx_encoder_type", ("per_layer_activations",)),
)
# Every option this package knows. One that is not here is refused when it is switched on.
_KNOWN = {
    "hypernet": "latent_size use_light_weight_lora light_weight_latent_size per_rank_gen use_per_rank_bias "
    "use_bias per_layer_processing use_token_mixing num_pre_head_layers dropout_rate lora_config "
    "extra_modules base_hidden_size layer_indices feature_sizes aggregator_config",
    "aggregator": "aggregator_type num_layers num_modules num_extra_modules output_size feature_size "
    "pooling_type num_latent_factor lora_r per_rank_gen n_latent_queries num_blocks "
    "num_self_attn_per_block shared_weights layer_to_layer_ctx_encoder",
    "encoder": "ctx_encoder_model_name_or_path ctx_encoder_type layer_idx quantize_ctx_encoder ctx_encoder_last_layer",
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options this package acts on."""

    base_model: str
    latent_size: int
    rank: int
    lora_alpha: float
    layers: tuple[int, ...]
    module_sizes: tuple[tuple[str, str, int, int], ...]
    """(name, path in a decoder layer, d_in, d_out), in the reference's order: sorted by name."""
    blocks: int
    self_layers_per_block: int
    shared_weights: bool
    per_layer_processing: bool
    use_bias: bool
    use_per_rank_bias: bool
    encoder_last_layer: int | None
    sizes: Mapping[str, int | None]
    """Sizes the options state that the tensors state too; None where an older checkpoint does not."""

    @property
    def module_names(self) -> tuple[str, ...]:
        """Names of the target modules, sorted."""
        return tuple(name for name, _, _, _ in self.module_sizes)

    def require(self, option: str, found: int) -> None:
        """Hold what the tensors say against what an option says."""
        stated = self.sizes[option]
        if stated is not None and stated != found:
            raise CheckpointError(f"The checkpoint's option {option} is {stated}, but its tensors say {found}.")


def read_options(plain: Mapping[str, Any]) -> Options:
    """Read a checkpoint's entries that are no tensors.

    Raises:
        CheckpointError: an entry or option is missing, of the wrong kind, contradictory or unsupported.
    """
    unknown = sorted(plain.keys() - set(_ENTRIES))
    missing = sorted(set(_ENTRIES) - plain.keys())
    if unknown or missing:
        raise CheckpointError(f"Not a Doc-to-LoRA checkpoint: entries {unknown} unknown, {missing} missing.")
    hypernet = _state(plain, "hypernet_config")
    groups = {
        "hypernet": hypernet,
        "aggregator": _state(hypernet, "aggregator_config"),
        "lora": _state(hypernet, "lora_config"),
        "encoder": _state(plain, "ctx_encoder_args"),
    }
    base_model = plain["base_model_name_or_path"]
    if not isinstance(base_model, str):
        raise CheckpointError(f"base_model_name_or_path is a {type(base_model).__name__}; expected a name.")
    _refuse_unsupported(groups, base_model)
    options = _options(groups, base_model)
    _refuse_contradictions(groups, options)
    return options


def _options(groups: Mapping[str, Mapping[str, Any]], base_model: str) -> Options:
    hypernet, aggregator, lora, encoder = (groups[k] for k in ("hypernet", "aggregator", "lora", "encoder"))
    modules = _module_sizes(hypernet, lora)
    latent = _whole(hypernet, "latent_size")
    return Options(
        base_model=base_model,
        latent_size=latent,
        rank=_whole(lora, "r"),
        lora_alpha=_number(lora, "lora_alpha"),
        layers=_layers(hypernet),
        module_sizes=modules,
        blocks=_whole(aggregator, "num_blocks"),
        self_layers_per_block=_whole(aggregator, "num_self_attn_per_block", 0),
        shared_weights=_flag(aggregator, "shared_weights", False),
        per_layer_processing=_flag(hypernet, "per_layer_processing", False),
        use_bias=_flag(hypernet, "use_bias", True),
        use_per_rank_bias=_flag(hypernet, "use_per_rank_bias", False),
        encoder_last_layer=_optional(encoder, "ctx_encoder_last_layer"),
        sizes={
            "latent_size": latent,
            "num_pre_head_layers": _whole(hypernet, "num_pre_head_layers", 4),
            "output_size": _optional(aggregator, "output_size"),
            "feature_size": _optional(aggregator, "feature_size"),
            "n_latent_queries": _optional(aggregator, "n_latent_queries"),
        },
    )


def _refuse_unsupported(groups: Mapping[str, Mapping[str, Any]], base_model: str) -> None:
    for group, option, supported in _UNSUPPORTED:
        value = _plain(groups[group].get(option, supported[0]))
        if value not in supported:
            raise CheckpointError(f"Option {option}={value!r} is not supported; only {supported[0]!r} is.")
    own = groups["encoder"].get("ctx_encoder_model_name_or_path")
    if own not in (None, base_model):
        raise CheckpointError(
            f"Option ctx_encoder_model_name_or_path={own!r} is not supported: the context encoder must be "
            f"the base model, {base_model!r}."
        )
    for group, known in _KNOWN.items():
        for option, value in groups[group].items():
            # truth of a tensor or stub is no test: only plain "off" values pass
            if option not in known.split() and _plain(value) not in (None, False, 0, "", (), [], {}):
                raise CheckpointError(f"Option {option}={_plain(value)!r} of the {group} configuration is unknown.")


def _refuse_contradictions(groups: Mapping[str, Mapping[str, Any]], options: Options) -> None:
    aggregator, hypernet = groups["aggregator"], groups["hypernet"]
    for group, option, expected in (
        (aggregator, "num_modules", len(options.module_sizes)),
        (aggregator, "num_layers", len(options.layers)),
        (aggregator, "lora_r", options.rank),
        (hypernet, "base_hidden_size", options.sizes["feature_size"]),
    ):
        value = _optional(group, option)
        if value is not None and expected is not None and value != expected:
            raise CheckpointError(f"Option {option}={value} contradicts the rest of the checkpoint: {expected}.")
    last = options.encoder_last_layer
    if last is not None and last != len(options.layers):
        raise CheckpointError(
            f"Option ctx_encoder_last_layer={last} is not supported with {len(options.layers)} adapted "
            "layers: every adapted layer needs features of its own."
        )


def _module_sizes(hypernet: Mapping[str, Any], lora: Mapping[str, Any]) -> tuple[tuple[str, str, int, int], ...]:
    targets = lora.get("target_modules")
    names = sorted(targets) if isinstance(targets, set | list | tuple) else []
    if not names:
        raise CheckpointError(f"Option target_modules={targets!r} is not supported; expected a set of names.")
    match hypernet.get("feature_sizes"):
        case (dict() as d_in, dict() as d_out):
            pass
        case other:
            raise CheckpointError(f"Option feature_sizes={other!r} is not a pair of name → width.")
    unknown = [name for name in names if name not in _PATHS]
    if unknown:
        raise CheckpointError(f"Option target_modules names {unknown}; known are {', '.join(sorted(_PATHS))}.")
    return tuple((name, _PATHS[name], _whole(d_in, name), _whole(d_out, name)) for name in names)


def _layers(hypernet: Mapping[str, Any]) -> tuple[int, ...]:
    value = hypernet.get("layer_indices")
    listed = value.tolist() if isinstance(value, Tensor) else value
    if not isinstance(listed, list | tuple) or not listed or not all(type(n) is int for n in listed):
        raise CheckpointError(f"Option layer_indices={listed!r} is not a list of layer numbers.")
    if list(listed) != sorted(set(listed)) or listed[0] < 0:
        raise CheckpointError(f"Option layer_indices={listed!r} is not ascending.")
    return tuple(listed)


def _state(owner: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = owner.get(name)
    if not isinstance(value, Stub):
        raise CheckpointError(f"The checkpoint has no {name}, or one of kind {type(value).__name__}.")
    return value.state


def _plain(value: Any) -> Any:
    """An enum member is a stub around its value; a string enum may be stored as the string itself."""
    if isinstance(value, Stub) and len(value.arguments) == 1 and not value.state:
        return value.arguments[0]
    return repr(value) if isinstance(value, Tensor) else value


def _whole(owner: Mapping[str, Any], option: str, default: int | None = None) -> int:
    value = owner.get(option, default)
    if type(value) is not int or value < 0:
        raise CheckpointError(f"Option {option}={value!r} is missing or no whole number.")
    return value


def _optional(owner: Mapping[str, Any], option: str) -> int | None:
    return None if owner.get(option) is None else _whole(owner, option)


def _number(owner: Mapping[str, Any], option: str) -> float:
    value = owner.get(option)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CheckpointError(f"Option {option}={value!r} is missing or no number.")
    return float(value)


def _flag(owner: Mapping[str, Any], option: str, default: bool) -> bool:
    value = owner.get(option, default)
    if not isinstance(value, bool):
        raise CheckpointError(f"Option {option}={value!r} is neither true nor false.")
    return value
