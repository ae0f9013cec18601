"""Derives in the background what updates said: `update(derive="later")` comes here, and so do the integrations.

One thread for any number of memories, a few dozen versions of each in turn. What several updates said is written
together, and what is not derived when the process ends is derived by the next read: the log has it.
"""

import logging
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from plume_memory.errors import MemoryClosed
from plume_memory.forks import Lock, renew_in_child

_LOGGER = logging.getLogger(__name__)
_KEPT_ERRORS = 8
STRIDE = 32
"""Versions that are derived together: what closing waits for, and other memories."""


class Derivable(Protocol):
    """A memory."""

    name: str

    def derive_until(self, number: int) -> None:
        """Derive a version, unless it or a later one is derived."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Versions of one memory that are not derived yet, both ends included."""

    memory: Derivable
    first: int
    last: int


class Deriver:
    """One thread that brings memories' adapters up to date. Safe to share between threads; in a fork it begins anew."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_closed = False
        self._begin_thread()
        renew_in_child(self, Deriver._begin_thread)

    def _begin_thread(self) -> None:
        """Start empty: in a forked child the thread is gone, and what it had begun is the parent's."""
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="plume-derive")  # its thread starts with the first job
        self._waiting: dict[str, _Waiting] = {}
        self._begun: set[Future[None]] = set()
        self._errors: deque[BaseException] = deque(maxlen=_KEPT_ERRORS)

    def begin(self, memory: Derivable, number: int) -> None:
        """Derive a version soon, and with it what waits of the memory's versions before; nothing once it is closed."""
        with self._lock:
            if self._is_closed:
                return
            self._settle()
            known = self._waiting.get(memory.name)
            if known is None:
                with suppress(RuntimeError):  # the interpreter is ending: the next read derives it
                    self._begun.add(self._worker.submit(self._derive, memory.name))
                    self._waiting[memory.name] = _Waiting(memory, number, number)
            else:
                first, last = min(known.first, number), max(known.last, number)
                self._waiting[memory.name] = _Waiting(memory, first, last)

    def flush(self) -> None:
        """Wait for everything begun.

        Raises:
            PlumeError: the first error since the last flush; it was logged when it happened.
        """
        while True:
            with self._lock:
                self._settle()
                begun = list(self._begun)
            if not begun:
                break
            wait(begun)
        with self._lock:
            errors, self._errors = self._errors, deque(maxlen=_KEPT_ERRORS)
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Finish the versions at hand, leave the rest to the next read, and stop the thread. Twice is allowed."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
        self._worker.shutdown()  # what waits finds nothing left to do; cancelled, it would wake no `flush`
        with self._lock:
            self._settle()

    def _derive(self, name: str) -> None:
        """One stride of a memory; the rest of it behind what other memories wait for."""
        with self._lock:
            job = self._waiting.pop(name, None)
            if job is None:
                return
            last = min(job.last, job.first + STRIDE - 1)
        if not threading.main_thread().is_alive():  # the process ends: the next read derives it
            return
        job.memory.derive_until(last)
        if last < job.last:
            with self._lock, suppress(RuntimeError):  # the interpreter is ending
                if self._is_closed:
                    return
                newer = self._waiting.get(name)
                rest = replace(job, first=last + 1)
                if newer is None:
                    self._begun.add(self._worker.submit(self._derive, name))
                self._waiting[name] = replace(rest, last=max(rest.last, newer.last)) if newer else rest

    def _settle(self) -> None:
        """Let go of jobs that are over; keep and report what went wrong, without the frames it went wrong in."""
        for one in [one for one in self._begun if one.done()]:
            self._begun.discard(one)
            error = None if one.cancelled() else one.exception()
            if error is None or isinstance(error, MemoryClosed):  # a closed memory needs no adapter
                continue
            _LOGGER.error("An adapter could not be derived in the background; the log is whole.", exc_info=error)
            self._errors.append(error.with_traceback(None))
