"""Derives adapters beside the conversation: an agent's reply does not wait for what only the next one needs."""

import logging
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Literal

from plume_memory.errors import InvalidInput, MemoryClosed
from plume_memory.forks import Lock, renew_in_child

if TYPE_CHECKING:
    from plume_memory.memory import ParametricMemory

Derive = Literal["background", "now", "later"]

_LOGGER = logging.getLogger(__name__)
_KEPT_ERRORS = 8


class Deriver:
    """One thread that brings memories' adapters up to date; the newest version at that time is enough."""

    def __init__(self, derive: Derive) -> None:
        """Choose when; see `PlumeMemoryMiddleware`.

        Raises:
            InvalidInput: none of background, now, later.
        """
        if derive not in ("background", "now", "later"):
            raise InvalidInput(f"derive is background, now or later; got {derive!r}.")
        self._derive: Derive = derive
        self._lock = Lock()
        self._begin_thread()
        renew_in_child(self, Deriver._begin_thread)
        self._errors: deque[BaseException] = deque(maxlen=_KEPT_ERRORS)

    def _begin_thread(self) -> None:
        """Start empty: in a forked child the thread is gone, and what it had begun is the parent's."""
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="plume-derive")
        self._begun: set[Future[None]] = set()

    def begin(self, memory: "ParametricMemory") -> None:
        """Derive a memory's newest version: now, soon, or not here."""
        if self._derive == "now":
            memory.at().derive()
            return
        with self._lock:
            if self._derive == "later":
                return
            self._settle()
            # the newest by then: of several updates in a row, the first job derives all and the others find it done
            self._begun.add(self._worker.submit(lambda: memory.at().derive()))

    def flush(self) -> None:
        """Wait for everything begun and raise the first error since the last flush."""
        with self._lock:
            begun = list(self._begun)
        wait(begun)
        with self._lock:
            self._settle()
            errors, self._errors = self._errors, deque(maxlen=_KEPT_ERRORS)
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Finish what was begun and stop the thread."""
        with self._lock:
            self._derive = "later"
        self._worker.shutdown()
        with self._lock:
            self._settle()

    def _settle(self) -> None:
        """Let go of jobs that are over; keep and report what went wrong, without the frames it went wrong in."""
        for one in [one for one in self._begun if one.done()]:
            self._begun.discard(one)
            error = one.exception()
            if error is None or isinstance(error, MemoryClosed):  # a closed memory needs no adapter
                continue
            _LOGGER.error("An adapter could not be derived in the background; the log is whole.", exc_info=error)
            self._errors.append(error.with_traceback(None))
