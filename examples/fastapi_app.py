"""A web app with one memory per user: one model in memory, one log, and nobody reads anybody else's.

pip install fastapi uvicorn
uvicorn fastapi_app:app

curl -X POST localhost:8000/facts -H 'X-User: alice' -H 'Content-Type: application/json' \
        -d '{"text": "Alice lives in Bern."}'
curl 'localhost:8000/answer?question=Where+does+Alice+live%3F' -H 'X-User: alice'
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from plume_memory import MemoryPool, ParametricMemory, PlumeError
from plume_memory.errors import InvalidInput, VersionNotFound


class Fact(BaseModel):
    """What a user tells."""

    text: str


def whose(request: Request, x_user: Annotated[str, Header()]) -> ParametricMemory:
    """Return the caller's memory. Put your own login here: a header proves nothing."""
    return request.app.state.pool.memory(x_user)


Memory = Annotated[ParametricMemory, Depends(whose)]


def make_app(pool: MemoryPool) -> FastAPI:
    """Return an app on a pool; it closes the pool when it ends."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with pool:
            app.state.pool = pool
            yield

    app = FastAPI(title="A memory per user", lifespan=lifespan)

    @app.exception_handler(PlumeError)
    def refused(_: Request, error: PlumeError) -> JSONResponse:
        status = {InvalidInput: 422, VersionNotFound: 404}.get(type(error), 503)
        return JSONResponse({"detail": str(error)}, status_code=status)

    @app.post("/facts", status_code=201)
    def tell(memory: Memory, fact: Fact) -> dict[str, int]:
        return {"version": memory.update(fact.text, derive="later").number}

    @app.get("/answer")
    def answer(memory: Memory, question: str, version: int | None = None) -> dict[str, Any]:
        found = memory.at(version=version).ask(question)
        if not found.known:
            raise HTTPException(404, found.text)
        return {"answer": found.text, "version": found.version, "confidence": round(found.confidence, 2)}

    @app.get("/notes")
    def notes(memory: Memory, question: str) -> dict[str, str]:
        return {"notes": memory.recall(question).text}

    return app


app = make_app(MemoryPool("sqlite:///app.db"))
