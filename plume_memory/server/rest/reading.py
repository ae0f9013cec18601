"""What looks into a memory's log: versions, the text that holds, differences. None of it needs the model.

A version never changes, but an erasure takes its text away: so no cache may keep what these answer.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from plume_memory.server.rest.common import MemoryId, VersionNumber, memory_of, opened
from plume_memory.server.rest.schemas import (
    PROBLEMS,
    DifferenceOut,
    NumberOrNone,
    TextOut,
    VerificationOut,
    VersionOut,
    VersionPage,
)
from plume_memory.server.state import Identified, ServingNow, stored

router = APIRouter(prefix="/v1/memories/{id}", tags=["reading"], responses=PROBLEMS)


@router.get("/versions", response_model=VersionPage)
async def versions(
    request: Request,
    response: Response,
    number: MemoryId,
    serving: ServingNow,
    caller: Identified,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    after: Annotated[NumberOrNone, Query(description="The version that the last page ended with.")] = 0,
) -> VersionPage:
    """List the entries of the log, oldest first."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    response.headers["cache-control"] = "no-store"
    found = await stored(lambda: opened(serving, memory).history(limit=limit + 1, after=after))
    return VersionPage(data=[VersionOut.of(memory, one) for one in found[:limit]], has_more=len(found) > limit)


@router.get("/versions/{n}", response_model=VersionOut)
async def version(
    request: Request, response: Response, number: MemoryId, n: VersionNumber, serving: ServingNow, caller: Identified
) -> VersionOut:
    """Return one entry of the log."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    response.headers["cache-control"] = "no-store"
    return VersionOut.of(memory, await stored(lambda: opened(serving, memory).entry(n)))


@router.get("/versions/{n}/text", response_model=TextOut)
async def text(
    request: Request, response: Response, number: MemoryId, n: VersionNumber, serving: ServingNow, caller: Identified
) -> TextOut:
    """Return the history that holds at a version, as one text and as its parts."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    response.headers["cache-control"] = "no-store"
    held = await stored(lambda: opened(serving, memory).text_at(n))
    return TextOut(memory=memory.id, version=held.version, text=held.text, transitions=list(held.transitions))


@router.get("/diff", response_model=DifferenceOut)
async def diff(
    request: Request,
    response: Response,
    number: MemoryId,
    serving: ServingNow,
    caller: Identified,
    before: Annotated[NumberOrNone, Query(alias="from")],
    after: Annotated[NumberOrNone, Query(alias="to")],
) -> DifferenceOut:
    """Compare the histories of two versions; 0 is the empty memory."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    response.headers["cache-control"] = "no-store"
    return DifferenceOut.of(memory, await stored(lambda: opened(serving, memory).diff(before, after)))


@router.get("/verification", response_model=VerificationOut)
async def verification(
    request: Request, response: Response, number: MemoryId, serving: ServingNow, caller: Identified
) -> VerificationOut:
    """Check every entry of the log against its hashes and links."""
    memory = await memory_of(request, serving, caller, number, "memory:read")
    response.headers["cache-control"] = "no-store"
    checked = await stored(lambda: opened(serving, memory).verify())
    return VerificationOut(memory=memory.id, versions=checked.versions, head_hash=checked.head_hash)
