"""A Doc-to-LoRA network ready to run on a base model: found or converted, checked, put together."""

from pathlib import Path

import torch
from filelock import FileLock

from plume_memory.hypernet.d2l.checkpoint import convert, load, read_manifest
from plume_memory.hypernet.parameterizer import D2LParameterizer
from plume_memory.model.base import BaseModel
from plume_memory.model.hub import default_cache
from plume_memory.model.huggingface import HubCheckpoint, fetch_checkpoint
from plume_memory.policy import AnswerPolicy


def load_d2l_parameterizer(
    base: BaseModel,
    source: Path | HubCheckpoint,
    policy: AnswerPolicy,
    *,
    cache: Path | None = None,
) -> D2LParameterizer:
    """Load a hypernetwork for a base model.

    Args:
        base: the model it was trained for; it is also its context encoder.
        source: a folder written by `plume models convert`, or a published checkpoint, which is
            downloaded and converted once.
        policy: chunking and chunk length.
        cache: where converted checkpoints are kept.

    Raises:
        CheckpointError: the folder cannot be read.
        ParameterizerError: the network was made for a model of other sizes.
        HubUnreachable: the published checkpoint is not on this machine and the hub is out of reach.
    """
    folder = source if isinstance(source, Path) else _converted(source, cache or default_cache())
    manifest = read_manifest(folder)
    network = load(folder).to(base.device)
    if base.device.type == "cuda":  # the reference's numerics there: perceiver in bfloat16, heads in float32
        network.perceiver.to(torch.bfloat16)
    return D2LParameterizer(
        network,
        base.passes,
        base.chat.prompt_ids,
        base.chat.prefix_ids(),
        base.chat.suffix_ids(),
        chunking=policy.chunking,
        chunk_tokens=policy.chunk_tokens,
        fingerprint=f"d2l-{manifest.format}-{manifest.source_sha256}",
        lock=base.lock,
    )


def _converted(checkpoint: HubCheckpoint, cache: Path) -> Path:
    folder = cache / "hypernetworks" / checkpoint.repo.replace("/", "--") / Path(checkpoint.filename).parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "config.json").is_file():
            convert(fetch_checkpoint(checkpoint), folder, overwrite=True)
    return folder
