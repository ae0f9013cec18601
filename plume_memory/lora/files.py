"""LoRA factors as bytes and files, and their export for PEFT. Knows nothing of models or stores.

Format 1 is one safetensors file: tensors `{module path}.A` [L, r, d_in] and `{module path}.B` [L, r, d_out]
(A is left out where a parameterizer gives every text the same one), and one metadata entry `plume` holding a
JSON object with `format`, `layers`, `scale`, `fingerprints` and `sha256` (over names and bytes of the tensors
in order of their names). One entry, because safetensors does not order several, and equal factors must give
equal bytes: artifacts are addressed by content.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor

from plume_memory.errors import FactorsError
from plume_memory.lora.atomic import write_file, write_folder
from plume_memory.lora.factors import LoraFactors, Pair

FORMAT = 1


class _Header(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    layers: tuple[int, ...]
    scale: float = Field(allow_inf_nan=False)
    fingerprints: dict[str, str]
    sha256: str


def to_bytes(factors: LoraFactors, *, fingerprints: Mapping[str, str] | None = None, without_A: bool = False) -> bytes:
    """Serialise factors, bit exact; equal factors and fingerprints give equal bytes.

    Args:
        factors: what to write; any dtype, any device.
        fingerprints: what the factors were made with, by name ("model", "parameterizer", …).
        without_A: leave A out; the reader must bring it.
    """
    tensors: dict[str, Tensor] = {}
    for name, pair in factors.modules.items():
        for letter, tensor in zip("B" if without_A else "AB", pair[1:] if without_A else pair, strict=True):
            # a copy: safetensors refuses tensors that share memory
            tensors[f"{name}.{letter}"] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    header = _Header(
        format=FORMAT,
        layers=factors.layers,
        scale=factors.scale,
        fingerprints=dict(sorted((fingerprints or {}).items())),
        sha256=_digest(tensors),
    )
    content: bytes = safetensors.save(tensors, {"plume": header.model_dump_json()})
    return content


def from_bytes(content: bytes, *, A: Mapping[str, Tensor] | None = None) -> LoraFactors:
    """Read what `to_bytes` wrote, onto the CPU.

    Args:
        content: the bytes.
        A: module path → A [L, r, d_in], for factors stored without it; taken as it is, not copied.

    Raises:
        FactorsError: the bytes are damaged, are no factors, have a newer format, or need an A that was not given.
    """
    header = _header(content)
    try:
        tensors: dict[str, Tensor] = safetensors.load(content)
    except (SafetensorError, KeyError, RuntimeError) as err:  # the latter two: a dtype that torch has not
        raise FactorsError(f"The bytes are not a whole safetensors file ({err}).") from err
    found = _digest(tensors)
    if found != header.sha256:
        raise FactorsError(f"The factors are damaged: their sha256 is {found}, not {header.sha256}; write them anew.")
    modules: dict[str, Pair] = {}
    for name in sorted({key.rpartition(".")[0] for key in tensors}):
        if A is not None and name in A and f"{name}.A" not in tensors and f"{name}.B" in tensors:
            modules[name] = Pair(A[name], tensors[f"{name}.B"])
            continue
        if not {f"{name}.A", f"{name}.B"} <= tensors.keys():
            raise FactorsError(f"The file has no complete pair for {name!r}; it holds {sorted(tensors)}.")
        modules[name] = Pair(tensors[f"{name}.A"], tensors[f"{name}.B"])
    return LoraFactors(modules, header.layers, header.scale)


def read_fingerprints(content: bytes) -> dict[str, str]:
    """Return the fingerprints that `to_bytes` was given, without reading the tensors.

    Raises:
        FactorsError: as `from_bytes`, as far as the header shows it.
    """
    return dict(_header(content).fingerprints)


def save_factors(factors: LoraFactors, path: Path, *, fingerprints: Mapping[str, str] | None = None) -> None:
    """Write `to_bytes(factors)` to a file, atomically; only its owner may read it."""
    content = to_bytes(factors, fingerprints=fingerprints)
    write_file(path, lambda temporary: _write(temporary, content), mode=0o600)


def load_factors(path: Path) -> LoraFactors:
    """Read what `save_factors` wrote.

    Raises:
        FactorsError: as `from_bytes`, or there is no such file.
    """
    try:
        content = path.read_bytes()
    except OSError as err:
        raise FactorsError(f"Cannot read factors from {path}: {err.strerror}.") from err
    return from_bytes(content)


def export_peft(
    factors: LoraFactors, directory: Path, *, base_model: str, base_fingerprint: str, revision: str | None = None
) -> None:
    """Write a folder that `peft.PeftModel.from_pretrained(base, directory)` loads, atomically.

    PEFT computes W x + (lora_alpha / r) · B A x with B [d_out, r]. Here lora_alpha = r, so that the
    quotient is 1, and `scale` is folded into B in float32 (a file that left it out would be silently
    weaker by that factor). An existing export in the folder is replaced.

    Args:
        factors: the adapter; keys are those of decoder models whose blocks are `model.layers.{i}`
            (llama, mistral, qwen2, qwen3, gemma2).
        directory: made if it is missing.
        base_model: name or path that PEFT loads the base model from.
        base_fingerprint: fingerprint of the base model, kept in the tensors' metadata.
        revision: of the base model's name, where it is one of the hub.
    """
    # PEFT has no float64 adapters
    dtype = torch.float32 if factors.dtype == torch.float64 else factors.dtype
    tensors: dict[str, Tensor] = {}
    for name, (A, B) in factors.modules.items():
        folded = (B.detach().float().cpu() * factors.scale).to(dtype)
        for row, layer in enumerate(factors.layers):
            stem = f"base_model.model.model.layers.{layer}.{name}"
            tensors[f"{stem}.lora_A.weight"] = A[row].detach().cpu().to(dtype).clone()
            tensors[f"{stem}.lora_B.weight"] = folded[row].T.contiguous()
    metadata = {"format": "pt", "plume_base_fingerprint": base_fingerprint}
    config = json.dumps(_peft_config(factors, base_model, revision), indent=2, sort_keys=True).encode()
    write_folder(
        directory,
        {
            "adapter_model.safetensors": lambda path: safetensors.save_file(tensors, path, metadata),
            "adapter_config.json": lambda path: _write(path, config),
        },
        mode=0o600,  # a memory's texts can be asked out of its adapter
    )


def _peft_config(factors: LoraFactors, base_model: str, revision: str | None) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "revision": revision,
        "inference_mode": True,
        "r": factors.rank,
        "lora_alpha": factors.rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(factors.modules),
        "layers_to_transform": list(factors.layers),
        "layers_pattern": "layers",
    }


def _header(content: bytes) -> _Header:
    """Parse the metadata by hand: safetensors hands it out for files only, not for bytes."""
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > len(content) - 8:
        raise FactorsError(f"The bytes ({len(content)}) are not a whole safetensors file; write the factors anew.")
    try:
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        header = _Header.model_validate_json(metadata["plume"])
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        what = f"{type(err).__name__}: {err}"
        if isinstance(err, ValidationError):  # its own text is a page long
            what = f"{err.error_count()} bad entries"
        raise FactorsError(f"The bytes are no plume factors ({what}); expected format {FORMAT}.") from err
    if header.format != FORMAT:
        raise FactorsError(f"The factors have format {header.format}, this package reads {FORMAT}; upgrade it.")
    return header


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
