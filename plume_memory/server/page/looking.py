"""What is read: memories, one memory's timeline, a version, a difference, and how the server is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from plume_memory import __version__
from plume_memory.records import Replacement, Verification, Version
from plume_memory.server.answers import waited
from plume_memory.server.health import stores
from plume_memory.server.page.page import Page, Visit
from plume_memory.server.page.timeline import timeline
from plume_memory.server.page.words import changes
from plume_memory.server.pinning import ROWS, pin
from plume_memory.server.rest.common import MemoryId, VersionNumber, opened
from plume_memory.server.settings import MAX_NUMBER
from plume_memory.server.state import Serving, stored
from plume_memory.store.directory import ListedMemory

_MEMORIES, _VERSIONS = 50, 50
Number = Annotated[int | None, Query(ge=0, le=MAX_NUMBER)]


@dataclass(frozen=True, slots=True)
class Shown:
    """A memory of the list."""

    memory: ListedMemory
    written_at: datetime | None
    """None where nothing was."""


def add_routes(router: APIRouter, page: Page) -> None:
    """Add the routes that read."""

    @router.get("/")
    async def memories(
        request: Request,
        visit: Annotated[Visit, Depends(page.visit)],
        after: Annotated[str | None, Query(max_length=64)] = None,
    ) -> Response:
        if (bound := visit.caller.memory) is not None:
            return RedirectResponse(f"/memories/{bound}", 303)
        visit.caller.check("memory:list")
        found = await stored(lambda: _listed(visit, after))
        last = found[_MEMORIES - 1].memory.id if len(found) > _MEMORIES else None
        return page.html(request, "memories.html", memories=found[:_MEMORIES], last=last, is_first=after is None)

    @router.get("/memories/{id}")
    async def memory(
        request: Request,
        number: MemoryId,
        visit: Annotated[Visit, Depends(page.visit)],
        before: Number = None,
        replaced: bool = False,
    ) -> Response:
        one = await visit.memory(number, "memory:read")
        own = opened(visit.serving, one)
        end = min(before - 1, one.head_number) if before is not None else one.head_number
        start = max(0, end - _VERSIONS)
        versions = await stored(lambda: own.history(after=start, limit=end - start)) if end > start else []
        held = await stored(own.text_at)
        found = await _replacements(visit, one) if replaced else ()
        entries = timeline(versions, held, origin_version=one.origin_version, replaced=found)
        shown: dict[str, Any] = {"entries": entries, "start": start, "before": before, "is_compared": replaced}
        origin = await stored(lambda: _origin(visit.serving, one))
        return page.html(request, "memory.html", memory=one, origin=origin, may=visit.caller.may, **shown)

    @router.get("/memories/{id}/versions/{n}")
    async def version(
        request: Request, number: MemoryId, n: VersionNumber, visit: Annotated[Visit, Depends(page.visit)]
    ) -> Response:
        one = await visit.memory(number, "memory:read")
        own = opened(visit.serving, one)
        entry = await stored(lambda: own.entry(n))
        held = await stored(lambda: own.text_at(n))
        return page.html(request, "version.html", memory=one, entry=entry, held=held, may=visit.caller.may)

    @router.get("/memories/{id}/diff")
    async def diff(
        request: Request,
        number: MemoryId,
        visit: Annotated[Visit, Depends(page.visit)],
        before: Annotated[Number, Query(alias="from")] = None,
        after: Annotated[Number, Query(alias="to")] = None,
    ) -> Response:
        one = await visit.memory(number, "memory:read")
        own = opened(visit.serving, one)
        last = one.head_number if after is None else after
        first = max(0, last - 1) if before is None else before
        earlier, later = await stored(lambda: (own.text_at(first), own.text_at(last)))
        found = await stored(lambda: changes(earlier.transitions, later.transitions))
        shown: dict[str, Any] = {"first": first, "last": last, "changes": found, "may": visit.caller.may}
        return page.html(request, "diff.html", memory=one, **shown)

    @router.get("/memories/{id}/verification")
    async def verification(
        request: Request, number: MemoryId, visit: Annotated[Visit, Depends(page.visit)]
    ) -> Response:
        one = await visit.memory(number, "memory:read")
        checked: Verification = await stored(opened(visit.serving, one).verify)
        return page.html(request, "verification.html", memory=one, checked=checked, may=visit.caller.may)

    @router.get("/health")
    async def health(request: Request, visit: Annotated[Visit, Depends(page.visit)]) -> Response:
        serving = visit.serving
        checks = {name: reason is None for name, reason in (await stored(lambda: stores(serving))).items()}
        engine = serving.pool.loaded_engine
        counters = None if engine is None else engine.scheduler.counters()
        return page.html(
            request,
            "health.html",
            checks={**checks, "model": serving.condition.is_warm, "log": not serving.condition.is_broken},
            model=serving.pool.model,
            release=__version__,
            counters=counters,
            answers=len(serving.answers),
        )


def _listed(visit: Visit, after: str | None) -> list[Shown]:
    """One page of the list, and one more where there is more."""
    serving = visit.serving
    found = serving.directory.page(visit.caller.tenant, limit=_MEMORIES + 1, after=after)
    return [Shown(one, _written_at(serving, one)) for one in found]


def _written_at(serving: Serving, memory: ListedMemory) -> datetime | None:
    newest: list[Version] = opened(serving, memory).history(limit=1)
    return newest[0].created_at if newest else None


def _origin(serving: Serving, memory: ListedMemory) -> ListedMemory | None:
    """The memory that one was forked from; None where there is none, or it is another tenant's."""
    if memory.origin is None:
        return None
    return serving.directory.by_log_names(memory.tenant, [memory.origin]).get(memory.origin)


async def _replacements(visit: Visit, memory: ListedMemory) -> tuple[Replacement, ...]:
    """What took whose place, by the judge: the one part of reading that needs the model."""
    visit.serving.limits.rows(visit.caller.key_id, ROWS)
    running = visit.serving.answers.begin(memory.log_name)
    try:
        return await waited(visit.request, running, lambda: pin(visit.serving, memory, None).snapshot.replacements)
    finally:
        running.end()
