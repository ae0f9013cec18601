"""What is looked at by an id of its own for a while: traces of answers, and operations that take long."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from plume_memory.server.auth import Caller
from plume_memory.server.problems import Problem, Refused
from plume_memory.server.rest.answer_schemas import TraceOut
from plume_memory.server.rest.schemas import PROBLEMS, OperationOut
from plume_memory.server.state import Identified, Serving, ServingNow, stored
from plume_memory.server.traces import KeptTrace

router = APIRouter(tags=["looking"], responses=PROBLEMS)

Id = Annotated[str, Path(alias="id", max_length=64)]


@router.get("/v1/traces/{id}", response_model=TraceOut)
async def trace(request: Request, response: Response, number: Id, serving: ServingNow, caller: Identified) -> TraceOut:
    """Return what an answer was made of: its words, its evidence, and every token's divergence and weight."""
    caller.check("memory:read")
    response.headers["cache-control"] = "no-store"
    found = await stored(lambda: current_trace(serving, caller, number))
    request.state.memory = found.memory_id
    return TraceOut.model_validate(found.body)


@router.get("/v1/operations/{id}", response_model=OperationOut)
async def operation(response: Response, number: Id, serving: ServingNow, caller: Identified) -> OperationOut:
    """Return how an operation stands, and its result once it is there."""
    caller.check("memory:erase")
    response.headers["cache-control"] = "no-store"
    found = serving.operations.get(number)
    if found is None or found.tenant != caller.tenant or caller.memory not in (None, found.memory_id):
        raise Refused(Problem(404, "operation-not-found", f"There is no operation {number!r}, or not any more."))
    return OperationOut.model_validate(found.body())


def current_trace(serving: Serving, caller: Caller, number: str) -> KeptTrace:
    """Return a trace of this caller's.

    Raises:
        Refused: 404, there is none, or something was erased from its memory since, here or in another process.
    """
    found = serving.traces.get(number)
    is_own = found is not None and found.tenant == caller.tenant and caller.memory in (None, found.memory_id)
    if found is not None and is_own and found.log_name is not None:
        own = serving.pool.memory(found.log_name, create=False)
        if own.last_erasure > found.last_erasure:
            serving.traces.drop(number)
            is_own = False
    if found is None or not is_own:
        raise Refused(Problem(404, "trace-not-found", f"There is no trace {number!r}, or not any more."))
    return found
