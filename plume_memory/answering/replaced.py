"""What the updates of one history replace: judged when it is first needed, a few updates at a time."""

from collections.abc import Sequence

from plume_memory.encoding import Cache
from plume_memory.engine import Engine
from plume_memory.forks import Lock
from plume_memory.records import Replacement
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.supersede import Retired, retired
from plume_memory.segmentation.told import Told


class Replaced:
    """Of one history; threads may share it.

    Args:
        engine: judges.
        cache: whose texts they are.
        told: updates that follow one another.
        index: the units of all updates before them.
        known: what those before them replace.
    """

    def __init__(
        self,
        engine: Engine,
        cache: Cache,
        told: Sequence[Told] = (),
        index: UnitIndex | None = None,
        known: Sequence[Replacement] = (),
    ) -> None:
        self._engine, self._cache = engine, cache
        self._told = tuple(told)
        self._index = engine.index(()) if index is None else index
        self._known = tuple(known)
        self._lock = Lock()
        self._found: tuple[Replacement, ...] | None = None

    def extended(self, told: Sequence[Told], index: UnitIndex, cache: Cache) -> "Replaced":
        """Return what the history with `told` behind it replaces; `index` is of this one.

        What is not judged yet is judged together with it: a chain of histories that nobody asks does not grow.
        """
        found = self._found
        if found is None:
            return Replaced(self._engine, cache, (*self._told, *told), self._index, self._known)
        return Replaced(self._engine, cache, told, index, found)

    @property
    def found(self) -> tuple[Replacement, ...]:
        """Every replacement, in the order of what replaced."""
        with self._lock:
            if self._found is None:
                judged = self._engine.superseding.found(self._told, self._index, self._cache)
                self._found = (*self._known, *judged)
            return self._found

    @property
    def retired(self) -> Retired:
        """The units that no longer hold."""
        return retired(self.found)
