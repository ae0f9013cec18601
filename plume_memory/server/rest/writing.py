"""What appends to a memory's log: updates, rollbacks, forks, forgets, erasures."""

import time
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from plume_memory.errors import (
    IdempotencyConflict,
    IntegrityError,
    InvalidInput,
    MemoryNotFound,
    PlumeError,
    VersionConflict,
    VersionNotFound,
)
from plume_memory.memory import ParametricMemory
from plume_memory.records import ErasureCertificate, ForgetOptions, Version
from plume_memory.server.operations import within
from plume_memory.server.rest.common import (
    IdempotencyKey,
    IfMatch,
    MemoryId,
    RunningKeys,
    check_key,
    expected_version,
    memory_of,
    opened,
    tagged,
)
from plume_memory.server.rest.schemas import (
    PROBLEMS,
    CertificateOut,
    Forgetting,
    MemoryOut,
    NewFork,
    NewRollback,
    NewUpdate,
    OperationOut,
    UpdateOut,
    VersionOut,
)
from plume_memory.server.state import Identified, Serving, ServingNow, stored
from plume_memory.server.telemetry import DELETE
from plume_memory.store.directory import ListedMemory, log_name

_REFUSED = (IdempotencyConflict, IntegrityError, InvalidInput, MemoryNotFound, VersionConflict, VersionNotFound)
"""Of an erasure: nothing was done."""


def router() -> APIRouter:
    """Return the routes that write; which keys are running is theirs."""
    made = APIRouter(prefix="/v1/memories/{id}", tags=["writing"], responses=PROBLEMS)
    running = RunningKeys()

    @made.post("/updates", status_code=201, response_model=UpdateOut)
    async def update(
        request: Request,
        response: Response,
        number: MemoryId,
        body: NewUpdate,
        serving: ServingNow,
        caller: Identified,
        idempotency_key: IdempotencyKey = None,
        if_match: IfMatch = None,
    ) -> UpdateOut:
        """Append what is now true. 201 says that it is durable; its factors may come later."""
        memory = await memory_of(request, serving, caller, number, "memory:write")
        expected = expected_version(memory, if_match)
        own = opened(serving, memory)

        def write() -> Version:
            return own.update(
                body.text,
                messages=body.messages,
                form=body.form,
                speaker=body.speaker,
                observed_at=body.observed_at,
                in_answer_to=body.in_answer_to,
                expires_at=body.expires_at,
                idempotency_key=idempotency_key,
                expected_version=expected,
                metadata=body.metadata,
                replaces=body.replaces,
                keep=body.keep,
                derive="later" if body.derive == "later" else False,
            )

        written = await running.alone(memory, idempotency_key, write)
        request.state.version = written.number
        is_derived = body.derive == "wait" and await stored(lambda: _derived(serving, own, written.number))
        tagged(response, written.number, written.chain_hash)
        return UpdateOut(**VersionOut.of(memory, written).model_dump(), derived=is_derived)

    @made.post("/rollback", status_code=201, response_model=VersionOut)
    async def rollback(
        request: Request,
        response: Response,
        number: MemoryId,
        body: NewRollback,
        serving: ServingNow,
        caller: Identified,
        idempotency_key: IdempotencyKey = None,
        if_match: IfMatch = None,
    ) -> VersionOut:
        """Append a version whose history is again that of an earlier one; nothing is deleted."""
        memory = await memory_of(request, serving, caller, number, "memory:write")
        expected = expected_version(memory, if_match)

        def write() -> Version:
            return opened(serving, memory).rollback(
                to=body.to, idempotency_key=idempotency_key, expected_version=expected
            )

        written = await running.alone(memory, idempotency_key, write)
        tagged(response, written.number, written.chain_hash)
        return VersionOut.of(memory, written)

    @made.post("/fork", status_code=201, response_model=MemoryOut)
    async def fork(
        request: Request, response: Response, number: MemoryId, body: NewFork, serving: ServingNow, caller: Identified
    ) -> MemoryOut:
        """Copy the log up to a version into a new memory."""
        memory = await memory_of(request, serving, caller, number, "memory:write")
        caller.check("memory:read")
        caller.check_unbound()

        def write() -> ListedMemory:
            listing = serving.directory.listing(caller.tenant, body.name)
            opened(serving, memory).fork(log_name(listing), at=body.at, listing=listing)
            return serving.directory.get(caller.tenant, listing.id)

        forked = await stored(write)
        tagged(response, forked.head_number, forked.head_hash)
        response.headers["location"] = f"/v1/memories/{forked.id}"
        return MemoryOut.of(forked, memory)

    @made.post(
        "/forget",
        status_code=201,
        response_model=VersionOut | CertificateOut,
        responses={202: {"model": OperationOut, "description": "The erasure goes on; see the operation."}},
    )
    async def forget(
        request: Request,
        response: Response,
        number: MemoryId,
        body: Forgetting,
        serving: ServingNow,
        caller: Identified,
        idempotency_key: IdempotencyKey = None,
        if_match: IfMatch = None,
    ) -> Any:
        """Append a version that no longer holds a text; with `erase` remove it for good.

        An erasure answers with its certificate, or, where it takes long, with 202 and an operation.
        """
        memory = await memory_of(request, serving, caller, number, "memory:erase" if body.erase else "memory:write")
        expected = expected_version(memory, if_match)
        what: ForgetOptions = {
            "text": body.text,
            "span": None if body.span is None else (body.span[0], body.span[1]),
            "reason": body.reason,
            "idempotency_key": idempotency_key,
            "expected_version": expected,
        }
        if body.erase:
            request.state.operation = DELETE
            return await _erase(serving, memory, body.version, what)

        def write() -> Version:
            return opened(serving, memory).forget(body.version, **what)

        written = await running.alone(memory, idempotency_key, write)
        tagged(response, written.number, written.chain_hash)
        return VersionOut.of(memory, written)

    return made


def _derived(serving: Serving, memory: ParametricMemory, number: int) -> bool:
    """Derive a version that is in the log. That it cannot be is no failure of the update: the next question tries."""
    begun = time.monotonic()
    try:
        memory.derive_until(number)
    except PlumeError as err:
        serving.failed(err)
        serving.metrics.derivations.labels("failed").inc()
        return False
    serving.metrics.derivations.labels("derived").inc()
    serving.metrics.derivation_s.observe(time.monotonic() - begun)
    return True


async def _erase(serving: Serving, memory: ListedMemory, version: int | None, what: ForgetOptions) -> JSONResponse:
    """Erase in a thread that no client can interrupt; wait for it a while."""
    if (key := what.get("idempotency_key")) is not None:
        check_key(key)
    begun = serving.operations.begin(
        memory.tenant, memory.id, lambda: erased(serving, memory, version, what).model_dump(mode="json")
    )
    if not await within(begun, serving.settings.operation_wait_s):
        headers = {"location": f"/v1/operations/{begun.id}", "cache-control": "no-store"}
        return JSONResponse(begun.body(), 202, headers)
    return JSONResponse(begun.future.result(), 201, {"cache-control": "no-store"})


def erased(serving: Serving, memory: ListedMemory, version: int | None, what: ForgetOptions) -> CertificateOut:
    """Erase, and return the certificate as it is sent."""
    certificate = erased_now(serving, memory, version, what)
    reached = {memory.log_name, *(one.memory for one in certificate.erased)}
    return CertificateOut.of(memory, certificate, serving.directory.by_log_names(memory.tenant, reached))


def erased_now(serving: Serving, memory: ListedMemory, version: int | None, what: ForgetOptions) -> ErasureCertificate:
    """Erase, and let go of everything this process keeps of it: traces, and answers that are being decoded."""
    reached = {memory.log_name}
    try:
        certificate = opened(serving, memory).erase(version, derive=False, **what)
        reached.update(one.memory for one in certificate.erased)
    except _REFUSED:  # nothing was erased
        reached.clear()
        raise
    finally:  # whether or not it could be finished: the log may lack the text already
        serving.answers.cancel_of(reached, "what it was made from was erased")
        serving.traces.drop_of(reached)
    return certificate
