"""The pinned versions of one memory that a process keeps: the last few, and the newest routing index.

What was kept before an erasure may hold what it erased, so every read asks the log for the newest erasure first, and
lets go of everything older than that: also when another object, or another process, did it.
"""

from collections import OrderedDict
from dataclasses import dataclass

from plume_memory.answering.embedded import Embedded
from plume_memory.answering.pinned import Snapshot
from plume_memory.answering.replaced import Replaced
from plume_memory.engine import Engine
from plume_memory.forks import Lock
from plume_memory.records import History
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.segmentation.told import told_of
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.derivations import Derivations
from plume_memory.store.derived import DerivedCache
from plume_memory.store.log import Log
from plume_memory.store.sources import Sources
from plume_memory.sums import Lineage, digests_of

KEPT = 4


class Snapshots:
    """Makes and keeps one memory's snapshots. Threads may share it.

    Args:
        log: where the histories are.
        memory: name of the memory.
        engine: the engine.
        database: of the log, and of what is derived.
        artifacts: the bytes of what is derived.
    """

    def __init__(self, log: Log, memory: str, *, engine: Engine, database: Database, artifacts: ArtifactStore) -> None:
        self._log = log
        self._memory = memory
        self._engine = engine
        self._database = database
        self._artifacts = artifacts
        self._lock = Lock()
        self._summing = Lock()
        self._kept: OrderedDict[int, Snapshot] = OrderedDict()
        self._newest: _Indexed | None = None
        self._last_erasure = 0

    def at(self, number: int) -> Snapshot:
        """Pin a version.

        Raises:
            VersionNotFound: there is no such version.
        """
        head, last_erasure = self._log.newest(self._memory)
        with self._lock:
            is_stale = last_erasure > self._last_erasure
            if is_stale:  # at once: from here on a thread that reads the log as it was before keeps nothing
                self._let_go()
                self._last_erasure = last_erasure
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        cache = self._cache(last_erasure)
        if is_stale:
            self._engine.release(cache.place)
        indexed = self._indexed(self._history(number), cache, last_erasure)
        lineage = Lineage(indexed.digests, number == head, self._told, self._summing)
        snapshot = Snapshot(
            indexed.history, indexed.index, indexed.replaced, indexed.embedded, self._engine, cache, lineage
        )
        with self._lock:
            if last_erasure != self._last_erasure:
                return snapshot  # pinned before an erasure, perhaps with what it erased: given out, and not kept
            snapshot = self._kept.setdefault(number, snapshot)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return snapshot

    def is_derived(self, number: int) -> bool:
        """Tell whether a version, or a later one, is known to be derived: then nothing waits for this one."""
        with self._lock:
            return any(kept >= number and snapshot.is_derived for kept, snapshot in self._kept.items())

    def clear(self) -> None:
        """Let go of every snapshot and index."""
        with self._lock:
            self._let_go()

    def _history(self, number: int) -> History:
        """Read a history; behind the newest one of this process its new texts alone."""
        with self._lock:
            known = self._newest
        behind = self._log.history_behind(known.history, number) if known else None
        return behind or self._told(number)

    def _told(self, number: int) -> History:
        return self._log.history(self._memory, number)

    def _cache(self, last_erasure: int) -> DerivedCache:
        """Of what is derived, for the state after an erasure (0: none)."""
        sources = Sources(self._database, self._memory, last_erasure=last_erasure)
        return DerivedCache(Derivations(self._database), self._artifacts, sources)

    def _let_go(self) -> None:
        """`clear`, for a caller that holds the lock."""
        self._kept.clear()
        self._newest = None

    def _indexed(self, history: History, cache: DerivedCache, last_erasure: int) -> "_Indexed":
        """Units of a history; an update extends the newest ones instead of reading everything again."""
        with self._lock:
            known = self._newest
        cut = self._engine.segmenter.units
        if known and history.transitions[: len(known.history.transitions)] == known.history.transitions:
            fresh = history.transitions[len(known.history.transitions) :]
            units = cut(fresh, first_position=len(known.index))
            told = told_of(fresh, units)
            replaced = known.replaced.extended(told, known.index, cache) if fresh else known.replaced
            embedded = known.embedded.extended(told, cache) if fresh else known.embedded
            index, digests = known.index.extended(units), digests_of(fresh, known.digests)
        else:
            units = cut(history.transitions)
            told = told_of(history.transitions, units)
            replaced, embedded = Replaced(self._engine, cache, told), Embedded(self._engine.embedding, cache, told)
            index, digests = self._engine.index(units), digests_of(history.transitions)
        indexed = _Indexed(history, index, replaced, embedded, digests)
        with self._lock:
            if last_erasure == self._last_erasure:
                self._newest = indexed
        return indexed


@dataclass(frozen=True, slots=True)
class _Indexed:
    """One history, cut into units."""

    history: History
    index: UnitIndex
    replaced: Replaced
    embedded: Embedded
    digests: tuple[bytes, ...]
