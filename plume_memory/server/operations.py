"""What takes longer than a client waits: begun by a request, looked at by others.

In this process's memory: after a restart an operation is not found, and the request that began it, sent again, goes on
from where it was (an erasure does).
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from plume_memory.forks import Lock
from plume_memory.server.problems import problem_document, problem_of

_MOST = 1000
_KEPT_S = 3600.0
_THREADS = 2


@dataclass(frozen=True, slots=True)
class Operation:
    """One that was begun."""

    id: str
    tenant: str
    memory_id: str
    created_at: datetime
    begun: float
    """Monotonic seconds."""
    future: "Future[dict[str, Any]]"

    @property
    def status(self) -> Literal["running", "done", "failed"]:
        """How it stands."""
        if not self.future.done():
            return "running"
        return "failed" if self.future.exception() is not None else "done"

    def body(self) -> dict[str, Any]:
        """As it is sent."""
        status = self.status
        error = self.future.exception() if status == "failed" else None
        return {
            "id": self.id,
            "memory": self.memory_id,
            "status": status,
            "created_at": self.created_at.isoformat(),
            "result": self.future.result() if status == "done" else None,
            "problem": None if error is None else problem_document(problem_of(error), self.id),
        }


class Operations:
    """Those of one server.

    Args:
        mark: what their ids begin with; see `ServerSettings.mark`.
    """

    def __init__(self, mark: str = "") -> None:
        self._mark = mark
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="plume-operation")
        self._kept: OrderedDict[str, Operation] = OrderedDict()
        self._lock = Lock()

    def begin(self, tenant: str, memory_id: str, work: Callable[[], dict[str, Any]]) -> Operation:
        """Begin one; it runs in a thread whoever waits for it."""
        number = f"op_{self._mark}{secrets.token_hex(13)}"
        future = self._threads.submit(work)
        made = Operation(number, tenant, memory_id, datetime.now(UTC), time.monotonic(), future)
        with self._lock:
            self._kept[number] = made
            self._tidy()
        return made

    def get(self, number: str) -> Operation | None:
        """Return one; None where there is none, or not any more."""
        with self._lock:
            return self._kept.get(number)

    def close(self) -> None:
        """Wait for those that run."""
        self._threads.shutdown()

    def _tidy(self) -> None:
        """Let go of what is over: the oldest first, and none that runs."""
        now = time.monotonic()
        for number, one in list(self._kept.items()):
            if one.future.done() and (len(self._kept) > _MOST or now - one.begun > _KEPT_S):
                del self._kept[number]


async def within(operation: Operation, seconds: float) -> bool:
    """Wait for an operation so long; tell whether it is over."""
    waiting = asyncio.wrap_future(operation.future)
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen, also if nobody waits any more
    await asyncio.wait({waiting}, timeout=seconds)
    return operation.future.done()
