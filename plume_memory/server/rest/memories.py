"""Memories: made, listed, looked at."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from plume_memory.server.naming import addressed_by_id
from plume_memory.server.rest.common import MemoryId, memory_of, tagged
from plume_memory.server.rest.schemas import PROBLEMS, MemoryOut, MemoryPage, Name, NewMemory
from plume_memory.server.state import Identified, Serving, ServingNow, stored
from plume_memory.store.directory import ListedMemory

router = APIRouter(prefix="/v1/memories", tags=["memories"], responses=PROBLEMS)


@router.post("", status_code=201, response_model=MemoryOut)
async def create(
    request: Request, response: Response, body: NewMemory, serving: ServingNow, caller: Identified
) -> MemoryOut:
    """Make an empty memory. Nothing else makes one but a fork, an import, and a mapped header's first write."""
    caller.check("memory:write")
    caller.check_unbound()
    made = await stored(lambda: serving.directory.create(caller.tenant, body.name))
    request.state.memory = made.id
    tagged(response, made.head_number, made.head_hash)
    response.headers["location"] = f"/v1/memories/{made.id}"
    return MemoryOut.of(made)


@router.get("", response_model=MemoryPage)
async def listed(
    response: Response,
    serving: ServingNow,
    caller: Identified,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[str | None, Query(max_length=64, description="The id that the last page ended with.")] = None,
    name: Annotated[Name | None, Query(description="The one of that name alone.")] = None,
) -> MemoryPage:
    """List the key's memories, oldest first; with `name` one of them, or none."""
    caller.check("memory:list" if name is None else "memory:read")
    response.headers["cache-control"] = "no-store"

    def found() -> list[ListedMemory]:
        if caller.memory is not None:
            own = addressed_by_id(serving.directory, caller, caller.memory)
            return [own] if name in (None, own.name) else []
        if name is not None:
            one = serving.directory.find(caller.tenant, name)
            return [one] if one is not None and one.name == name else []
        return serving.directory.page(caller.tenant, limit=limit + 1, after=after)

    memories = await stored(found)
    shown = await stored(lambda: [_with_origin(serving, one) for one in memories[:limit]])
    return MemoryPage(data=shown, has_more=len(memories) > limit)


@router.get("/{id}", response_model=MemoryOut)
async def head(
    request: Request, response: Response, number: MemoryId, serving: ServingNow, caller: Identified
) -> MemoryOut:
    """Return a memory with its newest version; the ETag names it for `If-Match`."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    tagged(response, memory.head_number, memory.head_hash)
    response.headers["cache-control"] = "no-store"
    return await stored(lambda: _with_origin(serving, memory))


def _with_origin(serving: Serving, memory: ListedMemory) -> MemoryOut:
    if memory.origin is None:
        return MemoryOut.of(memory)
    return MemoryOut.of(memory, serving.directory.by_log_names(memory.tenant, [memory.origin]).get(memory.origin))
