"""What a process has lately derived, in front of the artifacts: reading the same bytes again costs more.

Per place: a memory elsewhere must keep its own artifact, or its next process derives it anew. And per owner: who finds
a text made already, by how soon it is there, knows that it was told before, and must have told it himself.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from plume_memory.forks import Lock

KEPT = 64
"""Things kept where nothing else is said."""


class Owned(Protocol):
    """Whose texts are derived from; `encoding.Cache` is one."""

    @property
    def place(self) -> str:
        """Where it is kept: an erasure lets go of all of a place."""

    @property
    def owner(self) -> str:
        """Whose it is: two of one place and owner hold the same."""

    def is_current(self) -> bool:
        """Whether no text that its reader holds was erased since it was read."""


def _one(_: Any) -> int:
    return 1


class LRUCache:
    """The last things that were made, by place, owner and key. Safe to share between threads.

    A caller asks `epoch` before it makes a thing and hands it to `put`: what was made while its place was released
    is not kept, as its text may be one that was erased meanwhile. Two threads that lack the same thing both make it.

    Args:
        room: how much is kept, in what `size` counts; the last thing put is kept though it be larger.
        size: of one thing; each counts 1 by default.
    """

    def __init__(self, room: int = KEPT, size: Callable[[Any], int] = _one) -> None:
        self._room = room
        self._size = size
        self._taken = 0
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._releases: Counter[str] = Counter()
        self.hits = 0
        """Things that were asked for and kept."""
        self.misses = 0
        """Things that were asked for in vain."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, owner: Owned, key: str) -> Any | None:
        """Return what is kept under a key; None where nothing is."""
        name = _name(owner, key)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                self.hits += 1
            else:
                self.misses += 1
            return self._kept.get(name)

    def epoch(self, owner: Owned) -> int:
        """Return how often a place has been released: to be asked before a thing is made."""
        with self._lock:
            return self._releases[owner.place]

    def put(self, owner: Owned, key: str, made: Any, *, epoch: int) -> None:
        """Keep a thing, unless its place was released since `epoch`, or its owner is no longer current."""
        if not owner.is_current():
            return
        with self._lock:
            if epoch == self._releases[owner.place]:
                self._put(_name(owner, key), made)

    def discard(self, owner: Owned, key: str) -> None:
        """Forget one thing, if it is kept."""
        with self._lock:
            self._take(_name(owner, key))

    def discard_all(self, owner: Owned, opening: str) -> None:
        """Forget what an owner has under keys that open so."""
        with self._lock:
            self._drop(_name(owner, opening))

    def release(self, place: str) -> None:
        """Forget all of a place, and keep nothing of it that is being made now."""
        with self._lock:
            self._releases[place] += 1
            self._drop(f"{place}#")

    def _drop(self, opening: str) -> None:
        for name in [name for name in self._kept if name.startswith(opening)]:
            self._take(name)

    def _put(self, name: str, made: Any) -> None:
        self._take(name)
        self._kept[name] = made
        self._taken += self._size(made)
        while self._taken > self._room and len(self._kept) > 1:
            self._take(next(iter(self._kept)))

    def _take(self, name: str) -> None:
        if name in self._kept:
            self._taken -= self._size(self._kept.pop(name))


def _name(owner: Owned, key: str) -> str:
    return f"{owner.place}#{owner.owner}#{key}"
