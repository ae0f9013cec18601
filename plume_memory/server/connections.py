"""Connections that nobody asks anything on: closed after a while, and the oldest of them where there are too many.

uvicorn closes a connection that was idle since its last answer. One on which a request never comes, or never whole, it
holds for ever; a thousand of them would be all that a process may open.
"""

import asyncio
import itertools

from uvicorn.protocols.http.h11_impl import H11Protocol

_TURNS = itertools.count()
"""Which connection began to wait first: a loop's clock may count milliseconds only, in which many come."""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 on one connection. Its subclass says how patient it is: `patience`."""

    headers_s: float
    """Longest that a request's head may take to arrive."""
    most: int
    """Connections; with one more the idle one that has been so for the longest time is closed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._head: asyncio.TimerHandle | None = None
        self._turn = 0
        self._wait_for_head()
        if len(self.connections) > self.most:
            others = (one for one in self.connections if isinstance(one, PatientProtocol) and one is not self)
            idle = min((one for one in others if one._is_idle()), key=_turn, default=None)
            if idle is not None:
                idle.transport.close()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait_for_head()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """An answer is over: uvicorn waits for the next request, and so do we."""
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:  # else it had been sent already
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_idle(self) -> bool:
        """Whether it waits for a request; one that is being closed is lost only in the loop's next turn."""
        return self._head is not None and not self.transport.is_closing()

    def _wait_for_head(self) -> None:
        if self._head is None:  # what comes byte by byte has no longer
            self._head = self.loop.call_later(self.headers_s, self.transport.close)
            self._turn = next(_TURNS)

    def _stop_waiting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


def patience(headers_s: float, most: int) -> type[PatientProtocol]:
    """Return the protocol of a server that waits so long for a request's head, on so many connections."""
    return type("Patient", (PatientProtocol,), {"headers_s": headers_s, "most": most})


def _turn(one: PatientProtocol) -> int:
    return one._turn
