"""Errors as HTTP says them: one table from an error's class to a status, and the two shapes of a body.

Memory's own paths answer `application/problem+json` (RFC 9457), OpenAI's the `{"error": …}` that its clients read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse

from plume_memory import errors

OPENAI_PATHS = ("/v1/models", "/v1/chat/", "/v1/responses")
PROBLEM_TYPE = "urn:plume:problem:"
RETRY_S = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, for a caller."""

    status: int
    code: str
    """Names the kind; the end of RFC 9457's `type`."""
    detail: str
    retry_after_s: int | None = None
    should_retry: bool | None = None
    """For OpenAI's clients, which else go by the status; None leaves it to them."""
    param: str | None = None
    """The part of the request that is wrong, where one is."""


class Refused(errors.PlumeError):
    """The server refuses a request before the library sees it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class _Row:
    kind: type[Exception]
    status: int
    code: str
    shown: bool = True
    """Whether the error's own words are for the caller: those of a broken store may say where it is."""
    retry_after_s: int | None = None
    should_retry: bool | None = None


_TABLE = (  # the first that fits
    _Row(errors.TextTooLong, 400, "text-too-long"),
    _Row(errors.MissingExtra, 503, "model", shown=False),
    _Row(errors.FactorsError, 503, "model", shown=False),
    _Row(errors.InvalidInput, 400, "invalid-input"),
    _Row(errors.PromptTooLong, 400, "context-length-exceeded"),
    _Row(errors.MemoryNotFound, 404, "memory-not-found"),
    _Row(errors.VersionNotFound, 404, "version-not-found"),
    _Row(errors.KeyNotFound, 404, "key-not-found"),
    _Row(errors.MemoryExists, 409, "memory-exists", should_retry=False),
    _Row(errors.VersionConflict, 412, "version-conflict"),
    _Row(errors.IdempotencyConflict, 422, "idempotency-conflict"),
    _Row(errors.ArchiveError, 400, "archive"),
    _Row(errors.MemoryClosed, 503, "closed", shown=False),
    _Row(errors.SchemaError, 503, "schema", shown=False, should_retry=False),
    _Row(errors.ModelError, 503, "model", shown=False, should_retry=False),
    _Row(errors.CommitUnknown, 503, "commit-unknown", shown=False, retry_after_s=RETRY_S),
    _Row(errors.StoreUnavailable, 503, "store-unavailable", shown=False, retry_after_s=RETRY_S),
    _Row(errors.ArtifactError, 503, "artifacts", shown=False, retry_after_s=RETRY_S),
    _Row(errors.IntegrityError, 500, "integrity", should_retry=False),
    _Row(errors.Busy, 503, "busy", retry_after_s=RETRY_S, should_retry=True),
    _Row(errors.DeadlineExceeded, 503, "deadline-exceeded", retry_after_s=RETRY_S, should_retry=False),
    _Row(errors.Cancelled, 503, "cancelled", should_retry=False),
    _Row(errors.Unauthorized, 401, "unauthorized"),  # these are another server's, met by a bridge to it
    _Row(errors.Forbidden, 403, "forbidden"),
    _Row(errors.RateLimited, 429, "rate-limited"),
    _Row(errors.ServerError, 502, "upstream"),
    _Row(errors.PlumeError, 500, "failed", shown=False),
)
_ADVICE = {"commit-unknown": "Repeat the request with the same Idempotency-Key."}


def problem_of(error: BaseException) -> Problem:
    """Return what an error is for a caller; of one that is nobody's business only that it happened."""
    if isinstance(error, Refused):
        return error.problem
    row = next((row for row in _TABLE if isinstance(error, row.kind)), None)
    if row is None:
        return Problem(500, "failed", "The server failed at this; its log says more under this request's id.")
    said = str(error) if row.shown else (type(error).__doc__ or "").strip()
    detail = " ".join(filter(None, (said, _ADVICE.get(row.code))))
    return Problem(row.status, row.code, detail, row.retry_after_s, row.should_retry)


def invalid(detail: str, *, param: str | None = None, code: str = "invalid-input") -> Refused:
    """Return the refusal of a request that is wrong in itself."""
    return Refused(Problem(400, code, detail, param=param))


def response(problem: Problem, path: str, request_id: str, *, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the answer that says a problem, in the shape of the path it is said on."""
    sent = {"cache-control": "no-store", **(headers or {})}
    if problem.retry_after_s is not None:
        sent["retry-after"] = str(problem.retry_after_s)
    if problem.should_retry is not None:
        sent["x-should-retry"] = "true" if problem.should_retry else "false"
    if is_openai(path):
        return JSONResponse(openai_error(problem), problem.status, sent)
    body = problem_document(problem, request_id)
    return JSONResponse(body, problem.status, sent, media_type="application/problem+json")


def is_openai(path: str) -> bool:
    """Tell whether a path speaks OpenAI's protocol."""
    return any(path.rstrip("/") == each.rstrip("/") or path.startswith(f"{each.rstrip('/')}/") for each in OPENAI_PATHS)


def problem_document(problem: Problem, request_id: str) -> dict[str, Any]:
    """Return RFC 9457's body."""
    body: dict[str, Any] = {
        "type": f"{PROBLEM_TYPE}{problem.code}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        "request_id": request_id,
    }
    return body if problem.param is None else {**body, "param": problem.param}


def openai_error(problem: Problem) -> dict[str, Any]:
    """Return OpenAI's body."""
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    kind = kinds.get(problem.status, "server_error" if problem.status >= 500 else "invalid_request_error")
    code = problem.code.replace("-", "_")
    return {"error": {"message": problem.detail, "type": kind, "param": problem.param, "code": code}}
