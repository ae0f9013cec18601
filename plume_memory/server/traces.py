"""What answers were made of, for a while: found again by an id that travels with the answer.

In this process's memory, bounded in number and time. A trace holds texts, so an erasure reaches it: who erases here
drops them at once, and one that was kept before an erasure made elsewhere is not given out.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from plume_memory.forks import Lock


def new_trace_id(mark: str = "") -> str:
    """Return an id: `trc_`, the mark of the process that keeps it, and 26 characters."""
    return f"trc_{mark}{secrets.token_hex(13)}"


@dataclass(frozen=True, slots=True)
class KeptTrace:
    """One answer's trace."""

    id: str
    tenant: str
    memory_id: str | None
    """Public; None of the bare model."""
    log_name: str | None
    """What the log calls the memory."""
    last_erasure: int
    """The memory's newest erasure when the answer was pinned; 0 for none."""
    body: dict[str, Any]
    """As it is sent."""


class Traces:
    """The newest traces.

    Args:
        most: how many are kept.
        seconds: how long each is.
        clock: monotonic seconds.
    """

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._kept: OrderedDict[str, tuple[float, KeptTrace]] = OrderedDict()
        self._lock = Lock()

    def keep(self, trace: KeptTrace) -> None:
        """Keep one, and let go of the oldest."""
        with self._lock:
            self._kept[trace.id] = (self._clock() + self._seconds, trace)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
            self._expire()

    def get(self, number: str) -> KeptTrace | None:
        """Return one; None where it is not kept, or not any more."""
        with self._lock:
            self._expire()
            found = self._kept.get(number)
        return None if found is None else found[1]

    def drop(self, number: str) -> None:
        """Let go of one."""
        with self._lock:
            self._kept.pop(number, None)

    def drop_of(self, log_names: Collection[str] | None) -> None:
        """Let go of those of some memories, None: of all. What they hold was erased."""
        with self._lock:
            found = ((number, one.log_name) for number, (_, one) in self._kept.items())
            for number in [number for number, name in found if log_names is None or name in log_names]:
                del self._kept[number]

    def _expire(self) -> None:
        now = self._clock()
        while self._kept and next(iter(self._kept.values()))[0] <= now:
            self._kept.popitem(last=False)
