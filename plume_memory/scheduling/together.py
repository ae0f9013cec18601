"""Work that several threads ask of the model at once, done in one pass."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from plume_memory.forks import FairLock, Lock

MOST = 64
"""Calls that one does for others: the first of them waits for all."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class _Job(Generic[Item, Result]):
    items: Sequence[Item]
    results: Sequence[Result] | None = None


class Together(Generic[Item, Result]):
    """Calls that wait for the model while another pass runs are made as one call.

    One call runs at a time; who comes next does what all have asked for meanwhile, and the others find it done.

    Args:
        run: items → a result of each, in their order; what it gives an item does not depend on the others. It takes the
            model's lock itself, for a batch at a time.
    """

    def __init__(self, run: Callable[[Sequence[Item]], Sequence[Result]]) -> None:
        self._run = run
        self._turn = FairLock()
        self._queue: list[_Job[Item, Result]] = []
        self._lock = Lock()
        self.calls = 0
        """Passes so far."""
        self.seconds = 0.0
        """Of all passes, the wait for the model's lock included."""

    def __call__(self, items: Sequence[Item]) -> list[Result]:
        """Return a result for each item. Errors: those of `run` for these items alone."""
        if not items:
            return []
        job: _Job[Item, Result] = _Job(items)
        with self._lock:
            self._queue.append(job)
        try:
            with self._turn:
                if job.results is None:
                    begun = time.monotonic()
                    try:
                        self._run_all(job)
                    finally:
                        self.calls += 1
                        self.seconds += time.monotonic() - begun
        finally:
            with self._lock:
                if job in self._queue:  # interrupted while it waited
                    self._queue.remove(job)
        assert job.results is not None, "its own call made them, or another's did"
        return list(job.results)

    def _run_all(self, own: _Job[Item, Result]) -> None:
        with self._lock:
            others = [job for job in self._queue if job is not own][:MOST]
            self._queue = [job for job in self._queue if job is not own and job not in others]
        if others:
            with suppress(Exception):  # whose the error is shows when each does its own
                results = iter(self._run([item for job in [own, *others] for item in job.items]))
                for job in [own, *others]:
                    job.results = [next(results) for _ in job.items]
                return
        own.results = self._run(own.items)
