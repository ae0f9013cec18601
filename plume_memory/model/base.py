"""The frozen base model on a device, with its tokenizer, its frame and its fingerprint."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from plume_memory.errors import InvalidInput, ModelError, UnknownArchitecture
from plume_memory.forks import ModelLock
from plume_memory.model.hub import LoadedByOthers, content_fingerprint, fetch, loaded_by_others
from plume_memory.model.key_values import Passes
from plume_memory.model.linear import WeightFormat
from plume_memory.model.modules import Modules
from plume_memory.model.prompt import ChatFormat
from plume_memory.model.transformer import Transformer
from plume_memory.model.weights import has_fixed_turns, plain_weights, read_weights

SUPPORTED_FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma2")
"""Families whose decoder layers sit at `.model.layers` with an `mlp.down_proj`, tried by our tests or D2L."""

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, eq=False)
class BaseModel:
    """A causal language model that never changes. Shared by every memory of an engine."""

    config: Any
    """By Hugging Face's names of its values."""
    tokenizer: Any
    name: str
    fingerprint: str
    """sha256 of config, weights, tokenizer and chat template; part of every derived artifact's key."""
    chat: ChatFormat
    stop_ids: frozenset[int]
    """Ids that end an answer: end of text, and end of turn where the tokenizer names one."""
    dtype: torch.dtype
    """Of the weights."""
    device: torch.device
    """Where the weights are."""
    load_model: Callable[[], Any] = field(repr=False)
    """Gives Hugging Face's modules, for training and for models that need them; answering does without."""
    load_weights: Callable[[], Mapping[str, torch.Tensor] | None] = field(repr=False)
    """Gives the tensors of plain linear layers by name; None where `model` is made of others."""
    loaded_by_others: LoadedByOthers | None = None
    """What other programs load the same weights by; None where it was wrapped."""
    weight_format: WeightFormat = "full"
    """How its forward pass keeps the weights of linear layers."""
    lock: ModelLock = field(default_factory=ModelLock, repr=False)
    """Held for one forward pass at a time."""

    @classmethod
    def load(
        cls,
        name: str,
        *,
        device: str | None = None,
        dtype: str | None = None,
        weights: WeightFormat = "full",
        cache: Path | None = None,
    ) -> "BaseModel":
        """Load a model by name, folder or Hugging Face id.

        Args:
            name: see `model.hub.fetch`.
            device: "cpu", "cuda", "cuda:1", …; CUDA where there is one when not given.
            dtype: "float32", "bfloat16" or "float16"; when not given bfloat16 where the device
                multiplies it natively, else float32.
            weights: "int8" keeps those of linear layers as eight-bit numbers: a quarter of float32's bytes, and less
                time for a token, for rounded answers. On a CPU alone.
            cache: folder of prepared models.

        Raises:
            ModelError: its subclasses name what is wrong with the model or the hub.
            InvalidInput: unknown device or dtype, or int8 on another device than a CPU.
        """
        folder = fetch(name, cache=cache)
        on = _device(device)
        config = _config(folder, name)
        fingerprint = content_fingerprint(folder)  # also refuses a folder without safetensors, before any is read
        _check_format(weights, on)
        kind = _dtype(dtype, on)
        tokenizer = _tokenizer(folder, name)
        made = cls(
            config=config,
            tokenizer=tokenizer,
            name=name,
            fingerprint=_with_reading(fingerprint, tokenizer, *(() if weights == "full" else (weights,))),
            chat=ChatFormat.of(tokenizer, name),
            stop_ids=_stop_ids(_ends(folder, config), tokenizer),
            dtype=kind,
            device=on,
            load_model=partial(_load_model, folder, name, config, kind, on),
            load_weights=partial(read_weights, folder, name),
            loaded_by_others=loaded_by_others(name, folder),
            weight_format=weights,
        )
        _ = made.passes  # so that weights which do not fit are told now
        return made

    @classmethod
    def wrap(cls, model: Any, tokenizer: Any, *, name: str, fingerprint: str) -> "BaseModel":
        """Take a loaded Hugging Face model and tokenizer as they are.

        Raises:
            UnknownArchitecture: not one of `SUPPORTED_FAMILIES`.
            MissingChatTemplate: the tokenizer has none.
        """
        family = model.config.model_type
        if family not in SUPPORTED_FAMILIES:
            raise UnknownArchitecture(f"{name!r} is a {family!r} model; supported are {', '.join(SUPPORTED_FAMILIES)}.")
        model.eval().requires_grad_(False)
        parameter = next(iter(model.parameters()))
        return cls(
            config=model.config,
            tokenizer=tokenizer,
            name=name,
            fingerprint=fingerprint,
            chat=ChatFormat.of(tokenizer, name),
            stop_ids=_stop_ids(model.generation_config.eos_token_id, tokenizer),
            dtype=parameter.dtype,
            device=parameter.device,
            load_model=lambda: model,
            load_weights=partial(plain_weights, model),
        )

    @cached_property
    def model(self) -> Any:
        """Hugging Face `*ForCausalLM` in eval mode; no parameter requires a gradient. Loaded when first asked for."""
        return self.load_model()

    @cached_property
    def passes(self) -> Passes:
        """Its forward pass. Made from the weights as they are when it is first asked for."""
        weights = self.load_weights() if has_fixed_turns(self.config) else None
        if weights is None and self.weight_format != "full":
            raise ModelError(f"The layers of {self.name!r} are not of a kind that can be kept in int8; leave it out.")
        if weights is None:
            return Modules(self.model)
        return Transformer.of(
            self.config, weights, dtype=self.dtype, device=self.device, weight_format=self.weight_format
        )

    @property
    def context_window(self) -> int:
        """Most tokens the model was made for, prompt and answer together."""
        return int(self.config.max_position_embeddings)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Next-token logits [..., vocabulary] of final hidden states [..., width]; with gradients."""
        return Modules(self.model).logits(hidden)


def forward(
    module: Any,
    cache: Any,
    *,
    ids: torch.Tensor | None = None,
    mask: torch.Tensor | dict[str, torch.Tensor] | None = None,
    positions: torch.Tensor | None = None,
    embeddings: torch.Tensor | None = None,
) -> Any:
    """One pass of a `*ForCausalLM`, or of the decoder inside it, that reads the cache and adds to it.

    By position: releases of transformers 5 disagree on the cache's name (`past_key_values`, `cache` since 5.24),
    all of them agree on the order.
    """
    return module(ids, mask, positions, cache, embeddings, use_cache=True)


def _stop_ids(ends: int | list[int] | None, tokenizer: Any) -> frozenset[int]:
    named = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|endoftext|>"} & set(tokenizer.get_vocab())
    ids = set(tokenizer.convert_tokens_to_ids(sorted(named)))
    for source in (tokenizer.eos_token_id, ends):
        ids.update(source if isinstance(source, list) else [source])
    return frozenset(i for i in ids if isinstance(i, int))


def _ends(folder: Path, config: Any) -> int | list[int] | None:
    """Ids that end a text, by the folder's generation config where there is one."""
    found: int | list[int] | None = _said(folder, "generation_config.json").get("eos_token_id", config.eos_token_id)
    return found


def _with_reading(weights: str, tokenizer: Any, *rounded: str) -> str:
    """Add how the model reads a text (a changed tokenizer or template makes other ids of it) and how it is rounded."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    reading = backend.to_str() if backend is not None else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    parts = [weights, reading, str(getattr(tokenizer, "chat_template", None)), *rounded]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


_SAID = {
    "hidden_size": int,
    "intermediate_size": int,
    "num_hidden_layers": int,
    "num_attention_heads": int,
    "num_key_value_heads": int,
    "head_dim": int,
    "vocab_size": int,
    "max_position_embeddings": int,
    "rms_norm_eps": float,
    "hidden_act": str,
    "rope_parameters": dict,
    "tie_word_embeddings": bool,
    "eos_token_id": int,
}
"""What a config must say itself to be taken as it is."""


def _config(folder: Path, name: str) -> Any:
    """A folder's config: as its file says where that is whole, else with Hugging Face's defaults.

    Their class alone takes a second to import.
    """
    told = _said(folder)
    is_whole = all(type(told.get(key)) is kind for key, kind in _SAID.items())
    if told.get("model_type") == "llama" and is_whole and told["rope_parameters"].get("rope_type") == "default":
        return SimpleNamespace(**told)
    from transformers import AutoConfig  # noqa: PLC0415 — as above

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, StrictDataclassError) as err:
        raise UnknownArchitecture(
            f"transformers does not know the architecture of {name!r}, or cannot read its config: {err}"
        ) from err
    if config.model_type not in SUPPORTED_FAMILIES:
        raise UnknownArchitecture(
            f"{name!r} is a {config.model_type!r} model; supported are {', '.join(SUPPORTED_FAMILIES)}."
        )
    return config


def _said(folder: Path, file: str = "config.json") -> dict[str, Any]:
    """What a JSON file of a model folder says; nothing where it is no object: who reads it next says so."""
    try:
        told = json.loads((folder / file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _tokenizer(folder: Path, name: str) -> Any:
    try:
        if _said(folder, "tokenizer_config.json").get("tokenizer_class") in _PLAIN_TOKENIZERS:
            from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 — slow; `plume --help` must not pay it

            return PreTrainedTokenizerFast.from_pretrained(folder)
        from transformers import AutoTokenizer  # noqa: PLC0415 — slower: it imports what models are made of

        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise ModelError(f"The folder of {name!r} holds no tokenizer that transformers can read: {err}") from err


_PLAIN_TOKENIZERS = ("TokenizersBackend", "PreTrainedTokenizerFast")
"""Both names are of the class that reads tokenizer.json and adds nothing."""


def _load_model(folder: Path, name: str, config: Any, dtype: torch.dtype, device: torch.device) -> Any:
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 — as above
    from transformers.utils import logging as hf_logging  # noqa: PLC0415 — as above

    # Gemma-2 caps its attention logits; PyTorch's fused attention cannot, so it would compute another model.
    attention = "eager" if getattr(config, "attn_logit_softcapping", None) else "sdpa"
    hf_logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation=attention, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as err:
        raise ModelError(f"The weights of {name!r} in {folder} cannot be loaded: {err}") from err
    return model.to(device).eval().requires_grad_(False)


def _device(asked: str | None) -> torch.device:
    if asked is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(asked)
    except RuntimeError as err:
        raise InvalidInput(f"Unknown device {asked!r}; write cpu, cuda or cuda:N.") from err
    if device.type not in ("cpu", "cuda"):
        raise InvalidInput(f"Device {asked!r} is not supported; write cpu, cuda or cuda:N.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidInput(f"Device {asked!r} was asked for, but this PyTorch sees no CUDA device; use cpu.")
    return device


def _check_format(asked: str, device: torch.device) -> None:
    if asked not in get_args(WeightFormat):
        raise InvalidInput(f"Unknown weights {asked!r}; write one of {', '.join(get_args(WeightFormat))}.")
    if asked == "int8" and device.type != "cpu":
        raise InvalidInput(f"weights='int8' is for CPUs, the device is {device}; leave it out there.")


def _dtype(asked: str | None, device: torch.device) -> torch.dtype:
    if asked is not None:
        if asked not in _DTYPES:
            raise InvalidInput(f"Unknown dtype {asked!r}; write one of {', '.join(_DTYPES)}.")
        return _DTYPES[asked]
    native = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_has_bf16()
    return torch.bfloat16 if native else torch.float32


def _cpu_has_bf16() -> bool:
    # The capability dictionary is public; the key is absent on processors other than x86.
    return bool(torch.cpu.get_capabilities().get("avx512_bf16", False))
