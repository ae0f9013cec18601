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

from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor

from plume_memory.errors import CheckpointError
from plume_memory.hypernet.beside import read_beside
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
    content = read_beside(folder, FILE, sha256, "judge")
    try:
        tensors = safetensors.load(content)
        size = int.from_bytes(content[:8], "little")  # safetensors hands out the metadata of files alone
        layers = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["layers"])
        names = sorted({name.rpartition(".")[0] for name in tensors} - {"heads"})
        modules = {name: Pair(tensors[f"{name}.A"], tensors[f"{name}.B"]) for name in names}
        adapter = LoraFactors(modules, tuple(layers))
        return JudgeWeights(adapter, tensors["heads.weight"], tensors["heads.bias"], sha256)
    except (SafetensorError, KeyError, TypeError, ValueError) as err:
        raise CheckpointError(f"The judge in {folder} cannot be read: {err}. Install or train it anew.") from err
