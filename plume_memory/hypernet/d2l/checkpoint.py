"""Doc-to-LoRA checkpoints: convert the reference's pickle once, then load safetensors and JSON.

A converted folder holds `model.safetensors` (the state dict of `D2LNetwork`) and `config.json` (a
`Manifest`). It is complete when `config.json` is there; that file is written last.
"""

import hashlib
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor

from plume_memory.errors import CheckpointError
from plume_memory.hypernet.d2l.blueprint import draw_blueprint
from plume_memory.hypernet.d2l.config import D2LConfig
from plume_memory.hypernet.d2l.network import D2LNetwork
from plume_memory.hypernet.d2l.pickle_reader import read_checkpoint
from plume_memory.lora.atomic import write_folder

FORMAT = 1
_WEIGHTS, _MANIFEST = "model.safetensors", "config.json"


class Manifest(BaseModel):
    """What `config.json` of a converted checkpoint says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    base_model: str
    """Name or path of the base model the network was trained for."""
    network: D2LConfig
    encoder_last_layer: int | None
    """Layers the context encoder hands out; None: as many as the base model has blocks."""
    source_sha256: str
    """sha256 of the converted pickle: identifies the weights."""
    unused: tuple[str, ...]
    """Tensors of the source that the reference stores but never reads."""


def convert(checkpoint: Path, directory: Path, *, overwrite: bool = False) -> Path:
    """Convert a reference checkpoint to safetensors and JSON; nothing in it is executed.

    Args:
        checkpoint: the reference's `pytorch_model.bin`.
        directory: folder to write; made if it is missing.
        overwrite: replace an earlier conversion. Other files are never replaced.

    Returns:
        The folder.

    Raises:
        UnsafeCheckpoint: the pickle names an object outside the converter's list.
        CheckpointError: the file cannot be read, is not supported, or the folder is not free.
    """
    _require_free(directory, overwrite)
    blueprint = draw_blueprint(read_checkpoint(checkpoint))
    _require_fit(blueprint.config, blueprint.tensors)
    manifest = Manifest(
        format=FORMAT,
        base_model=blueprint.base_model,
        network=blueprint.config,
        encoder_last_layer=blueprint.encoder_last_layer,
        source_sha256=_sha256(checkpoint),
        unused=blueprint.unused,
    )
    # a copy each: tensors of a checkpoint may be views of one storage
    weights = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in blueprint.tensors.items()}
    text = manifest.model_dump_json(indent=2) + "\n"
    write_folder(
        directory,
        {
            _WEIGHTS: lambda path: safetensors.save_file(weights, path, {"format": "pt"}),
            _MANIFEST: lambda path: _write(path, text),
        },
    )
    return directory


def save_trained(network: D2LNetwork, directory: Path, *, base_model: str) -> None:
    """Write a network trained by this package, in the form of a converted checkpoint.

    Args:
        network: on any device.
        directory: exists and is empty.
        base_model: name of the base model it was trained for.
    """
    weights = {name: t.detach().float().cpu().contiguous() for name, t in network.state_dict().items()}
    safetensors.save_file(weights, directory / _WEIGHTS, {"format": "pt"})
    manifest = Manifest(
        format=FORMAT,
        base_model=base_model,
        network=network.config,
        encoder_last_layer=None,
        source_sha256=_sha256(directory / _WEIGHTS),
        unused=(),
    )
    _write(directory / _MANIFEST, manifest.model_dump_json(indent=2) + "\n")


def read_manifest(directory: Path) -> Manifest:
    """Read what a converted folder says about itself.

    Raises:
        CheckpointError: no such folder, not a converted checkpoint, or another format.
    """
    path = directory / _MANIFEST
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except OSError as err:
        raise CheckpointError(f"{directory} is no converted checkpoint: {path.name}: {err.strerror}.") from err
    except ValidationError as err:
        first = err.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise CheckpointError(f"{path} is not a manifest of format {FORMAT}: {where}: {first['msg']}.") from err
    if manifest.format != FORMAT:
        raise CheckpointError(f"{path} has format {manifest.format}, this package reads {FORMAT}; convert again.")
    return manifest


def load(directory: Path) -> D2LNetwork:
    """Load a converted checkpoint onto the CPU, in evaluation mode, without gradients.

    Raises:
        CheckpointError: the folder is not a converted checkpoint, or its weights do not fit its config.
    """
    manifest = read_manifest(directory)
    try:
        tensors: dict[str, Tensor] = safetensors.load_file(directory / _WEIGHTS)
    except (OSError, SafetensorError) as err:
        raise CheckpointError(f"Cannot read {directory / _WEIGHTS}: {err}. Convert the checkpoint again.") from err
    network = _require_fit(manifest.network, tensors)
    network.load_state_dict(tensors, assign=True)
    return network.eval().requires_grad_(False)


def _require_fit(config: D2LConfig, tensors: dict[str, Tensor]) -> D2LNetwork:
    """Return an empty network of that config, once the tensors are known to be its state dict."""
    try:
        with torch.device("meta"):
            network = D2LNetwork(config)
    except (RuntimeError, TypeError, OverflowError, ZeroDivisionError) as err:  # sizes that no tensor can have
        raise CheckpointError(f"The configuration describes no network: {str(err).splitlines()[0]}.") from err
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if expected != found:
        wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        raise CheckpointError(
            f"{len(wrong)} weights do not fit the configuration; the first is {wrong[0]}: found "
            f"{found.get(wrong[0])}, expected {expected.get(wrong[0])}."
        )
    return network


def _require_free(directory: Path, overwrite: bool) -> None:
    if not directory.exists():
        return
    if not directory.is_dir():
        raise CheckpointError(f"{directory} is a file; name a folder to write to.")
    present = {entry.name for entry in directory.iterdir()}
    foreign = sorted(present - {_WEIGHTS, _MANIFEST})
    if foreign:
        raise CheckpointError(f"{directory} holds other files ({', '.join(foreign[:3])}); name an empty folder.")
    if present and not overwrite:
        raise CheckpointError(f"{directory} holds a converted checkpoint already; ask to overwrite it.")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
