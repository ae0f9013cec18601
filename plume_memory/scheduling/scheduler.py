"""Continuous batching: queries of any number of threads and memories join one running batch between two of its steps.

There is no thread of its own. Of the threads that wait for an answer one leads: it takes the next step for all, hands
out what came of it, and when it has what it waits for another one leads. So a single caller pays for no handover, a
fork leaves no dead thread behind, and a caller who stops to look at a token holds up nobody.

In float32 the answers are those of one query at a time. In bfloat16 a batch adds up in another order, so that two
candidates within its rounding may change places.
"""

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import torch

from plume_memory.errors import Busy, Cancelled, InvalidInput, counted
from plume_memory.forks import Lock
from plume_memory.model.base import BaseModel
from plume_memory.model.masks import Vocabulary
from plume_memory.model.queries import Decoded, DecodeSettings, Query, Step, collect
from plume_memory.model.running import RunningQueries
from plume_memory.scheduling.requests import Request, Waiting

BATCH = 16
"""Queries of one caller decoded at once where nothing else is said."""

ROWS = 32
"""Rows of a step: each holds an adapter of its own."""

PROMPT_TOKENS = 4096
"""Tokens, states included, from which on no further query joins in the same step: it keeps everybody waiting."""

QUEUE = 4096
"""Queries that may wait."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What a scheduler has done so far, in queries but where said."""

    asked: int = 0
    answered: int = 0
    cancelled: int = 0
    failed: int = 0
    refused: int = 0
    steps: int = 0
    """Steps of the batch."""
    seconds: float = 0.0
    """Of all steps, prompts included."""
    prompts: int = 0
    """Steps in which queries joined."""
    prompt_seconds: float = 0.0
    """Of the prompts alone."""
    rows: int = 0
    """Rows of all steps: rows / steps is the mean batch."""
    waiting: int = 0
    """Now."""
    waiting_rows: int = 0
    """Of those."""
    running: int = 0
    """Now."""
    running_rows: int = 0
    """Of the batch now; those of a query that was closed until its next step."""


class Scheduler:
    """Decodes queries on one base model, for any number of threads.

    Args:
        base: shared by all; its lock is held for one pass at a time.
        fixed_shapes: steps of few rounded shapes (on CUDA captured as graphs); on CUDA by default.
        rows: most rows of a step; the rows of one query are never split.
        queue: queries that may wait before `Busy`.
    """

    def __init__(
        self, base: BaseModel, *, fixed_shapes: bool | None = None, rows: int = ROWS, queue: int = QUEUE
    ) -> None:
        self._base = base
        self._fixed = base.device.type == "cuda" if fixed_shapes is None else fixed_shapes
        self._vocabulary = Vocabulary(base)
        self._most_rows = rows
        self._queue = queue
        # Reentrant: a stream that is collected as garbage is closed in whatever thread that happens.
        self._lock = Lock()
        self._batch = RunningQueries(base, self._vocabulary, fixed=self._fixed)
        self._waiting = Waiting()
        self._by_number: dict[int, Request] = {}
        self._open: list[Request] = []
        self._next = 0
        self._leader: Request | None = None
        self._alone = 0
        """So many queries are decoded one by one, to find whose an error is; one more than are still to begin."""
        self._counters = Counters()

    def decode(
        self, queries: Sequence[Query], settings: DecodeSettings, *, batch: int = BATCH, owner: str = ""
    ) -> list[Decoded]:
        """Decode any number of queries to their ends; the answers in the order given. Errors: `stream`.

        Args:
            queries: any number.
            settings: the same for all.
            batch: most of them decoded at once.
            owner: whose they are: owners take turns.
        """
        if batch < 1:
            raise InvalidInput(f"At least one query is decoded at once; got batch={batch}.")
        steps: list[list[Step]] = [[] for _ in queries]
        for step in self._run(self._request(queries, settings, owner, batch, is_streamed=False)):
            steps[step.query].append(step)
        return [collect(query, own) for query, own in zip(queries, steps, strict=True)]

    def stream(
        self, queries: Sequence[Query], settings: DecodeSettings, *, owner: str = ""
    ) -> Generator[Step, None, None]:
        """Decode queries token by token; steps of different queries are interleaved. Closing it frees their rows.

        Raises:
            PromptTooLong: a prompt leaves no room for an answer in the model's context window.
            FactorsError: an adapter does not fit the model.
            InvalidInput: an empty prompt, or a grammar that this model's vocabulary cannot follow.
            Busy: too many queries wait.
            DeadlineExceeded: `settings.timeout` is over.
            Cancelled: `settings.cancel` was called.
            ForkedEngine: this process is a fork of the one that loaded the model.
        """
        yield from self._run(self._request(queries, settings, owner, BATCH, is_streamed=True))

    def counters(self) -> Counters:
        """What was done so far, and what waits and runs now."""
        with self._lock:
            return replace(
                self._counters,
                waiting=len(self._waiting),
                waiting_rows=self._waiting.rows,
                running=len(self._by_number),
                running_rows=self._batch.rows,
            )

    # --- a caller's side ------------------------------------------------------------------------

    def _request(
        self, queries: Sequence[Query], settings: DecodeSettings, owner: str, most: int, *, is_streamed: bool
    ) -> Request:
        """Refuse what cannot be decoded before anything is."""
        self._base.lock.check()
        for query in queries:
            self._batch.check(query, settings)
        if settings.grammar is not None:
            self._vocabulary.matcher(settings.grammar)
        request = Request(queries, settings, owner, most, is_streamed)
        request.waiting.extend(sorted(range(len(queries)), key=lambda i: queries[i].tokens))  # little padding
        return request

    def _run(self, request: Request) -> Generator[Step, None, None]:
        try:
            self._enter(request)
            while True:
                steps, is_done = self._news(request)
                yield from steps
                if is_done:
                    return
        finally:
            self._close(request)

    def _enter(self, request: Request) -> None:
        with self._lock:
            waiting = len(self._waiting)
            if waiting and waiting + len(request.queries) > self._queue:
                self._count(refused=len(request.queries))
                raise Busy(
                    f"{counted(waiting, 'question waits', 'questions wait')} for {self._base.name!r}, which holds "
                    f"{self._queue}; {len(request.queries)} more were asked. Ask again later."
                )
            self._open.append(request)
            self._waiting.add(request)
            self._count(asked=len(request.queries))

    def _news(self, request: Request) -> tuple[list[Step], bool]:
        """Wait for what a request may take next, or take the steps that bring it."""
        while True:
            self._base.lock.check()  # of a stream that a fork has inherited nobody takes the next step
            with self._lock:
                if request.has_news:
                    if request.error is not None:
                        raise request.error
                    steps = list(request.steps)
                    request.steps.clear()
                    return steps, request.is_done
                leads = self._leader is None
                if leads:
                    self._leader = request
                else:
                    request.wake.clear()
                    request.is_asleep = True
            if not leads:
                request.wake.wait(request.seconds_left)
            try:
                if leads:
                    self._lead(request)
            finally:
                with self._lock:
                    request.is_asleep = False
                    if leads:
                        self._leader = None
                        self._wake_a_leader()
                    self._expire()

    def _close(self, request: Request) -> None:
        """A caller who has all, or wants no more; another one leads."""
        with self._lock:
            if self._leader is request:  # interrupted before it began to lead
                self._leader = None
            if request in self._open:
                self._open.remove(request)
                left = len(request.waiting) + len(request.running)
                self._count(cancelled=left)
                self._forget(request.fail(GeneratorExit()) if left else [])
            request.waiting.clear()
            self._wake_a_leader()

    # --- the leader's side ----------------------------------------------------------------------

    def _lead(self, request: Request) -> None:
        """Take steps for all until there is news for the leader."""
        while not request.has_news:
            new: dict[int, tuple[Query, DecodeSettings]] = {}
            try:
                with self._lock:
                    self._free()
                    new = self._admitted()
                self._turn(new)
            except Exception as err:  # noqa: BLE001 — whatever it is, it is of who is in the batch, not of who leads
                self._fail(new, err)
            except BaseException:  # the leader alone is interrupted
                with self._lock:
                    self._rebuild()
                raise

    def _turn(self, new: dict[int, tuple[Query, DecodeSettings]]) -> None:
        begun = time.monotonic()
        with self._base.lock, torch.inference_mode():
            steps = self._batch.admit(new) if new else []
            prompt_seconds = time.monotonic() - begun if new else 0.0
            rows = self._batch.rows
            steps += self._batch.advance() if rows else []
        with self._lock:
            self._give(steps)
            for number, error in self._batch.failed.items():
                if (request := self._by_number.get(number)) is not None:
                    self._end(request, error)
            self._batch.failed.clear()
            self._count(steps=1, rows=rows, seconds=time.monotonic() - begun)
            self._count(prompts=bool(new), prompt_seconds=prompt_seconds)
            self._expire()

    def _admitted(self) -> dict[int, tuple[Query, DecodeSettings]]:
        """Queries that join now, in turns by owner, as many as there are rows for."""
        found: dict[int, tuple[Query, DecodeSettings]] = {}
        if self._alone:
            if self._by_number:
                return found
            self._alone -= 1
        rows, tokens = self._most_rows - self._batch.rows, 0
        if not self._by_number:
            rows = max(rows, 2)  # no query is too large for an empty batch
        while (one := self._waiting.next(rows)) is not None:
            request, query = one
            self._by_number[self._next] = request
            request.running[self._next] = query
            found[self._next] = request.queries[query], request.settings
            rows -= len(request.queries[query].rows)
            tokens += sum(row.tokens for row in request.queries[query].rows)
            self._next += 1
            if self._alone or tokens >= PROMPT_TOKENS:
                break
        return found

    def _give(self, steps: Sequence[Step]) -> None:
        """Hand out what a turn brought, and wake who waited for it."""
        for step in steps:
            request = self._by_number.get(step.query)
            if request is None:  # closed while the step was taken
                continue
            request.take(step.query, step)
            if step.finish_reason is not None:
                del self._by_number[step.query]
                self._count(answered=1)
        for request in self._open:
            if request.is_asleep and request.has_news:
                request.is_asleep = False
                request.wake.set()

    def _fail(self, new: dict[int, tuple[Query, DecodeSettings]], error: Exception) -> None:
        """A turn that raised. Of several in it each is decoded alone, so that the error comes to whose it is."""
        with self._lock:
            numbers = list(new) if len(new) == 1 else list(self._by_number)
            if len(numbers) == 1 and (request := self._by_number.get(numbers[0])) is not None:
                self._end(request, error)
            elif len(numbers) > 1:
                self._alone = len(numbers) + 1
            self._rebuild()

    def _end(self, request: Request, error: BaseException) -> None:
        """An error for who waits for it."""
        left = len(request.waiting) + len(request.running)
        self._count(**{"cancelled" if isinstance(error, Cancelled) else "failed": left})
        self._forget(request.fail(error))
        request.wake.set()

    def _rebuild(self) -> None:
        """A new batch: what was running is decoded anew from its prompts; what was given of it stays given."""
        self._batch = RunningQueries(self._base, self._vocabulary, fixed=self._fixed)
        for request in list(self._by_number.values()):
            request.begin_again()
            self._waiting.add(request)
        self._by_number.clear()

    def _expire(self) -> None:
        """End the requests that are cancelled, or whose time is over."""
        for request in list(self._open):
            if not request.is_done and (error := request.over()) is not None:
                self._end(request, error)

    def _forget(self, numbers: Sequence[int]) -> None:
        """Free the rows of queries that nobody waits for, now or with the next turn."""
        for number in numbers:
            self._by_number.pop(number, None)
        if self._leader is None:
            self._free()

    def _free(self) -> None:
        for number in self._batch.numbers - self._by_number.keys():
            self._batch.leave(number)

    def _wake_a_leader(self) -> None:
        if self._leader is None:
            asleep = next((one for one in self._open if one.is_asleep), None)
            if asleep is not None:
                asleep.wake.set()

    def _count(self, **more: float) -> None:
        added = {name: getattr(self._counters, name) + value for name, value in more.items()}
        self._counters = replace(self._counters, **added)
