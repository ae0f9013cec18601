"""What waits for the model and what it was given so far. For a caller that holds the scheduler's lock."""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from plume_memory.errors import Cancelled, DeadlineExceeded, PlumeError, counted
from plume_memory.model.queries import DecodeSettings, Query, Step


@dataclass(slots=True, eq=False)
class Request:
    """Some queries of one caller, decoded side by side."""

    queries: Sequence[Query]
    settings: DecodeSettings
    owner: str
    most: int
    """Queries of it that are decoded at once."""
    is_streamed: bool
    """Its caller wants every step as it comes; else all at the end."""
    steps: deque[Step] = field(default_factory=deque)
    waiting: deque[int] = field(default_factory=deque)
    """Queries that are not decoded yet."""
    running: dict[int, int] = field(default_factory=dict)
    """Number in the batch → query."""
    given: dict[int, int] = field(default_factory=dict)
    """Query → steps it has been given: what is decoded anew after an interrupt is not given twice."""
    skipped: dict[int, int] = field(default_factory=dict)
    """Query → steps of them that are still to come again."""
    error: BaseException | None = None
    wake: threading.Event = field(default_factory=threading.Event)
    is_asleep: bool = False
    begun: float = field(default_factory=time.monotonic)

    @property
    def is_done(self) -> bool:
        """Whether nothing more comes."""
        return self.error is not None or not (self.waiting or self.running)

    @property
    def has_news(self) -> bool:
        """Whether its caller has something to take."""
        return self.is_done or (self.is_streamed and bool(self.steps))

    @property
    def seconds_left(self) -> float | None:
        """Until its deadline; None without one."""
        ends = [end for end, _ in self._ends()]
        return min(min(ends) - time.monotonic(), threading.TIMEOUT_MAX) if ends else None

    def _ends(self) -> Iterator[tuple[float, float]]:
        """When its time is over, and when that time began."""
        if self.settings.timeout is not None:
            yield self.begun + self.settings.timeout, self.begun
        cancel = self.settings.cancel
        if cancel is not None and cancel.deadline is not None:
            yield cancel.deadline, cancel.begun  # of the whole answer: it may have begun with reading

    def take(self, number: int, step: Step) -> None:
        """Keep a step of one of its queries."""
        query = self.running[number]
        if step.finish_reason is not None:
            del self.running[number]
        if self.skipped.get(query, 0):
            self.skipped[query] -= 1
            if step.finish_reason is None:
                return
            step = replace(step, text="")  # anew it ends sooner than before: what was given stays given
        self.given[query] = self.given.get(query, 0) + 1
        self.steps.append(Step(query, step.text, step.trace, step.finish_reason))

    def begin_again(self) -> None:
        """Its running queries are decoded anew; of a stream what was given is not given again."""
        again = set(self.running.values())
        for query in sorted(again, reverse=True):
            self.waiting.appendleft(query)
            if self.is_streamed:
                self.skipped[query] = self.given.get(query, 0)
            else:
                self.given[query] = 0
        if not self.is_streamed:
            self.steps = deque(step for step in self.steps if step.query not in again)
        self.running.clear()

    def fail(self, error: BaseException) -> list[int]:
        """End it with an error; returns the numbers of what it had running."""
        gone = list(self.running)
        self.error = error
        self.running.clear()
        self.waiting.clear()
        return gone

    def over(self) -> PlumeError | None:
        """The error of a request that is cancelled, or whose time is over."""
        if self.settings.cancel is not None and self.settings.cancel.reason is not None:
            return Cancelled(f"The answer was cancelled: {self.settings.cancel.reason}.")
        left = self.seconds_left
        if left is None or left > 0:
            return None
        end, begun = min(self._ends())
        done = sum(self.given.values())
        return DeadlineExceeded(
            f"An answer was asked for within {end - begun:.3g} s; {counted(done, 'token was', 'tokens were')} "
            f"decoded by then, and {len(self.waiting)} of {counted(len(self.queries), 'question')} not begun. Give it "
            "more time, or ask for fewer tokens."
        )


class Waiting:
    """Requests with queries that are not decoded yet, in turns by owner: who asks much delays himself."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, deque[Request]] = OrderedDict()

    def __len__(self) -> int:
        return sum(len(one.waiting) for requests in self._owners.values() for one in requests)

    @property
    def rows(self) -> int:
        """Rows of the queries that wait."""
        requests = [one for own in self._owners.values() for one in own]
        return sum(len(one.queries[query].rows) for one in requests for query in one.waiting)

    def add(self, request: Request) -> None:
        """Behind what its owner has asked before; once."""
        requests = self._owners.setdefault(request.owner, deque())
        if request not in requests:
            requests.append(request)

    def next(self, rows: int) -> tuple[Request, int] | None:
        """The query whose turn it is, if it fits into so many rows; None: nobody's does.

        A query that does not fit waits for room before later ones of others: else it would wait for ever.
        """
        for owner, requests in list(self._owners.items()):
            request = self._first(requests)
            if request is None:
                if not any(one.waiting for one in requests):
                    del self._owners[owner]
                continue
            query = request.waiting[0]
            if len(request.queries[query].rows) > rows:
                return None
            request.waiting.popleft()
            self._owners.move_to_end(owner)
            return request, query
        return None

    @staticmethod
    def _first(requests: deque[Request]) -> Request | None:
        while requests and not requests[0].waiting:
            requests.popleft()
        return next((one for one in requests if one.waiting and len(one.running) < one.most), None)
