"""What a process has lately derived, in front of the artifacts: reading the same bytes again costs more.

Per place: a memory elsewhere must keep its own artifact, or its next process derives it anew.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

Made = TypeVar("Made")

KEPT = 64
"""Adapters and prefixes kept."""


class Owned(Protocol):
    """Whose texts are derived from; `engine.Cache` is one."""

    @property
    def place(self) -> str:
        """Two of one place hold the same."""

    def is_current(self) -> bool:
        """Whether no text that its reader holds was erased since it was read."""


class Recent:
    """The last `KEPT` things that were made, by place and key. Safe to share between threads."""

    def __init__(self) -> None:
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
                    self._made[name] = made
                    while len(self._made) > KEPT:
                        self._made.popitem(last=False)
            return made

    def discard(self, place: str, key: str) -> None:
        """Forget one thing, if it is kept."""
        with self._lock:
            self._made.pop(f"{place}#{key}", None)

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
            del self._made[name]
