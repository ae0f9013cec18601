"""The vectors of each update's units: made once by the frozen reader, and kept in the cache of what is derived.

A derivation key names all that the vectors of one update depend on (model, dtype, device, reader, embedding, the units'
texts), so what is found under it is never stale.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence

import numpy as np

from plume_memory import blocks
from plume_memory.encoding import Cache
from plume_memory.hypernet.embedding import EmbeddingWeights
from plume_memory.model.base import BaseModel
from plume_memory.retrieval.reader import Reader
from plume_memory.retrieval.vectors import Embedder, Vectors
from plume_memory.segmentation.told import Told

_KIND = "vectors"
_STORED = np.float16
_TOGETHER = 16
"""Units that are read together; others wait for no longer."""


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
        keyed = self._keyed(asked)
        kept = [self._read(content, one) for content, one in zip(blocks.read(keyed, cache), asked, strict=True)]
        missing = [i for i, own in enumerate(kept) if own is None]
        for some in _groups(missing, [len(one.units) for one in asked]):
            # put group by group: who is interrupted goes on from there
            made = self.embedder.texts([unit.text for i in some for unit in asked[i].units], cache)
            at = 0
            for i in some:
                stored = made[at : at + len(asked[i].units)].astype(_STORED)
                at += len(stored)
                cache.put(keyed[i][1], _KIND, stored.tobytes())
                kept[i] = stored.astype(np.float32)  # as it will be read: what is kept must not change an answer
        found = [own for own in kept if own is not None]
        blocks.write(keyed, [own.astype(_STORED).tobytes() for own in found], cache, _KIND)
        nothing = np.zeros((0, self.embedder.width), np.float32)
        return np.concatenate([nothing, *found])

    def keys(self, told: Sequence[Told]) -> list[str]:
        """Return the derivation keys of the vectors of some updates."""
        keyed = self._keyed([one for one in told if one.units])
        return [*(key for _, key in keyed), *blocks.keys(keyed)]

    def _keyed(self, told: Sequence[Told]) -> list[tuple[int, str]]:
        return [(one.transition.version, self._key(one)) for one in told]

    def _read(self, content: bytes | None, told: Told) -> Vectors | None:
        """What is kept; None where nothing is, or something else: an archive may bring any bytes."""
        shape = (len(told.units), self.embedder.width)
        if content is None or len(content) != shape[0] * shape[1] * np.dtype(_STORED).itemsize:
            return None
        found = np.frombuffer(content, dtype=_STORED).reshape(shape).astype(np.float32)
        return found if np.isfinite(found).all() else None

    def _key(self, told: Told) -> str:
        own = [self._base.fingerprint, str(self._base.dtype), self._base.device.type, self._fingerprint]
        texts = [unit.text for unit in told.units]
        return hashlib.sha256(json.dumps(["vectors-2", *own, texts]).encode()).hexdigest()


def _groups(places: Sequence[int], units: Sequence[int]) -> Iterator[list[int]]:
    """Updates in groups of at least `_TOGETHER` units, the last one of fewer."""
    group: list[int] = []
    for i in places:
        group.append(i)
        if sum(units[j] for j in group) >= _TOGETHER:
            yield group
            group = []
    if group:
        yield group
