"""What a piece of work spends its time on, for whoever watches it; nobody does unless he says so.

What is done says which stage it is in. A server makes spans of them, and here nothing is known of spans.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

StageName = Literal["create", "search", "write", "decode", "answer"]
"""A text is appended; what bears on a question is looked up; its adapters are made; tokens are; all of it was."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One that is over."""

    name: StageName
    begun_ns: int
    """Since the epoch."""
    ended_ns: int
    said: dict[str, Any]
    """What it was about: texts too."""
    error: str | None
    """Name of the class of what it failed with."""


_WATCHED: "ContextVar[list[Stage] | None]" = ContextVar("watched", default=None)


@contextmanager
def watching(is_on: bool = True) -> Iterator[list[Stage]]:
    """Give a list that takes the stages of what is done meanwhile, also in threads that run in this context."""
    stages: list[Stage] = []
    before = _WATCHED.set(stages if is_on else None)
    try:
        yield stages
    finally:
        _WATCHED.reset(before)


@contextmanager
def stage(name: StageName) -> Iterator[dict[str, Any]]:
    """Be a stage; what is put into the dictionary is what it was about."""
    stages, begun, said = _WATCHED.get(), time.time_ns(), dict[str, Any]()
    error = None
    try:
        yield said
    except Exception as err:
        error = type(err).__name__
        raise
    finally:
        if stages is not None:
            stages.append(Stage(name, begun, time.time_ns(), said, error))
