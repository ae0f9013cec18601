"""A server's problems as the library's own errors: whoever catches them need not know where the memory is.

The other direction is server/problems.py; a test holds the two together.
"""

from typing import Any

from plume_memory import errors

PROBLEM_TYPE = "urn:plume:problem:"

KINDS: dict[str, type[errors.PlumeError]] = {
    "text-too-long": errors.TextTooLong,
    "invalid-input": errors.InvalidInput,
    "context-length-exceeded": errors.PromptTooLong,
    "body-too-large": errors.TextTooLong,
    "memory-not-found": errors.MemoryNotFound,
    "version-not-found": errors.VersionNotFound,
    "key-not-found": errors.KeyNotFound,
    "memory-exists": errors.MemoryExists,
    "version-conflict": errors.VersionConflict,
    "idempotency-conflict": errors.IdempotencyConflict,
    "archive": errors.ArchiveError,
    "closed": errors.MemoryClosed,
    "schema": errors.SchemaError,
    "model": errors.ModelError,
    "commit-unknown": errors.CommitUnknown,
    "store-unavailable": errors.StoreUnavailable,
    "artifacts": errors.ArtifactError,
    "integrity": errors.IntegrityError,
    "busy": errors.Busy,
    "draining": errors.Busy,
    "idempotency-in-flight": errors.Busy,
    "deadline-exceeded": errors.DeadlineExceeded,
    "cancelled": errors.Cancelled,
    "unauthorized": errors.Unauthorized,
    "forbidden": errors.Forbidden,
    "rate-limited": errors.RateLimited,
}
"""End of a problem's `type` → the error it is here. Any other is a `ServerError`."""


def error_of(status: int, document: Any) -> errors.PlumeError:
    """Return the error that a server's answer says.

    Args:
        status: of the answer.
        document: its body, RFC 9457's; of anything else, as a proxy's page, the status alone is said.
    """
    if not isinstance(document, dict) or not str(document.get("type", "")).startswith(PROBLEM_TYPE):
        return errors.ServerError(f"The server answered with status {status}, and not as plume's does: is it one?")
    kind = KINDS.get(str(document["type"]).removeprefix(PROBLEM_TYPE), errors.ServerError)
    where = f" (request {document['request_id']})" if status >= 500 and document.get("request_id") else ""
    return kind(f"{document.get('detail', '')}{where}")
