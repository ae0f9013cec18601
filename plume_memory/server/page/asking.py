"""Questions at any version, and answers with what they were made from. An answer has a path while its trace is kept."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import RedirectResponse, Response

from plume_memory.records import ScoredUnit, Span
from plume_memory.server.answers import waited
from plume_memory.server.page.page import Page, Visit, number_in
from plume_memory.server.page.strip import HEIGHT, largest_weight, spoken, strip_of
from plume_memory.server.page.words import Piece, marked
from plume_memory.server.pinning import ROWS, keep, pin
from plume_memory.server.problems import Problem, Refused, invalid
from plume_memory.server.rest.answer_schemas import TraceOut
from plume_memory.server.rest.common import MemoryId, opened
from plume_memory.server.rest.looking import current_trace
from plume_memory.server.settings import MAX_NUMBER
from plume_memory.server.state import Serving, stored
from plume_memory.store.directory import ListedMemory

_CANDIDATES = 8
_TOKEN_CANDIDATES = 3
TraceId = Annotated[str, Path(alias="trace", max_length=64)]


@dataclass(frozen=True, slots=True)
class Source:
    """A text that an answer is from."""

    version: int
    """That brought it."""
    pieces: tuple[Piece, ...]
    """What the answer is from is marked."""


def add_routes(router: APIRouter, page: Page) -> None:
    """Add the routes that ask."""

    @router.get("/memories/{id}/ask")
    async def question(
        request: Request,
        number: MemoryId,
        visit: Annotated[Visit, Depends(page.visit)],
        version: Annotated[int | None, Query(ge=0, le=MAX_NUMBER)] = None,
    ) -> Response:
        one = await visit.memory(number, "memory:read")
        at = one.head_number if version is None else version
        return page.html(request, "ask.html", memory=one, version=at, asked="", answer=None, may=visit.caller.may)

    @router.post("/memories/{id}/ask")
    async def ask(request: Request, number: MemoryId, visit: Annotated[Visit, Depends(page.visit)]) -> Response:
        one = await visit.memory(number, "memory:read")
        fields = await page.form(request)
        words = fields.get("question", "").strip()
        if not words:
            raise invalid("Ask something: the question is empty.")
        trace_id = await _asked(visit, one, words, number_in(fields.get("version", ""), what="A version"))
        return RedirectResponse(f"/memories/{one.id}/answers/{trace_id}", 303)

    @router.get("/memories/{id}/answers/{trace}")
    async def answer(
        request: Request, number: MemoryId, trace: TraceId, visit: Annotated[Visit, Depends(page.visit)]
    ) -> Response:
        one = await visit.memory(number, "memory:read")
        kept = await stored(lambda: current_trace(visit.serving, visit.caller, trace))
        if kept.memory_id != one.id:
            raise Refused(Problem(404, "trace-not-found", f"There is no answer {trace!r}, or not any more."))
        found = TraceOut.model_validate(kept.body)
        tokens = spoken(found.trace, found.text)
        return page.html(
            request,
            "ask.html",
            memory=one,
            version=found.version,
            asked=found.question,
            answer=found,
            withheld="" if tokens else "".join(token.text for token in found.trace).strip(),
            words=strip_of(tokens),
            strip_height=HEIGHT,
            largest=largest_weight(tokens),
            sources=await stored(lambda: _sources(visit.serving, one, found)),
            candidates=await _candidates(visit, one, found.question, found.version),
            chosen={(each.unit.position, each.unit.start) for each in found.evidence_units},
            may=visit.caller.may,
        )


async def _asked(visit: Visit, memory: ListedMemory, words: str, version: int | None) -> str:
    """Answer, keep the trace, return its id."""
    serving = visit.serving
    serving.limits.rows(visit.caller.key_id, ROWS)
    running = serving.answers.begin(memory.log_name)
    try:
        pinned = await waited(visit.request, running, lambda: pin(serving, memory, version))
        answer = await waited(
            visit.request,
            running,
            lambda: pinned.snapshot.ask(
                words, top_candidates=_TOKEN_CANDIDATES, timeout=serving.settings.answer_s, cancel=running.cancel
            ),
        )
    finally:
        running.end()
    return keep(serving, visit.caller, pinned, words, answer).trace_id


async def _candidates(visit: Visit, memory: ListedMemory, words: str, version: int) -> list[ScoredUnit]:
    """Rank the units of the answer's version anew: a trace keeps those alone that the answer is from."""
    visit.serving.limits.rows(visit.caller.key_id, ROWS)
    running = visit.serving.answers.begin(memory.log_name)
    try:
        return await waited(
            visit.request,
            running,
            lambda: pin(visit.serving, memory, version).snapshot.route(words, k=_CANDIDATES),
        )
    finally:
        running.end()


def _sources(serving: Serving, memory: ListedMemory, answer: TraceOut) -> list[Source]:
    """The texts an answer is from, by their versions, as they held at the version that was asked."""
    held = opened(serving, memory).text_at(answer.version)
    spans: dict[int, list[Span]] = {}
    for each in answer.evidence_units:
        spans.setdefault(each.unit.version, []).append(Span(each.unit.start, each.unit.end))
    return [
        Source(one.version, marked(one.text, spans[one.version])) for one in held.transitions if one.version in spans
    ]
