"""What a process has lately derived, in front of the artifacts: reading the same bytes again costs more.

Per place: a memory elsewhere must keep its own artifact, or its next process derives it anew.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

Made = TypeVar("Made")

KEPT = 64
"""Things kept where nothing else is said."""


class Owned(Protocol):
    """Whose texts are derived from; `writing.Cache` is one."""

    @property
    def place(self) -> str:
        """Two of one place hold the same."""

    def is_current(self) -> bool:
        """Whether no text that its reader holds was erased since it was read."""


def _one(_: Any) -> int:
    return 1


class LRUCache:
    """The last things that were made, by place and key. Safe to share between threads.

    Args:
        room: how much is kept, in what `size` counts; the last thing made is kept though it be larger.
        size: of one thing; each counts 1 by default.
    """

    def __init__(self, room: int = KEPT, size: Callable[[Any], int] = _one) -> None:
        self._room = room
        self._size = size
        self._taken = 0
        self._made: OrderedDict[str, Any] = OrderedDict()
        self._making: dict[str, threading.Lock] = {}
        self._releases: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._made)

    def fetch(self, owner: Owned, key: str, make: Callable[[], Made]) -> Made:
        """Return what is kept under a key, or make it; of several threads one makes it and the others wait.

        What is made while its place is released, or for an owner that is no longer current, is returned and not
        kept. An error of `make` is the caller's, and nothing is kept.
        """
        name = f"{owner.place}#{key}"
        with self._lock:
            if name in self._made:
                self._made.move_to_end(name)
                known: Made = self._made[name]
                return known
            making = self._making.setdefault(name, threading.Lock())
            releases = self._releases[owner.place]
        with making:
            with self._lock:
                if name in self._made:
                    known = self._made[name]
                    return known
            try:
                made = make()
            finally:
                with self._lock:
                    self._making.pop(name, None)
            current = owner.is_current()
            with self._lock:
                # else its text may be one that was erased, before or meanwhile
                if current and releases == self._releases[owner.place]:
                    self._put(name, made)
            return made

    def fetch_all(self, owner: Owned, keys: Sequence[str], make: Callable[[list[int]], Sequence[Made]]) -> list[Made]:
        """Return what is kept under each of some keys, and have the rest made together; else as `fetch`.

        Threads do not wait for one another: what two of them lack both make.

        Args:
            owner: whose they are.
            keys: any number; of equal ones the first is made.
            make: given the places in `keys` of what is not kept, at least one.
        """
        names = [f"{owner.place}#{key}" for key in keys]
        with self._lock:
            found: dict[str, Made] = {name: self._made[name] for name in names if name in self._made}
            for name in found:
                self._made.move_to_end(name)
            releases = self._releases[owner.place]
        missing = {name: at for at, name in reversed(list(enumerate(names))) if name not in found}
        if missing:
            places = sorted(missing.values())
            made = dict(zip([names[at] for at in places], make(places), strict=True))
            found |= made
            current = owner.is_current()
            with self._lock:
                if current and releases == self._releases[owner.place]:
                    for name, one in made.items():
                        self._put(name, one)
        return [found[name] for name in names]

    def discard(self, place: str, key: str) -> None:
        """Forget one thing, if it is kept."""
        with self._lock:
            self._take(f"{place}#{key}")

    def discard_all(self, place: str, opening: str) -> None:
        """Forget what a place has under keys that open so."""
        with self._lock:
            self._drop(f"{place}#{opening}")

    def release(self, place: str) -> None:
        """Forget all of a place, and keep nothing of it that is being made now."""
        with self._lock:
            self._releases[place] += 1
            self._drop(f"{place}#")

    def _drop(self, opening: str) -> None:
        for name in [name for name in self._made if name.startswith(opening)]:
            self._take(name)

    def _put(self, name: str, made: Any) -> None:
        self._take(name)
        self._made[name] = made
        self._taken += self._size(made)
        while self._taken > self._room and len(self._made) > 1:
            self._take(next(iter(self._made)))

    def _take(self, name: str) -> None:
        if name in self._made:
            self._taken -= self._size(self._made.pop(name))
