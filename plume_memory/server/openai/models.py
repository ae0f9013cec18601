"""The models that a key can name: the bare one, `plume`, and one for each memory it may list."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from plume_memory.server.auth import Caller
from plume_memory.server.naming import MODEL, addressed, addressed_by_id, sources_of
from plume_memory.server.openai.schemas import ERRORS
from plume_memory.server.problems import Problem, Refused
from plume_memory.server.state import Identified, Serving, ServingNow, stored
from plume_memory.store.directory import ListedMemory

router = APIRouter(prefix="/v1/models", tags=["openai"], responses=ERRORS)

_LISTED = 1000
"""Memories that are listed; the others can be named all the same."""


@router.get("")
async def models(serving: ServingNow, caller: Identified) -> dict[str, Any]:
    """List the models."""
    found = [_model(serving.pool.model), _model(MODEL)]
    memories = await stored(lambda: _memories(serving, caller))
    found += [_model(f"{MODEL}@{memory.name}", memory) for memory in memories]
    return {"object": "list", "data": found}


@router.get("/{model:path}")
async def model(model: Annotated[str, Path(max_length=400)], serving: ServingNow, caller: Identified) -> dict[str, Any]:
    """Return one model: 404 for a memory that is not the caller's."""
    if model in (serving.pool.model, MODEL):
        return _model(model)
    if not model.startswith(f"{MODEL}@"):
        raise Refused(Problem(404, "model-not-found", f"There is no model {model!r}.", param="model"))
    caller.check("memory:read")
    named = sources_of(caller, serving.settings, {}, model=model)
    found = await stored(lambda: addressed(serving.directory, caller, named))
    return _model(model, found.memory if found else None)


def _memories(serving: Serving, caller: Caller) -> list[ListedMemory]:
    if not caller.may("memory:list"):
        return []
    if caller.memory is not None:
        return [addressed_by_id(serving.directory, caller, caller.memory)]
    return serving.directory.page(caller.tenant, limit=_LISTED)


def _model(name: str, memory: ListedMemory | None = None) -> dict[str, Any]:
    made = 0 if memory is None else int(memory.created_at.timestamp())
    return {"id": name, "object": "model", "created": made, "owned_by": "plume"}
