"""What the routes of a memory share: the memory of the path, its ETag, and the headers that guard a write."""

import re
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Header, Path, Request, Response

from plume_memory.errors import VersionConflict
from plume_memory.memory import ParametricMemory
from plume_memory.server.auth import Caller
from plume_memory.server.naming import addressed_by_id
from plume_memory.server.problems import Problem, Refused
from plume_memory.server.settings import MAX_NUMBER
from plume_memory.server.state import Serving, stored
from plume_memory.store.checks import MAX_NAME, check_name
from plume_memory.store.directory import ListedMemory

MemoryId = Annotated[str, Path(alias="id", description="`mem_` and 26 characters.", max_length=64)]
VersionNumber = Annotated[int, Path(alias="n", ge=1, le=MAX_NUMBER)]
IdempotencyKey = Annotated[str | None, Header(alias="idempotency-key", min_length=1, max_length=MAX_NAME)]
IfMatch = Annotated[
    str | None,
    Header(
        alias="if-match",
        pattern=r'^("v[0-9]{1,15}-[0-9a-f]{8}"|\*)$',
        description='The ETag of the version that the write was decided on, e.g. `"v12-9c1f0a3b"`, or `*`.',
    ),
]

_Result = TypeVar("_Result")
_ETAG = re.compile(r'"v([0-9]{1,15})-([0-9a-f]{8})"')


async def memory_of(request: Request, serving: Serving, caller: Caller, number: str, scope: str) -> ListedMemory:
    """Return the memory of a path, for who has the scope.

    Raises:
        Refused: 403, asked before anything is looked up.
        MemoryNotFound: there is none of that id, or it is not this caller's.
    """
    caller.check(scope)
    found = await stored(lambda: addressed_by_id(serving.directory, caller, number))
    request.state.memory = found.id
    return found


def opened(serving: Serving, memory: ListedMemory) -> ParametricMemory:
    """Return the library's memory."""
    return serving.pool.memory(memory.log_name, create=False)


def etag(number: int, chain_hash: str) -> str:
    """Return what names a memory's newest version: number and hash."""
    return f'"v{number}-{chain_hash[:8]}"'


def tagged(response: Response, number: int, chain_hash: str) -> None:
    """Put the ETag and the version on a response."""
    response.headers["etag"] = etag(number, chain_hash)
    response.headers["x-plume-version"] = str(number)


def expected_version(memory: ListedMemory, if_match: str | None) -> int | None:
    """Return the version that a write was decided on; None where its caller does not say.

    Raises:
        VersionConflict: the version has another hash: it is of another log.
    """
    named = None if if_match is None else _ETAG.fullmatch(if_match)
    if named is None:  # not said, or *: the route lets nothing else in
        return None
    number = int(named.group(1))
    if number == memory.head_number and named.group(2) != memory.head_hash[:8]:
        raise VersionConflict(f"Version {number} has another hash than {named.group(2)}: it is of another log.")
    return number


def check_key(key: str) -> None:
    """Refuse an idempotency key that the log could not keep.

    Raises:
        InvalidInput: it has control characters.
    """
    check_name(key, what="An Idempotency-Key")


class RunningKeys:
    """Idempotency keys whose request is not answered yet. For the event loop's thread alone."""

    def __init__(self) -> None:
        self._keys: set[tuple[str, str]] = set()

    async def alone(self, memory: ListedMemory, key: str | None, work: Callable[[], _Result]) -> _Result:
        """Run a write in a thread, unless the same key is running.

        Raises:
            Refused: 409, it is.
        """
        if key is None:
            return await stored(work)
        check_key(key)
        own = (memory.id, key)
        if own in self._keys:
            detail = "A request with this Idempotency-Key is still running; wait for its answer, or send it later."
            raise Refused(Problem(409, "idempotency-in-flight", detail, retry_after_s=1, should_retry=False))
        self._keys.add(own)
        try:
            return await stored(work)
        finally:
            self._keys.discard(own)
