"""What is being answered: threads that wait for the model, and how each of them is told to stop.

The library is synchronous: an answer takes a thread until it is there. They are threads of their own, so that a full
house of questions holds up neither a write nor a look at the log. An asyncio task that is cancelled, a client that
leaves, an erasure and a server that stops all end a decode the same way, by `Cancel`: its rows are free one step later.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from starlette.requests import Request

from plume_memory.cancel import Cancel, heeding
from plume_memory.errors import Busy, Cancelled, counted
from plume_memory.forks import Lock

_Result = TypeVar("_Result")
GONE = "its client went away"


class Answers:
    """The answers of one server.

    Args:
        most: at once.
        longest_s: one may take, from its place to its last word.
    """

    def __init__(self, most: int, longest_s: float) -> None:
        self._most, self._longest_s = most, longest_s
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="plume-answer")
        self._running: set[RunningAnswer] = set()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, memory: str | None, within_s: float | None = None) -> "RunningAnswer":
        """Take a place for an answer from a memory. `end` gives it back.

        Args:
            memory: the log's name; None: the bare model's.
            within_s: how long it may take; as long as any where not said.

        Raises:
            Busy: every place is taken.
        """
        with self._lock:
            if len(self._running) >= self._most:
                held = counted(self._most, "question is", "questions are")
                raise Busy(f"{held} being answered or waiting, and no more are held. Ask again later.")
            begun = RunningAnswer(self, memory, self._longest_s if within_s is None else within_s)
            self._running.add(begun)
        return begun

    def cancel_of(self, memories: set[str], reason: str) -> None:
        """End every answer that is being made from one of these memories."""
        for one in self._now():
            if one.memory in memories:
                one.cancel(reason)

    def cancel_all(self, reason: str) -> None:
        """End every answer."""
        for one in self._now():
            one.cancel(reason)

    def close(self) -> None:
        """Wait for what runs and stop the threads."""
        self._threads.shutdown()

    def submit(self, work: "Callable[[], _Result]") -> "Future[_Result]":
        """Run something in a thread."""
        return self._threads.submit(work)

    def remove(self, one: "RunningAnswer") -> None:
        """Give a place back; twice is allowed."""
        with self._lock:
            self._running.discard(one)

    def _now(self) -> "list[RunningAnswer]":
        with self._lock:
            return list(self._running)


class RunningAnswer:
    """One place among the answers."""

    def __init__(self, answers: Answers, memory: str | None, within_s: float) -> None:
        self.memory = memory
        """The log's name of the memory it is made from."""
        self.cancel = Cancel(time.monotonic() + within_s)
        self._answers = answers

    def submit(self, work: Callable[[], _Result]) -> "Future[_Result]":
        """Run a part of it in a thread; cancelled, it reads no further text and decodes no further token."""

        def heeded() -> _Result:
            with heeding(self.cancel):
                return work()

        context = copy_context()  # of the request: what watches it, and its span
        return self._answers.submit(lambda: context.run(heeded))

    def end(self) -> None:
        """Give the place back; twice is allowed."""
        self._answers.remove(self)


async def waited(request: Request, running: RunningAnswer, work: Callable[[], _Result]) -> _Result:
    """Run a part of an answer in a thread and wait for it, as long as its client does.

    Raises:
        Cancelled: the client went away.
        PlumeError: of `work`.
    """
    future = asyncio.wrap_future(running.submit(work))
    gone = asyncio.ensure_future(disconnected(request.receive))
    both: set[asyncio.Future[Any]] = {future, gone}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            raise Cancelled(f"The answer was cancelled: {GONE}.")
        return future.result()
    finally:
        gone.cancel()
        if not future.done():  # the client left, or this task was cancelled: the thread ends with the next step
            running.cancel(GONE)
            future.add_done_callback(_taken)


async def disconnected(receive: Callable[[], Awaitable[object]]) -> None:
    """Return when the client has gone; what else it sends is not read any more."""
    while True:
        message = await receive()
        if isinstance(message, dict) and message.get("type") == "http.disconnect":
            return


def _taken(future: "asyncio.Future[Any]") -> None:
    """Look at an error that nobody waits for: asyncio complains of one that nobody saw."""
    if not future.cancelled():
        future.exception()
