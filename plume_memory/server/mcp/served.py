"""The backend on the library in this process: what one caller may do here, within the same limits as over REST."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.datastructures import State

from plume_memory.errors import MemoryNotFound, PlumeError
from plume_memory.memory import ParametricMemory
from plume_memory.recalling.notes import Recall, RemoteRecallOptions
from plume_memory.records import Answer, Difference, ErasureCertificate, ForgetOptions, Version
from plume_memory.server.answers import GONE, RunningAnswer
from plume_memory.server.auth import Caller
from plume_memory.server.mcp.backend import Target
from plume_memory.server.pinning import ROWS, Pinned, keep, pin
from plume_memory.server.problems import problem_of
from plume_memory.server.rest.common import opened
from plume_memory.server.rest.writing import erased_now
from plume_memory.server.state import Serving, stored
from plume_memory.server.telemetry import CHAT, CREATE, DELETE, SEARCH, UPDATE
from plume_memory.store.directory import ListedMemory

_Result = TypeVar("_Result")


class Served:
    """See `Backend`.

    Args:
        serving: the server's parts.
        caller: who calls.
        memory: the one that all calls are about; None: each names one of his tenant's.
        state: of the request, for its log line and span.
    """

    def __init__(
        self, serving: Serving, caller: Caller, memory: ListedMemory | None, state: State | None = None
    ) -> None:
        self._serving, self._caller, self._memory, self._state = serving, caller, memory, state or State()

    @property
    def fixed(self) -> str | None:
        """See `Backend`."""
        return None if self._memory is None else self._memory.id

    async def remember(self, memory: str | None, text: str, idempotency_key: str | None) -> Version:
        """See `Backend`. Its factors are derived soon, or by the next read: to remember loads no model."""

        def write(own: ParametricMemory) -> Version:
            is_loaded = self._serving.pool.loaded_engine is not None
            return own.update(text, idempotency_key=idempotency_key, derive="later" if is_loaded else False)

        return await self._written(CREATE, memory, write)

    async def ask(self, memory: str | None, question: str, version: int | None) -> Answer:
        """See `Backend`."""
        serving = self._serving

        def answered(found: ListedMemory, running: RunningAnswer) -> Answer:
            pinned = self._pinned(found, version)
            answer = pinned.snapshot.ask(
                question, unknown="abstain", timeout=serving.settings.answer_s, cancel=running.cancel
            )
            keep(serving, self._caller, pinned, question, answer)
            return answer

        return await self._answered(CHAT, memory, answered)

    async def recall(self, memory: str | None, question: str, options: RemoteRecallOptions) -> Recall:
        """See `Backend`."""

        def recalled(found: ListedMemory, _: RunningAnswer) -> Recall:
            return self._pinned(found, None).snapshot.recall(question, **options)

        return await self._answered(SEARCH, memory, recalled)

    async def history(self, memory: str | None, after: int | None, limit: int) -> list[Version]:
        """See `Backend`."""
        return await self._logged(memory, "memory:read", lambda own: own.history(limit=limit, after=after))

    async def entry(self, memory: str | None, number: int) -> Version:
        """See `Backend`."""
        return await self._logged(memory, "memory:read", lambda own: own.entry(number))

    async def diff(self, memory: str | None, before: int, after: int) -> Difference:
        """See `Backend`."""
        return await self._logged(memory, "memory:read", lambda own: own.diff(before, after))

    async def forget(self, memory: str | None, target: Target) -> Version:
        """See `Backend`."""
        return await self._written(
            UPDATE, memory, lambda own: own.forget(target.version, text=target.text, reason=target.reason)
        )

    async def erase(self, memory: str | None, target: Target) -> ErasureCertificate:
        """See `Backend`."""
        what: ForgetOptions = {"text": target.text, "reason": target.reason}
        self._state.operation = DELETE
        try:
            found = await self._found(memory, "memory:erase")
            erasing = stored(lambda: erased_now(self._serving, found, target.version, what))
            return await asyncio.shield(asyncio.ensure_future(erasing))
        except PlumeError as err:
            self._failed(err)
            raise

    async def _found(self, named: str | None, scope: str) -> ListedMemory:
        """The memory of a call, for who has the scope: asked before anything is looked up."""
        self._caller.check(scope)
        if self._memory is not None:
            return self._memory
        called = named or ""
        found = await stored(lambda: self._serving.directory.find(self._caller.tenant, called))
        if found is None:
            raise MemoryNotFound(f"There is no memory {called!r}: check its id or name, or create it.")
        self._state.memory = found.id
        return found

    def _pinned(self, memory: ListedMemory, version: int | None) -> Pinned:
        found = pin(self._serving, memory, version)
        self._state.version = found.snapshot.version
        return found

    def _failed(self, err: PlumeError) -> None:
        """A tool's failure is an answer with status 200: log and span have it from here."""
        self._state.failed = problem_of(err).code
        self._serving.failed(err)

    async def _written(self, operation: str, named: str | None, work: Callable[[ParametricMemory], Version]) -> Version:
        self._state.operation = operation
        version = await self._logged(named, "memory:write", work)
        self._state.version = version.number
        return version

    async def _logged(self, named: str | None, scope: str, work: Callable[[ParametricMemory], _Result]) -> _Result:
        """Run what needs the log alone."""
        try:
            found = await self._found(named, scope)
            return await stored(lambda: work(opened(self._serving, found)))
        except PlumeError as err:
            self._failed(err)
            raise

    async def _answered(
        self, operation: str, named: str | None, work: Callable[[ListedMemory, RunningAnswer], _Result]
    ) -> _Result:
        """Run what needs the model: it has a place among the answers, and ends when its caller is gone."""
        self._state.operation = operation
        try:
            found = await self._found(named, "memory:read")
            self._serving.limits.rows(self._caller.key_id, ROWS)
            running = self._serving.answers.begin(found.log_name)
        except PlumeError as err:
            self._failed(err)
            raise
        future = running.submit(lambda: work(found, running))
        try:
            return await asyncio.wrap_future(future)
        except PlumeError as err:
            self._failed(err)
            raise
        finally:
            if not future.done():
                running.cancel(GONE)
            running.end()
