"""The tensors of a model folder, and what a Hugging Face config says of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from plume_memory.errors import ModelError
from plume_memory.model.linear import Linear, WeightFormat


def read_weights(folder: Path, name: str) -> dict[str, Tensor]:
    """Map a folder's safetensors into memory, by name of tensor; nothing is copied.

    Raises:
        ModelError: a file is missing or damaged.
    """
    index = folder / "model.safetensors.index.json"
    found: dict[str, Tensor] = {}
    try:
        files = [folder / "model.safetensors"]
        if index.is_file():
            listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            files = [folder / file for file in sorted(set(listed.values()))]
        for file in files:
            with safe_open(file, framework="pt") as opened:
                found.update({key: opened.get_tensor(key) for key in opened.keys()})  # noqa: SIM118 — it is no dict
    except (OSError, SafetensorError, ValueError, KeyError) as err:
        raise ModelError(f"The weights of {name!r} in {folder} cannot be loaded: {err}") from err
    return found


def plain_weights(model: nn.Module) -> dict[str, Tensor] | None:
    """The tensors of a Hugging Face causal LM, by name.

    None where its layers are not plain linear ones (quantised, wrapped by PEFT): its own modules know better.
    """
    weights = dict(model.state_dict())
    linears = [module for name, module in model.named_modules() if name.endswith(("_proj", "lm_head"))]
    is_plain = "model.embed_tokens.weight" in weights and all(type(module) is nn.Linear for module in linears)
    return weights if is_plain else None


class Taken:
    """Tensors taken by name and checked. What is missing is told at the end, all at once."""

    def __init__(
        self, weights: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device, weight_format: WeightFormat
    ) -> None:
        self._weights = weights
        self._format: WeightFormat = weight_format
        self._dtype = dtype
        self._device = device
        self._lacking: list[str] = []

    def __call__(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Take a tensor; zeros where there is none.

        Raises:
            ModelError: it is of another shape.
        """
        found = self._weights.get(name)
        if found is None:
            self._lacking.append(name)
            return torch.zeros(shape, dtype=self._dtype, device=self._device)
        if found.shape != shape:
            raise ModelError(
                f"The tensor {name} is {list(found.shape)}, the config asks for {list(shape)}: weights and config are "
                "of two models."
            )
        return found.detach().to(device=self._device, dtype=self._dtype)

    def linear(self, names: Sequence[str], outputs: Sequence[int], inputs: int) -> Linear:
        """Take linear modules of one input as one, their outputs side by side."""
        weights = [self(f"{name}.weight", (rows, inputs)) for name, rows in zip(names, outputs, strict=True)]
        bias = None
        if f"{names[0]}.bias" in self._weights:
            biases = [self(f"{name}.bias", (rows,)) for name, rows in zip(names, outputs, strict=True)]
            bias = torch.cat(biases)
        return Linear.of(weights[0] if len(weights) == 1 else torch.cat(weights), bias, self._format)

    def check(self) -> None:
        """See that nothing was missing.

        Raises:
            ModelError: something was.
        """
        if self._lacking:
            raise ModelError(
                f"The weights lack {len(self._lacking)} of the tensors the config asks for, the first is "
                f"{min(self._lacking)}; the download is incomplete or the config is another model's."
            )


def has_fixed_turns(config: Any) -> bool:
    """Whether rotary frequencies are the same for texts of every length."""
    return _rope(config).get("rope_type", "default") not in ("dynamic", "longrope")


def turns(config: Any, device: torch.device) -> tuple[Tensor, float]:
    """Frequencies of the rotary positions, float32 [D / 2], and what cosines and sines are multiplied by."""
    rope = _rope(config)
    kind = rope.get("rope_type", "default")
    if kind != "default":
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: PLC0415 — slow, and few need it

        frequencies, scale = ROPE_INIT_FUNCTIONS[kind](config, device)
        return frequencies.float(), float(scale)
    D = head_width(config)
    exponents = torch.arange(0, D, 2, dtype=torch.int64).float() / D
    return (1.0 / (rope["rope_theta"] ** exponents)).to(device), 1.0


def head_width(config: Any) -> int:
    """Width of an attention head."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def window_of(config: Any, layer: int) -> int | None:
    """Tokens that a layer sees, itself included; None: all."""
    kinds = getattr(config, "layer_types", None)
    window: int | None = getattr(config, "sliding_window", None)
    return window if not kinds or kinds[layer] == "sliding_attention" else None


def _rope(config: Any) -> dict[str, Any]:
    return dict(config.rope_parameters)
