"""Ends in one thread what another one waits for. Knows no model.

What takes long in several steps asks `reason_now` before each: whether what this thread works for was cancelled.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancel:
    """Says to a decode in another thread that nobody waits for it any more. Once said, it stays said."""

    def __init__(self) -> None:
        self._reason: str | None = None

    def __call__(self, reason: str) -> None:
        """End what was given this; the first reason counts."""
        self._reason = self._reason or reason

    @property
    def reason(self) -> str | None:
        """Why; None until it is said."""
        return self._reason


_HEEDED: "ContextVar[Cancel | None]" = ContextVar("heeded", default=None)


@contextmanager
def heeding(cancel: Cancel | None) -> Iterator[None]:
    """Have what this thread does meanwhile end at its next step once it is cancelled."""
    before = _HEEDED.set(cancel)
    try:
        yield
    finally:
        _HEEDED.reset(before)


def reason_now() -> str | None:
    """Return why what this thread works for was cancelled; None while it goes on."""
    cancel = _HEEDED.get()
    return None if cancel is None else cancel.reason
