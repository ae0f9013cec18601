"""A trained embedding beside a hypernetwork: what the reader keeps of a text or a question, to a vector.

Two linear maps of the reader's final hidden state (retrieval/reader.py) behind which the question would begin, or the
answer; a text and what is asked about it come to lie close. They are the same for every memory, so no part of any.

On disk it is `embedding.safetensors` in the hypernetwork's folder; the network's `config.json` names its sha256.

Legend: D width of a vector, E hidden width of the model.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor

from plume_memory.errors import CheckpointError
from plume_memory.hypernet.beside import read_beside

FILE = "embedding.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingWeights:
    """What an embedding is made of; float32."""

    text: Tensor
    """[D, E]."""
    text_bias: Tensor
    """[D]."""
    question: Tensor
    """[D, E]."""
    question_bias: Tensor
    """[D]."""
    sha256: str = ""
    """Of the file it was read from."""


def save_embedding(weights: EmbeddingWeights, folder: Path) -> str:
    """Write an embedding into a hypernetwork's folder, and return its sha256.

    Raises:
        CheckpointError: a number is not finite.
    """
    tensors = {
        "text": weights.text,
        "text_bias": weights.text_bias,
        "question": weights.question,
        "question_bias": weights.question_bias,
    }
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise CheckpointError("The embedding holds numbers that are not finite: it is of no use, and not saved.")
    content = safetensors.save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    (folder / FILE).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def load_embedding(folder: Path, sha256: str) -> EmbeddingWeights:
    """Read the embedding of a hypernetwork onto the CPU.

    Args:
        folder: the hypernetwork's.
        sha256: what its `config.json` says.

    Raises:
        CheckpointError: it is missing, damaged, or another one than the network's.
    """
    content = read_beside(folder, FILE, sha256, "embedding")
    try:
        tensors = safetensors.load(content)
        return EmbeddingWeights(**{name: tensor.float() for name, tensor in tensors.items()}, sha256=sha256)
    except (SafetensorError, TypeError, ValueError) as err:
        raise CheckpointError(f"The embedding in {folder} cannot be read: {err}. Install or train it anew.") from err
