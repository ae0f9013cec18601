"""HTTP to one server: requests, replies, event streams, and errors by their kind. Knows no memory.

Threads share one; connections are kept open between requests.
"""

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from plume_memory.errors import (
    CommitUnknown,
    DeadlineExceeded,
    InvalidInput,
    MissingExtra,
    PlumeError,
    ServerError,
    ServerUnreachable,
)
from plume_memory.remote.failures import error_of

if TYPE_CHECKING:  # an extra
    import httpx2

CONNECT_S = 10.0
IDLE_S = 3.0
"""How long an idle connection is used again: servers close theirs after five seconds, and one might be closed while
something is sent on it."""
LONGEST_S = 180.0
"""Longest wait for an answer: above the server's own limit, which answers with a reason."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered with."""

    status: int
    body: Any
    etag: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """One of a stream."""

    name: str
    body: Any


class Wire:
    """A server's address and a key to it.

    Args:
        url: of the server, as `http://127.0.0.1:8000`.
        key: `plk_…`; None where it asks for none.
        timeout_s: longest wait for an answer, and for each next piece of a stream.

    Raises:
        MissingExtra: httpx2 is not installed.
        InvalidInput: the URL is none of a server, or the key could not stand in a header.
    """

    def __init__(self, url: str, key: str | None, *, timeout_s: float = LONGEST_S) -> None:
        try:
            import httpx2  # noqa: PLC0415 — an extra
        except ImportError as err:
            raise MissingExtra("A server is spoken to with httpx2: pip install 'plume-memory[client]'.") from err
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"A server's URL begins with http:// or https://; got {url!r}.")
        if key is not None and (not key.isascii() or not key.isprintable()):
            raise InvalidInput("The key has characters that no key has; copy it again.")
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        try:
            self._client = httpx2.Client(
                base_url=url,
                headers=headers,
                timeout=httpx2.Timeout(timeout_s, connect=CONNECT_S),
                limits=httpx2.Limits(keepalive_expiry=IDLE_S),
            )
        except httpx2.InvalidURL as err:
            raise InvalidInput(f"{url!r} is no URL: {err}.") from err
        self._failures = httpx2.HTTPError
        self._unsent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
        self._broken = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
        self._late = httpx2.TimeoutException
        self.url = url.rstrip("/")

    def get(self, path: str, **query: str | int | None) -> Reply:
        """Read something.

        Raises:
            ServerUnreachable: there was no answer.
            DeadlineExceeded: it took too long.
            PlumeError: what the server says.
        """
        given = {name: value for name, value in query.items() if value is not None}
        return self._replied("GET", path, params=given, writes=False)

    def post(
        self, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None, writes: bool = True
    ) -> Reply:
        """Send something.

        Args:
            path: of the server.
            body: sent as JSON.
            headers: beside the key's.
            writes: whether it appends to a log: then no answer leaves open whether it did.

        Raises:
            ServerUnreachable: it was not sent; of what does not write, there was no answer.
            CommitUnknown: it was sent, and no answer came.
            DeadlineExceeded: what does not write took too long.
            PlumeError: what the server says.
        """
        return self._replied("POST", path, json=body, headers=headers, writes=writes)

    def events(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Generator[Event, None, None]:
        """Send something and give the events of its answer as they come; closing it closes the connection.

        Raises:
            As `post` of what does not write.
        """
        try:
            with self._client.stream("POST", path, json=body, headers=headers) as response:
                if response.status_code >= 400:
                    response.read()
                    raise error_of(response.status_code, _document(response))
                name = "message"
                for line in response.iter_lines():
                    if line.startswith("event: "):
                        name = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        yield Event(name, json.loads(line.removeprefix("data: ")))
                        name = "message"
        except self._failures as err:
            raise self._lost(err, writes=False) from err

    def download(self, path: str, to: Path) -> None:
        """Write an answer's bytes to a file.

        Raises:
            As `get`.
        """
        try:
            with self._client.stream("GET", path) as response, to.open("wb") as file:
                if response.status_code >= 400:
                    response.read()
                    raise error_of(response.status_code, _document(response))
                for chunk in response.iter_bytes():
                    file.write(chunk)
        except self._failures as err:
            raise self._lost(err, writes=False) from err

    def close(self) -> None:
        """Close the connections. Twice is allowed."""
        self._client.close()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _replied(self, method: str, path: str, *, writes: bool, **request: Any) -> Reply:
        is_repeatable = not writes or "idempotency-key" in (request.get("headers") or {})
        try:
            try:
                response = self._client.request(method, path, **request)
            except self._broken:
                if not is_repeatable:
                    raise
                response = self._client.request(method, path, **request)
        except self._failures as err:
            raise self._lost(err, writes=writes) from err
        document = _document(response)
        if response.status_code >= 400:
            raise error_of(response.status_code, document)
        if response.status_code >= 300 or document is None:
            raise ServerError(f"{self.url} answered with status {response.status_code} and no JSON: is it plume's?")
        return Reply(response.status_code, document, response.headers.get("etag"))

    def _lost(self, err: Exception, *, writes: bool) -> PlumeError:
        """What it means that no answer came."""
        if isinstance(err, self._unsent):
            return ServerUnreachable(f"{self.url} cannot be reached: {err}. Does the server run?")
        if writes:
            return CommitUnknown(
                f"The connection to {self.url} was lost while it wrote ({err}): whether it did is not known. Send it "
                "again with the same idempotency key; without one look into the history first."
            )
        if isinstance(err, self._late):
            return DeadlineExceeded(f"{self.url} did not answer in time: {err}.")
        return ServerUnreachable(f"The connection to {self.url} was lost: {err}.")


def _document(response: "httpx2.Response") -> Any:
    """A body as JSON; None of anything else."""
    try:
        return response.json()
    except ValueError:
        return None
