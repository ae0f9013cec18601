"""The application: the parts, the middleware around them, and a router for each room."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from plume_memory import __version__
from plume_memory.errors import PlumeError
from plume_memory.pool import MemoryPool
from plume_memory.server import health
from plume_memory.server.access import Access
from plume_memory.server.body import BodyLimit
from plume_memory.server.mcp.endpoint import McpEndpoint
from plume_memory.server.openai import chat, models, responses
from plume_memory.server.openai.schemas import OpenAIError
from plume_memory.server.page.router import router as page_router
from plume_memory.server.problems import Problem, problem_of, response
from plume_memory.server.rest import archives, asking, keys, looking, memories, reading, writing
from plume_memory.server.rest.schemas import ProblemDocument
from plume_memory.server.settings import ServerSettings
from plume_memory.server.state import Serving

_PLUME_HEADERS = ("x-plume-memory", "x-plume-version", "x-plume-conversation", "x-plume-timeout")
_ANSWER_HEADERS = ("x-plume-version", "x-plume-known", "x-plume-trace", "x-plume-ignored")


def create_app(pool: MemoryPool, settings: ServerSettings | None = None) -> FastAPI:
    """Return the application of a pool. It closes the pool when it is shut down.

    `app.state.serving` holds the parts, for further routers: see `state.Serving`.

    Raises:
        SchemaError: the database belongs to another release.
        StoreUnavailable: the database cannot be opened.
    """
    settings = settings or ServerSettings()
    serving = Serving.of(pool, settings)
    serving.keys.any_made()  # opens the database: a new one gets its schema, an older one is refused here

    mcp = McpEndpoint(serving)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with mcp.run():
            yield
        serving.close()

    app = FastAPI(title="plume", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.serving = serving
    for router in (
        archives.router,  # before `/v1/memories/{id}`: its import is no memory
        memories.router,
        reading.router,
        asking.router,
        looking.router,
        keys.router,
        writing.router(),
        models.router,
        chat.router,
        responses.router,
        health.router(),
        page_router(settings.mark),
    ):
        app.include_router(router)
    app.router.routes.append(mcp.route)
    app.add_middleware(BodyLimit, settings=settings)
    app.add_middleware(Access, serving=serving)
    if settings.cors_origins:
        _admit_pages(app, settings.cors_origins)
    _handle_errors(app, serving)
    _describe(app)
    return app


def _admit_pages(app: FastAPI, origins: tuple[str, ...]) -> None:
    """Let the pages of these sites call, with a key in a header; never with the page's own cookie."""
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type", "idempotency-key", "if-match", *_PLUME_HEADERS],
        expose_headers=["etag", "retry-after", "x-request-id", *_ANSWER_HEADERS],
    )


def _handle_errors(app: FastAPI, serving: Serving) -> None:
    """Every error gets the shape of the path it is met on; FastAPI's own shapes are neither."""

    def said(request: Request, problem: Problem, headers: dict[str, str] | None = None) -> Response:
        return response(problem, request.url.path, getattr(request.state, "request_id", ""), headers=headers)

    @app.exception_handler(PlumeError)
    async def plume_error(request: Request, error: PlumeError) -> Response:
        serving.failed(error)
        problem = problem_of(error)
        return said(request, problem, {"www-authenticate": "Bearer"} if problem.status == 401 else None)

    @app.exception_handler(RequestValidationError)
    async def invalid_request(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return said(request, Problem(400, "invalid-input", f"{place}: {first['msg']}.", param=place))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        codes = {404: "not-found", 405: "method-not-allowed"}
        code = codes.get(error.status_code, "invalid-input")
        headers = dict(error.headers or {})
        if error.status_code == 405:  # a route knows its own methods alone, and a path may have several
            own = headers.pop("Allow", "")
            headers["allow"] = ", ".join(_methods(app, request.url.path)) or own
        return said(request, Problem(error.status_code, code, str(error.detail)), headers)

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        return said(request, problem_of(error))


def _methods(app: FastAPI, path: str) -> list[str]:
    """The methods of a path, as the document has them."""
    found = app.openapi()["paths"]
    return sorted({name.upper() for known in found if compile_path(known)[0].match(path) for name in found[known]})


def _describe(app: FastAPI) -> None:
    """Say in the OpenAPI document what is so: errors are problems, and none has FastAPI's shape."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = made()
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
            template = "#/components/schemas/{model}"
            error = OpenAIError.model_json_schema(ref_template=template)
            schemas.update(error.pop("$defs"))
            schemas["OpenAIError"] = error
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            for operations in document["paths"].values():
                for operation in operations.values():
                    found = operation["responses"].get("422", {})
                    if "HTTPValidationError" in str(found):
                        del operation["responses"]["422"]
            document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"key": []}, {}]
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's way to change the document
