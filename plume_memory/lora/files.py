"""LoRA factors as bytes, files and PEFT folders.

Our own format is safetensors with tensors `A.<module>` [L, r, d_in] and `B.<module>` [L, r, d_out] and
one metadata entry `plume`, JSON: `format` "plume-factors-1", `layers` (list), `scale` (number). One entry,
because safetensors writes several in random order, and the same factors must be the same bytes.

PEFT (and vLLM) scale by alpha / r, ours by `scale` alone: an export folds the scale into B and sets
alpha = r, so that the factor is 1. PEFT stores B as [d_out, r], ours as [r, d_out].
"""

import json
import os
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from plume_memory.errors import FactorsError
from plume_memory.lora.factors import LoraFactors, Pair

_FORMAT = "plume-factors-1"


def to_bytes(factors: LoraFactors) -> bytes:
    """Serialise factors; `from_bytes` gives back the same bits."""
    tensors: dict[str, Tensor] = {}
    for name, (A, B) in factors.modules.items():
        tensors[f"A.{name}"] = A.detach().cpu().contiguous()
        tensors[f"B.{name}"] = B.detach().cpu().contiguous()
    about = {"format": _FORMAT, "layers": factors.layers, "scale": factors.scale}
    return bytes(save(tensors, metadata={"plume": json.dumps(about)}))


def from_bytes(content: bytes) -> LoraFactors:
    """Read what `to_bytes` wrote.

    Raises:
        FactorsError: the bytes are damaged or something else.
    """
    try:
        tensors = load(content)
        about = json.loads(_metadata(content).get("plume", "{}"))
    except (SafetensorError, ValueError) as err:
        raise FactorsError(f"Not LoRA factors: {err}") from err
    if about.get("format") != _FORMAT:
        raise FactorsError(f"Not LoRA factors of format {_FORMAT!r}: the file says {about.get('format')!r}.")
    names = [key.removeprefix("A.") for key in tensors if key.startswith("A.")]
    if {f"{side}.{name}" for side in "AB" for name in names} != set(tensors):
        raise FactorsError(f"LoRA factors need A and B of each module; the file holds {sorted(tensors)}.")
    modules = {name: Pair(tensors[f"A.{name}"], tensors[f"B.{name}"]) for name in names}
    return LoraFactors(modules, tuple(about["layers"]), about["scale"])


def save_factors(factors: LoraFactors, path: Path) -> None:
    """Write factors to a file: whole or not at all."""
    _write_atomically(path, to_bytes(factors))


def load_factors(path: Path) -> LoraFactors:
    """Read a file of factors.

    Raises:
        FactorsError: the file cannot be read, or is damaged or something else.
    """
    try:
        with safe_open(path, framework="pt"):  # checks the header before everything is read
            pass
        return from_bytes(path.read_bytes())
    except (OSError, SafetensorError) as err:
        raise FactorsError(f"Cannot read LoRA factors from {path}: {err}") from err


def export_peft(factors: LoraFactors, directory: Path, *, base_model: str, base_fingerprint: str) -> Path:
    """Write a folder that `peft.PeftModel.from_pretrained` loads; its logits equal ours.

    Args:
        factors: of any scale; it is folded into B.
        directory: made if it does not exist.
        base_model: name or path of the base model, for `adapter_config.json`.
        base_fingerprint: kept in the weights' metadata, so that a wrong base can be told.
    """
    tensors: dict[str, Tensor] = {}
    for name, (A, B) in factors.modules.items():
        for at, layer in enumerate(factors.layers):
            key = f"base_model.model.model.layers.{layer}.{name}"
            tensors[f"{key}.lora_A.weight"] = A[at].detach().cpu().contiguous()
            tensors[f"{key}.lora_B.weight"] = (factors.scale * B[at]).detach().cpu().T.contiguous()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "r": factors.rank,
        "lora_alpha": factors.rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "inference_mode": True,
        "target_modules": sorted({name.rpartition(".")[2] for name in factors.modules}),
        "layers_to_transform": list(factors.layers),
        "layers_pattern": "layers",
    }
    directory.mkdir(parents=True, exist_ok=True)
    metadata = {"base_fingerprint": base_fingerprint}
    _write_atomically(directory / "adapter_model.safetensors", bytes(save(tensors, metadata=metadata)))
    _write_atomically(directory / "adapter_config.json", (json.dumps(config, indent=2) + "\n").encode())
    return directory


def _metadata(content: bytes) -> dict[str, str]:
    """String metadata of a safetensors file: 8 bytes of header length, then a JSON header."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    found = header.get("__metadata__", {})
    return {str(k): str(v) for k, v in found.items()}


def _write_atomically(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
