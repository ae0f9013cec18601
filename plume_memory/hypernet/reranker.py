"""A trained reranker beside a hypernetwork: one adapter with which the base model reads sentences for a question.

The router asks how likely the question is behind each sentence (retrieval/reader.py). The bare model answers that
unasked; with this adapter it was taught to (training/reranking.py). It is the same for every memory, so no part of any,
and answers are decoded without it.

On disk it is `reranker.safetensors` in the hypernetwork's folder, in the format of lora/files.py; the network's
`config.json` names its sha256.
"""

import hashlib
from pathlib import Path

from plume_memory.errors import CheckpointError, FactorsError
from plume_memory.hypernet.beside import read_beside
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.files import from_bytes, save_factors

FILE = "reranker.safetensors"


def save_reranker(factors: LoraFactors, folder: Path) -> str:
    """Write a reranker into a hypernetwork's folder, and return its sha256.

    Args:
        factors: the adapter.
        folder: exists.

    Raises:
        CheckpointError: a number is not finite.
    """
    if not all(tensor.isfinite().all() for pair in factors.modules.values() for tensor in pair):
        raise CheckpointError(
            "The reranker holds numbers that are not finite: it is of no use, and not saved. Train with a lower "
            "learning rate."
        )
    path = folder / FILE
    save_factors(factors, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_reranker(folder: Path, sha256: str) -> LoraFactors:
    """Read the reranker of a hypernetwork onto the CPU.

    Args:
        folder: the hypernetwork's.
        sha256: what its `config.json` says.

    Raises:
        CheckpointError: it is missing, damaged, or another one than the network's.
    """
    try:
        return from_bytes(read_beside(folder, FILE, sha256, "reranker"))
    except FactorsError as err:
        raise CheckpointError(f"The reranker in {folder} cannot be read: {err} Install or train it anew.") from err
