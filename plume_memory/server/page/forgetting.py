"""Forget and erase: first what would go, then, confirmed, that and nothing else; and an erasure's certificate.

What was shown is what goes: the form that confirms names the version, the part and the newest version then, so that a
memory that has moved on meanwhile refuses. It also carries a key: sent twice it is one forget.
"""

import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from plume_memory.records import ForgetOptions, Span
from plume_memory.server.operations import Operation, within
from plume_memory.server.page.page import Page, Visit, number_in
from plume_memory.server.page.words import marked
from plume_memory.server.problems import Problem, Refused, invalid
from plume_memory.server.rest.common import MemoryId, check_key, opened
from plume_memory.server.rest.writing import erased
from plume_memory.server.settings import MAX_NUMBER
from plume_memory.server.state import Serving, stored
from plume_memory.server.telemetry import DELETE
from plume_memory.store.directory import ListedMemory
from plume_memory.store.preview import Preview, previewed

OperationId = Annotated[str, Path(alias="operation", max_length=64)]


def add_routes(router: APIRouter, page: Page) -> None:
    """Add the routes that forget."""

    @router.get("/memories/{id}/forget")
    async def choice(
        request: Request,
        number: MemoryId,
        visit: Annotated[Visit, Depends(page.visit)],
        version: Annotated[int | None, Query(ge=1, le=MAX_NUMBER)] = None,
    ) -> Response:
        one = await visit.memory(number, "memory:write")
        return page.html(request, "forget.html", memory=one, version=version, may=visit.caller.may)

    @router.post("/memories/{id}/forget/preview")
    async def preview(request: Request, number: MemoryId, visit: Annotated[Visit, Depends(page.visit)]) -> Response:
        fields = await page.form(request)
        is_erasure = fields.get("how") == "erase"
        one = await visit.memory(number, "memory:erase" if is_erasure else "memory:write")
        version, words = number_in(fields.get("version", ""), what="A version"), fields.get("words") or None
        found = await stored(
            lambda: previewed(visit.serving.pool.database, one.log_name, version, text=words, erase=is_erasure)
        )
        copies = await stored(lambda: _own_copies(visit.serving, one, found))
        return page.html(
            request,
            "preview.html",
            memory=one,
            found=found,
            pieces=marked(found.text, [found.span or Span(0, len(found.text))]),
            copies=copies,
            others=len(found.copies) - len(copies),
            is_erasure=is_erasure,
            reason=fields.get("reason", ""),
            key=f"page-{secrets.token_hex(8)}",
            may=visit.caller.may,
        )

    @router.post("/memories/{id}/forget")
    async def forget(request: Request, number: MemoryId, visit: Annotated[Visit, Depends(page.visit)]) -> Response:
        fields = await page.form(request)
        is_erasure = fields.get("how") == "erase"
        one = await visit.memory(number, "memory:erase" if is_erasure else "memory:write")
        version, what = _confirmed(fields)
        if is_erasure:
            request.state.operation = DELETE
            begun = await _begun(visit, one, version, what)
            return RedirectResponse(f"/memories/{one.id}/erasures/{begun.id}", 303)
        await stored(lambda: opened(visit.serving, one).forget(version, **what))
        return RedirectResponse(f"/memories/{one.id}", 303)

    @router.get("/memories/{id}/erasures/{operation}")
    async def erasure(
        request: Request, number: MemoryId, operation: OperationId, visit: Annotated[Visit, Depends(page.visit)]
    ) -> Response:
        one = await visit.memory(number, "memory:erase")
        found = _operation(visit, one, operation).body()
        return page.html(request, "certificate.html", memory=one, operation=found, may=visit.caller.may)

    @router.get("/memories/{id}/erasures/{operation}/certificate.json")
    async def certificate(
        number: MemoryId, operation: OperationId, visit: Annotated[Visit, Depends(page.visit)]
    ) -> Response:
        one = await visit.memory(number, "memory:erase")
        found = _operation(visit, one, operation).body()["result"]
        if found is None:
            raise Refused(Problem(404, "not-found", "There is no certificate, or not yet."))
        name = f"certificate-{one.id}-v{found['version']}.json"
        return JSONResponse(found, headers={"content-disposition": f'attachment; filename="{name}"'})


def _confirmed(fields: dict[str, str]) -> tuple[int, ForgetOptions]:
    """What a form confirms: a version, and of it what was shown."""
    version = number_in(fields.get("version", ""), what="A version")
    head = number_in(fields.get("head", ""), what="A version")
    start, end = (number_in(fields.get(name, ""), what="A place in a text") for name in ("start", "end"))
    if version is None or head is None or (start is None) != (end is None):
        raise invalid("Look at what would go first: this form names it only in part.")
    key = fields.get("key", "")
    check_key(key)
    return version, {
        "span": None if start is None or end is None else (start, end),
        "reason": fields.get("reason", "").strip() or None,
        "idempotency_key": key,
        "expected_version": head,
    }


async def _begun(visit: Visit, memory: ListedMemory, version: int, what: ForgetOptions) -> Operation:
    """Begin an erasure in a thread that no visitor can interrupt; wait for it a while."""
    serving = visit.serving
    begun = serving.operations.begin(
        memory.tenant, memory.id, lambda: erased(serving, memory, version, what).model_dump(mode="json")
    )
    await within(begun, serving.settings.operation_wait_s)
    return begun


def _operation(visit: Visit, memory: ListedMemory, number: str) -> Operation:
    found = visit.serving.operations.get(number)
    if found is None or (found.tenant, found.memory_id) != (visit.caller.tenant, memory.id):
        raise Refused(Problem(404, "operation-not-found", "There is no such erasure, or not any more."))
    return found


def _own_copies(serving: Serving, memory: ListedMemory, found: Preview) -> list[ListedMemory]:
    """Those of the copies that this tenant may know of."""
    return list(serving.directory.by_log_names(memory.tenant, found.copies).values())
