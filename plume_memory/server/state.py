"""What every room of the server uses: made once, handed to each by the app. Nothing in it is replaced."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from plume_memory.errors import IntegrityError, StoreError
from plume_memory.pool import MemoryPool
from plume_memory.server.answers import Answers
from plume_memory.server.auth import Caller, caller_of
from plume_memory.server.limits import Limits
from plume_memory.server.metrics import Metrics
from plume_memory.server.operations import Operations
from plume_memory.server.settings import ServerSettings
from plume_memory.server.telemetry import Telemetry
from plume_memory.server.traces import Traces
from plume_memory.store.directory import Directory
from plume_memory.store.keys import Keys

_Result = TypeVar("_Result")


@dataclass(slots=True)
class Condition:
    """What changes while the server runs."""

    is_warm: bool = False
    """The model is loaded and has answered."""
    is_draining: bool = False
    """No more work is taken."""
    is_broken: bool = False
    """A log did not verify: somebody has to look."""
    in_flight: int = 0
    """Requests that are being answered."""
    steps: int = 0
    """Of the scheduler, when they were last seen to change."""
    stepped: float = field(default_factory=time.monotonic)
    """When that was."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The server's parts."""

    pool: MemoryPool
    settings: ServerSettings
    directory: Directory
    keys: Keys
    limits: Limits
    answers: Answers
    traces: Traces
    operations: Operations
    metrics: Metrics
    telemetry: Telemetry
    condition: Condition

    @classmethod
    def of(cls, pool: MemoryPool, settings: ServerSettings) -> "Serving":
        """Make the parts that stand on a pool."""
        return cls(
            pool=pool,
            settings=settings,
            directory=Directory(pool.database),
            keys=Keys(pool.database),
            limits=Limits(requests_per_minute=settings.requests_per_minute, rows_per_minute=settings.rows_per_minute),
            answers=Answers(settings.answers_at_once, settings.answer_s),
            traces=Traces(settings.traces, settings.trace_s),
            operations=Operations(),
            metrics=Metrics(lambda: pool.loaded_engine, pool.artifacts),
            telemetry=Telemetry(),
            condition=Condition(),
        )

    def is_allowed(self, caller: Caller) -> Callable[[], bool]:
        """Return what tells whether a caller's key still opens."""
        key_id = caller.key_id
        return lambda: key_id is None or self.keys.is_valid(key_id)

    def failed(self, error: BaseException) -> None:
        """Note an error that a request met."""
        if isinstance(error, StoreError):
            self.metrics.store_errors.labels(type(error).__name__).inc()
        if isinstance(error, IntegrityError):
            self.condition.is_broken = True

    def close(self) -> None:
        """End what runs and release everything."""
        self.answers.cancel_all("the server stops")
        self.answers.close()
        self.operations.close()
        self.pool.close()


def serving_of(request: Request) -> Serving:
    """Return the parts of the server that a request came to."""
    found: Serving = request.app.state.serving
    return found


async def identified(request: Request) -> Caller:
    """Return who a request is from, and count it.

    Raises:
        Refused: 401, 403 or 429.
    """
    serving = serving_of(request)
    headers = request.headers
    caller = await run_in_threadpool(
        lambda: caller_of(
            serving.keys,
            serving.settings,
            authorization=headers.get("authorization", ""),
            host=headers.get("host", ""),
            origin=headers.get("origin"),
        )
    )
    request.state.tenant = caller.tenant
    request.state.rate = serving.limits.request(caller.key_id)
    return caller


async def stored(work: Callable[[], _Result]) -> _Result:
    """Run what reads or writes the log in a thread."""
    return await run_in_threadpool(work)


ServingNow = Annotated[Serving, Depends(serving_of)]
Identified = Annotated[Caller, Depends(identified)]
