"""The vectors of one history's units: made when they are first needed, a few updates at a time."""

from collections.abc import Iterator, Sequence

import numpy as np

from plume_memory.embedding import Embedding
from plume_memory.encoding import Cache
from plume_memory.forks import Lock
from plume_memory.retrieval.vectors import Vectors, nearest
from plume_memory.segmentation.told import Told


class Embedded:
    """Of one history; threads may share it.

    Args:
        embedding: makes vectors; None: nothing lies near anything.
        cache: whose texts they are.
        told: updates that follow one another.
        known: vectors of the units before them.
    """

    def __init__(
        self, embedding: Embedding | None, cache: Cache, told: Sequence[Told] = (), known: Vectors | None = None
    ) -> None:
        self._embedding, self._cache = embedding, cache
        self._told = tuple(told)
        self._known = known
        self._lock = Lock()
        self._found: Vectors | None = None

    def extended(self, told: Sequence[Told], cache: Cache) -> "Embedded":
        """Return the vectors of the history with `told` behind it.

        What has none yet gets them together with it: a chain of histories that nobody asks does not grow.
        """
        with self._lock:
            found = self._found
        if found is None:
            return Embedded(self._embedding, cache, (*self._told, *told), self._known)
        return Embedded(self._embedding, cache, told, found)

    def make(self) -> None:
        """Make and keep what is not there yet."""
        if self._embedding is not None:
            self._vectors(self._embedding)

    def nearest(self, question: str) -> Iterator[int]:
        """Yield the positions of the units, those most like a question first; none where nothing makes vectors.

        Raises:
            InvalidInput: the question has no token, or half a character.
        """
        if self._embedding is None:
            return iter(())
        return nearest(self._vectors(self._embedding), self._embedding.embedder.question(question))

    def _vectors(self, embedding: Embedding) -> Vectors:
        """[units, D], by position."""
        with self._lock:
            if self._found is None:
                made = embedding.found(self._told, self._cache)
                self._found = made if self._known is None else np.concatenate([self._known, made])
            return self._found
