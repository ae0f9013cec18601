"""Work that several threads ask of the model at once, done in one pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from plume_memory.errors import PlumeError
from plume_memory.forks import Lock, ModelLock

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class _Job(Generic[Item, Result]):
    items: Sequence[Item]
    results: Sequence[Result] | None = None


class Together(Generic[Item, Result]):
    """Calls that wait for the model while another pass runs are made as one call.

    Who gets the model first does what all of them asked for; the others find it done.

    Args:
        lock: of the model; held while `run` runs.
        run: items → a result of each, in their order; what it gives an item does not depend on the others.
    """

    def __init__(self, lock: ModelLock, run: Callable[[Sequence[Item]], Sequence[Result]]) -> None:
        self._model = lock
        self._run = run
        self._queue: list[_Job[Item, Result]] = []
        self._lock = Lock()

    def __call__(self, items: Sequence[Item]) -> list[Result]:
        """Return a result for each item. Errors: those of `run` for these items alone."""
        if not items:
            return []
        job: _Job[Item, Result] = _Job(items)
        with self._lock:
            self._queue.append(job)
        try:
            with self._model:
                if job.results is None:
                    self._run_all(job)
        finally:
            with self._lock:
                if job in self._queue:  # interrupted while it waited
                    self._queue.remove(job)
        assert job.results is not None, "its own call made them, or another's did"
        return list(job.results)

    def _run_all(self, own: _Job[Item, Result]) -> None:
        with self._lock:
            jobs, self._queue = self._queue, []
        others = [job for job in jobs if job is not own]
        if others:
            try:
                results = iter(self._run([item for job in [own, *others] for item in job.items]))
            except (PlumeError, RuntimeError, MemoryError):
                pass  # whose it is shows when each does its own
            else:
                for job in [own, *others]:
                    job.results = [next(results) for _ in job.items]
                return
        own.results = self._run(own.items)
