"""Everything that can be computed again from the log: got from the artifacts, or built and put there.

A key names what a value is derived from (model, parameterizer, settings, text), so a value is never
stale. What another memory derived from the same text is not given out: how soon it is there would tell one owner what
another has said, and what an import brought along would be believed by all. A damaged or lost artifact is built anew,
with a warning; deleting all of them loses nothing. While the place is away nothing is forgotten: what is needed is
made, given out and not kept. One that cannot be kept (a full disk, a place that is read-only) is
given out all the same, with one warning until it can be again.
What is built while an erasure takes the text it was built from is given out, and not kept.
"""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from plume_memory.errors import ArtifactError, ArtifactsUnavailable, StoreUnavailable
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.derivations import Derivations
from plume_memory.store.sources import Sources

logger = logging.getLogger(__name__)


class DerivedCache:
    """Derivation keys → bytes, through the database's index and the artifact store.

    Args:
        derivations: the index.
        artifacts: the bytes.
        sources: notes for which memory something is kept, at the state its texts were read in.
    """

    def __init__(self, derivations: Derivations, artifacts: ArtifactStore, sources: Sources) -> None:
        self._derivations = derivations
        self._artifacts = artifacts
        self._sources = sources

    @property
    def place(self) -> str:
        """Where the bytes are kept."""
        return self._artifacts.root_url

    @property
    def owner(self) -> str:
        """Whose they are: the name of the memory."""
        return self._sources.memory

    def get(self, key: str) -> bytes | None:
        """Return the bytes under `key`; None when they are not there, damaged or out of reach."""
        found = self._got(key)
        if found is None:
            self._artifacts.misses += 1
        else:
            self._artifacts.hits += 1
        return found

    def _got(self, key: str) -> bytes | None:
        known = self._derivations.lookup(key, self._sources.memory)
        if known is None:
            return None
        try:
            return self._artifacts.get(known.sha256, size=known.size)
        except ArtifactsUnavailable as err:
            self._warn_once(known.kind, err)
        except ArtifactError as err:
            logger.warning("Rebuilding %s from the log: %s", known.kind, err)
            with self._best_effort(known.kind):
                self.discard(key)
        return None

    def put(self, key: str, kind: str, content: bytes) -> None:
        """Keep bytes under `key` if that is possible, and no text that they may be derived from was erased meanwhile.

        Raises:
            ArtifactError: They were written while a text was erased, and cannot be deleted.
        """
        sha256, is_noted = hashlib.sha256(content).hexdigest(), False
        with self._best_effort(kind):
            # Noted first: an erasure finds the artifact even if this process is killed behind the next line.
            is_noted = self._sources.note(key, sha256)
            if is_noted:
                self._derivations.record(key, kind, self._artifacts.put(content), len(content))
        if is_noted and not self._sources.is_current():  # erased meanwhile: the erasure may have passed by before
            self.discard(key)
            self._artifacts.delete(sha256)  # whether or not it could be recorded

    @contextmanager
    def _best_effort(self, kind: str) -> Iterator[None]:
        """Go on where the place or the database cannot be written, and say so the first time."""
        try:
            yield
            self._artifacts.is_failing = False
        except (ArtifactError, StoreUnavailable) as err:
            self._warn_once(kind, err)

    def _warn_once(self, kind: str, err: ArtifactError | StoreUnavailable) -> None:
        if not self._artifacts.is_failing:
            logger.warning("The %s cannot be kept, and are made again by every process: %s", kind, err)
        self._artifacts.is_failing = True

    def holds(self, key: str) -> bool:
        """Whether `get(key)` would find the bytes."""
        known = self._derivations.lookup(key, self._sources.memory)
        try:
            return known is not None and self._artifacts.has(known.sha256)
        except ArtifactsUnavailable:
            return False

    def is_current(self) -> bool:
        """Whether nothing was erased since the texts were read that are derived from."""
        return self._sources.is_current()

    def keys(self, kind: str) -> list[str]:
        """Return the keys of everything of a kind that is kept for the memory, the newest first."""
        return self._derivations.keys(kind, self._sources.memory)

    def retire(self, key: str) -> None:
        """Delete what another artifact took the place of, if that is possible; what a fork shares stays for it."""
        with self._best_effort("artifacts"):
            if not self._derivations.is_shared(key, self._sources.memory):
                self.discard(key)

    def discard(self, key: str) -> None:
        """Forget a derivation and delete its artifact; it is built anew when next needed."""
        known = self._derivations.lookup(key, self._sources.memory)
        if known is not None:
            self._derivations.forget(key)
            self._artifacts.delete(known.sha256)
