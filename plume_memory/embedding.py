"""The vectors of each update's units: made once by the frozen reader, and kept in the cache of what is derived.

A derivation key names all that the vectors of one update depend on (model, dtype, device, reader, embedding, the units'
texts), so what is found under it is never stale.
"""

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from plume_memory.encoding import Cache
from plume_memory.hypernet.embedding import EmbeddingWeights
from plume_memory.model.base import BaseModel
from plume_memory.retrieval.reader import Reader
from plume_memory.retrieval.vectors import Embedder, Vectors
from plume_memory.segmentation.told import Told

_STORED = np.float16


class Embedding:
    """Makes the vectors of updates. Safe to share between threads.

    Args:
        base: the frozen model.
        reader: reads the units.
        weights: of hypernet/embedding.py.
        fingerprint: identifies weights and reader.
    """

    def __init__(self, base: BaseModel, reader: Reader, weights: EmbeddingWeights, fingerprint: str) -> None:
        self._base = base
        self.embedder = Embedder(reader, weights)
        self._fingerprint = fingerprint

    def found(self, told: Sequence[Told], cache: Cache) -> Vectors:
        """Return the vectors of the units of some updates, in their order.

        Args:
            told: the updates.
            cache: where vectors are kept.
        """
        asked = [one for one in told if one.units]
        keys = [self._key(one) for one in asked]
        kept = [self._read(cache.get(key), one) for key, one in zip(keys, asked, strict=True)]
        missing = [i for i, own in enumerate(kept) if own is None]
        made = self.embedder.texts([unit.text for i in missing for unit in asked[i].units], cache)
        at = 0
        for i in missing:
            count = len(asked[i].units)
            stored = made[at : at + count].astype(_STORED)
            cache.put(keys[i], "vectors", stored.tobytes())
            kept[i] = stored.astype(np.float32)  # as it will be read: what is kept must not change an answer
            at += count
        return np.concatenate(
            [np.zeros((0, self.embedder.width), np.float32), *(own for own in kept if own is not None)]
        )

    def keys(self, told: Sequence[Told]) -> list[str]:
        """Return the derivation keys of the vectors of some updates."""
        return [self._key(one) for one in told if one.units]

    def _read(self, content: bytes | None, told: Told) -> Vectors | None:
        if content is None:
            return None
        return np.frombuffer(content, dtype=_STORED).reshape(len(told.units), -1).astype(np.float32)

    def _key(self, told: Told) -> str:
        own = [self._base.fingerprint, str(self._base.dtype), self._base.device.type, self._fingerprint]
        texts = [unit.text for unit in told.units]
        return hashlib.sha256(json.dumps(["vectors-1", *own, texts]).encode()).hexdigest()
