"""A trained judge beside a hypernetwork: one adapter and two heads with which the base model judges short texts.

It reads two texts of a memory, or a text, a question and an answer, to their end, and a linear head says of the last
hidden state what they are to one another (retrieval/judge.py). It is the same for every memory, so no part of any.

On disk it is `judge.safetensors` in the hypernetwork's folder; the network's `config.json` names its sha256.

Legend: L layers, r rank, D hidden width.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors import torch as safetensors
from torch import Tensor

from plume_memory.errors import CheckpointError
from plume_memory.lora.factors import LoraFactors, Pair

FILE = "judge.safetensors"
OUTPUTS = 4
"""Of the heads: unrelated, adds, replaces (softmax over the three), and the log-odds that an answer is supported."""


@dataclass(frozen=True, slots=True, eq=False)
class JudgeWeights:
    """What a judge is made of."""

    adapter: LoraFactors
    weight: Tensor
    """[OUTPUTS, D] of the heads."""
    bias: Tensor
    """[OUTPUTS]."""
    sha256: str = ""
    """Of the file it was read from."""


def save_judge(judge: JudgeWeights, folder: Path) -> str:
    """Write a judge into a hypernetwork's folder, and return its sha256.

    Raises:
        CheckpointError: a number is not finite.
    """
    tensors = {"heads.weight": judge.weight, "heads.bias": judge.bias}
    for name, pair in judge.adapter.modules.items():
        tensors |= {f"{name}.A": pair.A, f"{name}.B": pair.B}
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise CheckpointError(
            "The judge holds numbers that are not finite: it is of no use, and not saved. Train with a lower learning "
            "rate."
        )
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = safetensors.save(plain, {"layers": json.dumps(judge.adapter.layers)})
    (folder / FILE).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def load_judge(folder: Path, sha256: str) -> JudgeWeights:
    """Read the judge of a hypernetwork onto the CPU.

    Args:
        folder: the hypernetwork's.
        sha256: what its `config.json` says.

    Raises:
        CheckpointError: it is missing, damaged, or another one than the network's.
    """
    path = folder / FILE
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != sha256:
            raise CheckpointError(
                f"The judge in {folder} has sha256 {found[:12]}…, the network's config names {sha256[:12]}…; it is "
                "another one's. Install or train the network anew."
            )
        with safe_open(path, framework="pt") as file:
            layers = json.loads(file.metadata()["layers"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — no mapping
        names = sorted({name.rpartition(".")[0] for name in tensors} - {"heads"})
        modules = {name: Pair(tensors[f"{name}.A"], tensors[f"{name}.B"]) for name in names}
        adapter = LoraFactors(modules, tuple(layers))
        return JudgeWeights(adapter, tensors["heads.weight"], tensors["heads.bias"], sha256)
    except OSError as err:
        raise CheckpointError(
            f"The network in {folder} has a judge, and {FILE} cannot be read: {err.strerror}. Install or train anew."
        ) from err
    except (SafetensorError, KeyError, TypeError, ValueError) as err:
        raise CheckpointError(f"The judge in {folder} cannot be read: {err}. Install or train it anew.") from err
