"""The backend on another server: what a key opens there, over its REST. No model and no database here."""

import asyncio

from plume_memory.recalling.notes import Recall, RemoteRecallOptions
from plume_memory.records import Answer, Difference, ErasureCertificate, Version
from plume_memory.remote import RemoteMemory, RemotePool
from plume_memory.server.mcp.backend import Target


class Bridge:
    """See `Backend`.

    Args:
        pool: of the server.
        memory: the one that all calls are about; None: each names one.
    """

    def __init__(self, pool: RemotePool, memory: RemoteMemory | None) -> None:
        self._pool, self._memory = pool, memory

    @property
    def fixed(self) -> str | None:
        """See `Backend`."""
        return None if self._memory is None else self._memory.id

    async def remember(self, memory: str | None, text: str, idempotency_key: str | None) -> Version:
        """See `Backend`."""
        own = await self._found(memory)
        return await asyncio.to_thread(own.update, text, idempotency_key=idempotency_key, derive="later")

    async def ask(self, memory: str | None, question: str, version: int | None) -> Answer:
        """See `Backend`."""
        own = await self._found(memory)
        if version is None:
            return await asyncio.to_thread(own.ask, question)
        return await asyncio.to_thread(lambda: own.at(version=version).ask(question))

    async def recall(self, memory: str | None, question: str, options: RemoteRecallOptions) -> Recall:
        """See `Backend`."""
        own = await self._found(memory)
        return await asyncio.to_thread(lambda: own.recall(question, **options))

    async def history(self, memory: str | None, after: int | None, limit: int) -> list[Version]:
        """See `Backend`."""
        own = await self._found(memory)
        return await asyncio.to_thread(own.history, limit=limit, after=after)

    async def entry(self, memory: str | None, number: int) -> Version:
        """See `Backend`."""
        own = await self._found(memory)
        return await asyncio.to_thread(own.entry, number)

    async def diff(self, memory: str | None, before: int, after: int) -> Difference:
        """See `Backend`."""
        own = await self._found(memory)
        return await asyncio.to_thread(own.diff, before, after)

    async def forget(self, memory: str | None, target: Target) -> Version:
        """See `Backend`."""
        own = await self._found(memory)
        return await asyncio.to_thread(own.forget, target.version, text=target.text, reason=target.reason)

    async def erase(self, memory: str | None, target: Target) -> ErasureCertificate:
        """See `Backend`."""
        own = await self._found(memory)
        return await asyncio.to_thread(own.erase, target.version, text=target.text, reason=target.reason)

    async def _found(self, named: str | None) -> RemoteMemory:
        if self._memory is not None:
            return self._memory
        return await asyncio.to_thread(self._pool.memory, named or "", create=False)
