"""What a forked child does with what its parent had made: locks are open, threads are gone, a model is refused.

`fork` copies one thread. A lock that another thread held stays held for ever in the child, and PyTorch's own threads
are not there: the child hangs in its first multiplication (gunicorn --preload, Celery's prefork, multiprocessing).
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from plume_memory.errors import ForkedEngine

_RENEWED: "weakref.WeakKeyDictionary[object, Callable[[Any], None]]" = weakref.WeakKeyDictionary()


def renew_in_child(owner: object, renew: Callable[[Any], None]) -> None:
    """Have `renew(owner)` called in every child forked while the owner lives. It must take no lock."""
    _RENEWED[owner] = renew


def _renew_all() -> None:
    for owner, renew in list(_RENEWED.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):  # Windows forks nothing
    os.register_at_fork(after_in_child=_renew_all)


class Lock:
    """`threading.Lock`, open in a forked child whoever held it in the parent."""

    def __init__(self) -> None:
        self._renew()
        renew_in_child(self, Lock._renew)

    def _renew(self) -> None:
        self._lock = self._new()

    def _new(self) -> Any:
        return threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


class ReentrantLock(Lock):
    """`threading.RLock`, open in a forked child whoever held it in the parent."""

    def _new(self) -> Any:
        return threading.RLock()


class FairLock:
    """A reentrant lock that is given in the order it was asked for, open in a forked child.

    A plain lock is taken again by who has just let go of it: a decode would keep out everybody who reads.
    """

    def __init__(self) -> None:
        self._renew()
        renew_in_child(self, FairLock._renew)

    def _renew(self) -> None:
        self._mutex = threading.Lock()
        self._holder: int | None = None
        self._depth = 0
        self._waiting: deque[tuple[int, threading.Event]] = deque()

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._mutex:
            if self._holder in (None, me):
                self._holder, self._depth = me, self._depth + 1
                return
            turn = threading.Event()
            self._waiting.append((me, turn))
        try:
            turn.wait()
        except BaseException:  # interrupted while it waited: nobody waits for a turn that nobody takes
            with self._mutex:
                if turn.is_set():
                    self._hand_over()
                else:
                    self._waiting.remove((me, turn))
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._mutex:
            self._hand_over()

    def _hand_over(self) -> None:
        self._depth -= 1
        if self._depth:
            return
        self._holder = None
        if self._waiting:
            self._holder, turn = self._waiting.popleft()
            self._depth = 1
            turn.set()


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

    def __enter__(self) -> None:
        self.check()
        super().__enter__()
