"""What the key of a request may do: for programs that were given one and nothing else."""

from fastapi import APIRouter, Response

from plume_memory.server.rest.schemas import PROBLEMS, KeyOut
from plume_memory.server.state import Identified

router = APIRouter(tags=["keys"], responses=PROBLEMS)


@router.get("/v1/key", response_model=KeyOut)
async def key(response: Response, caller: Identified) -> KeyOut:
    """Return the scopes of the key this was sent with, and the one memory it opens, if it is bound to one."""
    response.headers["cache-control"] = "no-store"
    return KeyOut(tenant=caller.tenant, scopes=sorted(caller.scopes), memory=caller.memory)
