"""How much one key may ask for: token buckets on requests and on decode rows, in this process alone.

With several processes each has buckets of its own: a key then gets as many times the rate.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from plume_memory.forks import Lock
from plume_memory.server.problems import Problem, Refused

_KEPT = 10_000
"""Callers that are told apart; the one who has asked for nothing for the longest time begins anew."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a caller may still ask for, as OpenAI's `x-ratelimit-*` headers say it."""

    limit: int
    remaining: int
    reset_s: float
    """Until all of it is there again."""

    def headers(self) -> dict[str, str]:
        """The headers of requests."""
        return {
            "x-ratelimit-limit-requests": str(self.limit),
            "x-ratelimit-remaining-requests": str(self.remaining),
            "x-ratelimit-reset-requests": f"{self.reset_s:.3f}s",
        }


class _Buckets:
    """One bucket for each caller: full at first, filled evenly."""

    def __init__(self, what: str, per_minute: int, clock: Callable[[], float]) -> None:
        self._what, self._limit, self._clock = what, per_minute, clock
        self._per_s = per_minute / 60
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Caller → what is left, and when."""
        self._lock = Lock()

    def take(self, who: str, amount: int) -> Left:
        """Take so much.

        Raises:
            Refused: 429, with the seconds until there is enough.
        """
        with self._lock:
            now = self._clock()
            level, since = self._levels.pop(who, (float(self._limit), now))
            level = min(self._limit, level + (now - since) * self._per_s)
            enough = level >= amount
            level -= amount if enough else 0
            self._levels[who] = (level, now)
            while len(self._levels) > _KEPT:
                self._levels.popitem(last=False)
        if not enough:
            wait_s = math.ceil((amount - level) / self._per_s)
            detail = f"More than {self._limit} {self._what} a minute were asked for with this key; wait {wait_s} s."
            raise Refused(Problem(429, "rate-limited", detail, retry_after_s=wait_s))
        return Left(self._limit, int(level), (self._limit - level) / self._per_s)


class Limits:
    """The buckets of all callers."""

    def __init__(
        self, *, requests_per_minute: int, rows_per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._requests = _Buckets("requests", requests_per_minute, clock)
        self._rows = _Buckets("decode rows", rows_per_minute, clock)

    def request(self, who: str | None) -> Left:
        """Count one request of a key (None: of all who have none).

        Raises:
            Refused: 429.
        """
        return self._requests.take(who or "", 1)

    def rows(self, who: str | None, rows: int) -> None:
        """Count the decode rows of a question.

        Raises:
            Refused: 429.
        """
        self._rows.take(who or "", rows)
