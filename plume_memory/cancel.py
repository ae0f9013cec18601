"""Ends in one thread what another one waits for. Knows no model.

What takes long in several steps looks before each at what its thread heeds: whether anybody still waits for it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancel:
    """Says to a decode in another thread that nobody waits for it any more. Once said, it stays said.

    Args:
        deadline: when nobody waits for it in any case, as `time.monotonic` counts; None: somebody does for ever.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self.begun = time.monotonic()
        self.deadline = deadline
        self._reason: str | None = None

    def __call__(self, reason: str) -> None:
        """End what was given this; the first reason counts."""
        self._reason = self._reason or reason

    @property
    def reason(self) -> str | None:
        """Why; None until it is said."""
        return self._reason

    @property
    def is_late(self) -> bool:
        """Whether the deadline is over."""
        return self.deadline is not None and time.monotonic() > self.deadline


_HEEDED: "ContextVar[Cancel | None]" = ContextVar("heeded", default=None)


@contextmanager
def heeding(cancel: Cancel | None) -> Iterator[None]:
    """Have what this thread does meanwhile end at its next step once it is cancelled."""
    before = _HEEDED.set(cancel)
    try:
        yield
    finally:
        _HEEDED.reset(before)


def heeded() -> Cancel:
    """Return what ends the work of this thread; one that never does where nothing was said."""
    return _HEEDED.get() or Cancel()
