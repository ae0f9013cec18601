"""Whether the process lives, and whether it should be given work. Asked by machines, every few seconds."""

import time
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict

from plume_memory.errors import ArtifactError, MemoryClosed, MissingExtra, SchemaError, StoreUnavailable
from plume_memory.server.state import Identified, Serving, ServingNow, stored
from plume_memory.store.schema import latest_revision

STUCK_S = 60.0
"""A batch in which nothing moves for so long is stuck."""
_LOOKED_S = 5.0


class Health(BaseModel):
    """How the server is."""

    model_config = ConfigDict(extra="forbid")

    status: str
    checks: dict[str, bool]
    reasons: dict[str, str]
    """Of checks that fail, where one is known: the kind of the error, as `ArtifactsUnavailable`."""


@dataclass(slots=True)
class _Looked:
    """What the stores last said."""

    at: float = -_LOOKED_S
    reasons: dict[str, str | None] = field(default_factory=dict)
    """None of a store that answers."""


def router() -> APIRouter:
    """Return the routes of health and metrics."""
    made = APIRouter(tags=["operations"])
    looked = _Looked()
    unwell: dict[int | str, dict[str, Any]] = {503: {"model": Health}}

    @made.get("/healthz", response_model=Health, responses=unwell)
    async def healthz(serving: ServingNow) -> JSONResponse:
        """Whether the process lives: the event loop answers, and a batch that is decoded moves."""
        return _said({"engine": not _is_stuck(serving, time.monotonic())}, {})

    @made.get("/readyz", response_model=Health, responses=unwell)
    async def readyz(serving: ServingNow) -> JSONResponse:
        """Whether it should be given work: database and artifacts answer, the model is warm, it does not drain."""
        if time.monotonic() - looked.at >= _LOOKED_S:
            looked.at = time.monotonic()
            looked.reasons = await stored(lambda: stores(serving))
        condition = serving.condition
        return _said(
            {
                **{name: reason is None for name, reason in looked.reasons.items()},
                "model": condition.is_warm,
                "log": not condition.is_broken,
                "accepting": not condition.is_draining,
            },
            {name: reason for name, reason in looked.reasons.items() if reason is not None},
        )

    @made.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics(serving: ServingNow, caller: Identified) -> Response:
        """Prometheus' counters. With keys, one with the scope `admin` reads them."""
        if caller.key_id is not None:
            caller.check("admin")
        return Response(serving.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return made


def _said(checks: dict[str, bool], reasons: dict[str, str]) -> JSONResponse:
    is_well = all(checks.values())
    body = Health(status="ok" if is_well else "unavailable", checks=checks, reasons=reasons)
    return JSONResponse(body.model_dump(), 200 if is_well else 503, {"cache-control": "no-store"})


def stores(serving: Serving) -> dict[str, str | None]:
    """Ask database and artifact store whether they answer, and as this release expects; of each why not, or None."""
    database = artifacts = None
    try:
        if serving.pool.database.revision() != latest_revision():
            database = SchemaError.__name__
    except (StoreUnavailable, SchemaError, MemoryClosed) as err:
        database = type(err).__name__
    try:
        serving.pool.artifacts.check()
    except (ArtifactError, MissingExtra) as err:
        artifacts = type(err).__name__
    return {"database": database, "artifacts": artifacts}


def _is_stuck(serving: Serving, now: float) -> bool:
    """The scheduler has no thread of its own: it is stuck if something is decoded and no step is taken."""
    engine, condition = serving.pool.loaded_engine, serving.condition
    if engine is None:
        return False
    counters = engine.scheduler.counters()
    if counters.running == 0 or counters.steps != condition.steps:
        condition.steps, condition.stepped = counters.steps, now
    return now - condition.stepped > STUCK_S
