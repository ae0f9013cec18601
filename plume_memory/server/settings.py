"""What a server allows: sizes, rates, times. Values alone."""

from dataclasses import dataclass

MAX_NUMBER = 2**53 - 1
"""Largest version number that is spoken of: of larger ones JSON's readers make others."""
UPDATE_CHARS = 20_000
"""Longest text of an update over HTTP: on two cores it is derived in about twelve seconds."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Limits and times of one server process."""

    needs_key: bool = False
    """Nobody comes in without a key. Else nobody does from the first key on that was ever made."""
    local_only: bool = True
    """Without a key only requests to a local name are served: a page elsewhere, whose name is made to point here
    (DNS rebinding), is not."""
    mapped_headers: tuple[str, ...] = ()
    """Headers, in lower case, that name a memory for keys with the scope `act-as`."""
    cors_origins: tuple[str, ...] = ()
    """Sites whose pages may call from a browser, with a key: `https://app.example`."""
    connections: int = 1000
    """Open at once; with one more the idle one that has been so for the longest time is closed."""
    headers_s: float = 20.0
    """Longest that a connection may be without a whole request's head."""
    body_bytes: int = 1 << 20
    body_s: float = 30.0
    """Longest that a body may take to arrive."""
    archive_bytes: int = 256 << 20
    archive_s: float = 600.0
    requests_per_minute: int = 600
    """Of one key; as many may come at once."""
    rows_per_minute: int = 1200
    """Decode rows of one key: two a question."""
    answers_at_once: int = 64
    """Questions that are answered or wait for their turn; one more is refused."""
    answer_tokens: int = 1024
    """Longest answer that a caller may ask for."""
    answer_s: float = 120.0
    """Longest that an answer may take."""
    traces: int = 1000
    trace_s: float = 3600.0
    operation_wait_s: float = 10.0
    """An erasure that takes longer goes on as an operation."""
    keep_alive_s: float = 15.0
    """A stream that has nothing to say says so."""
    drain_s: float = 25.0
    """What is being answered may take so long to end once the server is told to stop."""
