"""What a forked child does with what its parent had made: locks are open, threads are gone, a model is refused.

`fork` copies one thread. A lock that another thread held stays held for ever in the child, and PyTorch's own threads
are not there: the child hangs in its first multiplication (gunicorn --preload, Celery's prefork, multiprocessing).
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from plume_memory.errors import ForkedEngine

if TYPE_CHECKING:  # typeshed calls the real one final, and knows half of it

    class _RLock:
        def __enter__(self) -> bool: ...
        def __exit__(self, *error: object) -> None: ...
        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
        def release(self) -> None: ...
        def _recursion_count(self) -> int: ...
        def _is_owned(self) -> bool: ...
        def _at_fork_reinit(self) -> None: ...
else:
    from _thread import RLock as _RLock

_WAITS_S = 1.0
"""A fork does not wait longer for other threads: somebody may fork in the middle of an import of hours."""

_RENEWED: "weakref.WeakKeyDictionary[object, Callable[[Any], None]]" = weakref.WeakKeyDictionary()


def renew_in_child(owner: object, renew: Callable[[Any], None]) -> None:
    """Have `renew(owner)` called in every child forked while the owner lives. It must take no lock."""
    _RENEWED[owner] = renew


def _renew_all() -> None:
    for owner, renew in list(_RENEWED.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):  # Windows forks nothing
    os.register_at_fork(after_in_child=_renew_all)


class Lock(_RLock):
    """`threading.RLock`, open in a forked child whoever held it in the parent.

    Nothing of it is Python: an exception that a signal raises, between any two lines, cannot leave it held.
    """

    def __init__(self) -> None:
        super().__init__()
        renew_in_child(self, Lock._at_fork_reinit)


class ForkGate:
    """Holds back a fork while other threads are in a C library that has locks of its own; one for each library.

    SQLite's are the process's: a fork while another thread is in `sqlite3_malloc` gives a child that waits for ever in
    its first `sqlite3_open`, on a connection of its own too.
    """

    def __init__(self) -> None:
        self._door = Lock()
        self._inside: dict[object, int] = {}
        """The thread of each use that is going on."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._close, after_in_parent=self._door.release, after_in_child=self._reopen)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Use the library: a fork in another thread waits for the end, a second at most, and lets nobody in."""
        use, thread = object(), threading.get_ident()
        try:
            if thread in list(self._inside.values()):  # whoever is in may go further in
                self._inside[use] = thread
            else:
                with self._door:
                    self._inside[use] = thread
            yield
        finally:
            self._inside.pop(use, None)  # None: it was begun before the fork that made this process

    def _close(self) -> None:
        self._door.acquire()
        deadline = time.monotonic() + _WAITS_S
        while self._others() and time.monotonic() < deadline:
            time.sleep(0.0005)

    def _others(self) -> bool:
        return any(thread != threading.get_ident() for thread in list(self._inside.values()))

    def _reopen(self) -> None:
        self._inside.clear()
        self._door._at_fork_reinit()


class FairLock(Lock):
    """A lock that its holder does not get again before the one that is next.

    A plain lock is taken again by who has just let go of it: a decode would keep out everybody who reads.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turnstile = Lock()
        """Held by the one who is next."""

    def __enter__(self) -> bool:
        held = self._times()
        try:
            if held:
                return self.acquire()
            with self._turnstile:
                return self.acquire()
        except BaseException:  # interrupted while it waited, or when it had just been given
            if self._times() > held:
                self.release()
            raise

    def _times(self) -> int:
        """How often this thread holds it; before Python 3.11.6 whether."""
        return self._recursion_count() if hasattr(self, "_recursion_count") else int(self._is_owned())


class ModelLock(FairLock):
    """Held for one forward pass at a time, in the process that loaded the model alone."""

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    def check(self) -> None:
        """Raise where the model cannot run.

        Raises:
            ForkedEngine: this process is a fork of the one that loaded the model.
        """
        if os.getpid() != self._process:
            raise ForkedEngine(
                f"The model was loaded in process {self._process}, of which process {os.getpid()} is a fork: PyTorch's "
                f"threads are not in it, it would wait for ever. Load the model after the fork: make the engine, "
                f"memory or pool in each worker (gunicorn: without --preload, or in post_fork; Celery: in "
                f"worker_process_init), or start the process by spawn."
            )

    def __enter__(self) -> bool:
        self.check()
        return super().__enter__()
