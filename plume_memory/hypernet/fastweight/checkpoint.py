"""A trained fast-weight network on disk: safetensors and `config.json`, nothing executable.

`config.json` is a `FastWeightManifest` and is written last: the folder is complete when it is there.
Weights are stored in bfloat16, in shards that `model.safetensors.index.json` names in Hugging Face's form.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor

from plume_memory.errors import CheckpointError
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.format_1 import from_format_1
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.policy import AnswerPolicy, Calibration

FORMAT = 2
_INDEX, _MANIFEST = "model.safetensors.index.json", "config.json"


class FastWeightManifest(BaseModel):
    """What `config.json` says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    kind: Literal["fast-weight"] = "fast-weight"
    base_model: str
    """Name of the base model the network was trained for."""
    base_fingerprint: str | None = None
    """Of that model's weights and tokenizer; None in networks trained before there was one."""
    network: FastWeightConfig
    max_tokens: int = Field(ge=1, description="Longest text that is written at once, in tokens.")
    policy: AnswerPolicy = Field(default=AnswerPolicy(delta=0.4, unit_tokens=192), description="It was measured with.")
    calibration: Calibration = Field(
        default=Calibration(), description="Of confidence: fitted to weights and reranker."
    )
    weights_sha256: str = Field(description="Over the shards' own sha256, in order: identifies the weights.")
    reranker_sha256: str | None = Field(default=None, description="Of reranker.safetensors, where there is one.")
    judge_sha256: str | None = Field(default=None, description="Of judge.safetensors, where there is one.")
    embedding_sha256: str | None = Field(default=None, description="Of embedding.safetensors, where there is one.")


class _Format(BaseModel):
    """Read first: what else a newer manifest says is not this package's to judge."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int = FORMAT


def save(
    network: FastWeightNetwork,
    folder: Path,
    *,
    base_model: str,
    max_tokens: int,
    policy: AnswerPolicy | None = None,
    base_fingerprint: str | None = None,
    reranker_sha256: str | None = None,
    judge_sha256: str | None = None,
    embedding_sha256: str | None = None,
    shard_bytes: int = 16_000_000,
) -> FastWeightManifest:
    """Write a network into a folder, in bfloat16.

    Args:
        network: on any device.
        folder: exists and holds no network.
        base_model: name of its base model.
        max_tokens: longest text it was trained to write at once.
        policy: of answers with it.
        base_fingerprint: of the base model; who loads the network onto another one is warned.
        reranker_sha256: of the reranker that was written into the folder before (hypernet/reranker.py), if any.
        judge_sha256: of the judge that was written into the folder before (hypernet/judge.py), if any.
        embedding_sha256: of the embedding that was written into the folder before (hypernet/embedding.py), if any.
        shard_bytes: largest shard; one tensor is never cut.

    Raises:
        CheckpointError: a weight is not finite.
    """
    state = network.state_dict()
    broken = sorted(name for name, tensor in state.items() if not tensor.isfinite().all())
    if broken:
        raise CheckpointError(
            f"{len(broken)} of {len(state)} tensors of the network hold numbers that are not finite, the first is "
            f"{broken[0]}: it is of no use, and not saved. Train with a lower learning rate."
        )
    tensors = {name: t.detach().to(device="cpu", dtype=torch.bfloat16).contiguous() for name, t in state.items()}
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    names = [f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors" for i in range(len(shards))]
    where: dict[str, str] = {}
    for name, shard in zip(names, shards, strict=True):
        safetensors.save_file(shard, folder / name, {"format": "pt"})
        where |= dict.fromkeys(shard, name)
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": where}
    (folder / _INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    manifest = FastWeightManifest(
        base_model=base_model,
        base_fingerprint=base_fingerprint,
        network=network.config,
        max_tokens=max_tokens,
        **({} if policy is None else {"policy": policy}),
        weights_sha256=_sha256([folder / name for name in names]),
        reranker_sha256=reranker_sha256,
        judge_sha256=judge_sha256,
        embedding_sha256=embedding_sha256,
    )
    write_manifest(manifest, folder)
    return manifest


def write_manifest(manifest: FastWeightManifest, folder: Path) -> None:
    """Write `config.json`, as the last of a folder's files."""
    (folder / _MANIFEST).write_text(manifest.model_dump_json(indent=2, exclude_none=True) + "\n", encoding="utf-8")


def is_fast_weight(folder: Path) -> bool:
    """Whether a folder's `config.json` names this kind of network; False where it cannot be read."""
    try:
        found: Any = json.loads((folder / _MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("kind") == "fast-weight"


def read_manifest(folder: Path) -> FastWeightManifest:
    """Read what a folder says about itself.

    Raises:
        CheckpointError: no such folder, not a fast-weight network, or another format.
    """
    path = folder / _MANIFEST
    try:
        content = path.read_bytes()
        found = _Format.model_validate_json(content).format
        if found == 1:
            return FastWeightManifest.model_validate(from_format_1(json.loads(content), path))
        if found != FORMAT:
            raise CheckpointError(f"{path} has format {found}, this package reads 1 and {FORMAT}; train or fetch anew.")
        return FastWeightManifest.model_validate_json(content)
    except OSError as err:
        raise CheckpointError(f"{folder} holds no trained hypernetwork: {path.name}: {err.strerror}.") from err
    except ValidationError as err:
        first = err.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise CheckpointError(f"{path} describes no fast-weight network: {where}: {first['msg']}.") from err


def load(folder: Path) -> FastWeightNetwork:
    """Load a network onto the CPU in float32, in evaluation mode, without gradients.

    Raises:
        CheckpointError: the folder is damaged, incomplete, or its weights do not fit its config.
    """
    manifest = read_manifest(folder)
    try:
        where: dict[str, str] = json.loads((folder / _INDEX).read_bytes())["weight_map"]
        names = sorted(set(where.values()))
        if any(Path(name).name != name for name in names):
            raise CheckpointError(f"{folder / _INDEX} names files outside its folder.")
        found = _sha256([folder / name for name in names])
        tensors: dict[str, Tensor] = {}
        for name in names:
            tensors |= safetensors.load_file(folder / name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as err:
        message = f"Cannot read the weights in {folder}: {err}. Install or train the network anew."
        raise CheckpointError(message) from err
    if found != manifest.weights_sha256:
        raise CheckpointError(
            f"The weights in {folder} have sha256 {found[:12]}…, its config names {manifest.weights_sha256[:12]}…; "
            "they are damaged or another network's. Install or train the network anew."
        )
    network = _empty(manifest.network, folder, len(tensors))
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    if expected != {name: tuple(tensor.shape) for name, tensor in tensors.items()}:
        wrong = sorted(name for name in expected.keys() | tensors.keys() if expected.get(name) != _shape(tensors, name))
        raise CheckpointError(f"{len(wrong)} weights in {folder} do not fit its config; the first is {wrong[0]}.")
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, assign=True)
    return network.eval().requires_grad_(False)


def _empty(config: FastWeightConfig, folder: Path, tensors: int) -> FastWeightNetwork:
    """Return a network without memory of its own, for its shapes; a config may say any number.

    Raises:
        CheckpointError: sizes that no tensor can have, or more blocks than there are tensors.
    """
    if config.mixer_blocks > tensors:
        raise CheckpointError(
            f"The config in {folder} has {config.mixer_blocks} blocks, its weights {tensors} tensors."
        )
    try:
        with torch.device("meta"):
            return FastWeightNetwork(config)
    except (RuntimeError, TypeError, OverflowError) as err:
        raise CheckpointError(f"The config in {folder} describes no network: {str(err).splitlines()[0]}.") from err


def _shape(tensors: dict[str, Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(tensors[name].shape) if name in tensors else None


def _sha256(paths: list[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as handle:
            whole.update(hashlib.file_digest(handle, "sha256").digest())
    return whole.hexdigest()
