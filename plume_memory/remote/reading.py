"""What a server sends, as the library's own values. A field that is not known here is left out."""

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from plume_memory.errors import ServerError
from plume_memory.recalling.notes import Note, Recall
from plume_memory.records import (
    Answer,
    Difference,
    ErasureCertificate,
    History,
    Replacement,
    ScoredUnit,
    Verification,
    Version,
)

_Value = TypeVar("_Value")

_VERSION = TypeAdapter(Version)
_ANSWER = TypeAdapter(Answer)
_DIFFERENCE = TypeAdapter(Difference)
_HISTORY = TypeAdapter(History)
_NOTES = TypeAdapter(list[Note])
_UNITS = TypeAdapter(list[ScoredUnit])
_CERTIFICATE = TypeAdapter(ErasureCertificate)
_REPLACEMENTS = TypeAdapter(tuple[Replacement, ...])
_VERIFICATION = TypeAdapter(Verification)

ELSEWHERE = "the server's artifact store"
"""What a certificate says of the place: a server tells nobody where its artifacts are."""


def version_of(body: Any, memory: str, *, key: str | None = None) -> Version:
    """Return a log's entry. The server does not tell idempotency keys: it has the one that was sent with it now."""
    return _made(_VERSION, {"idempotency_key": key, **_named(body, memory)})


def answer_of(body: Any, memory: str) -> Answer:
    """Return an answer."""
    return _made(_ANSWER, _named(body, memory))


def difference_of(body: Any) -> Difference:
    """Return a difference."""
    return _made(_DIFFERENCE, body)


def history_of(body: Any, memory: str) -> History:
    """Return what held at a version."""
    return _made(_HISTORY, _named(body, memory))


def units_of(body: Any) -> list[ScoredUnit]:
    """Return ranked units."""
    return _made(_UNITS, body.get("units") if isinstance(body, dict) else None)


def recall_of(body: Any, memory: str) -> Recall:
    """Return a recall, every note with the memory's name."""
    found = body if isinstance(body, dict) else {}
    notes = _made(_NOTES, [_named(note, memory) for note in found.get("notes", [None])])
    return Recall(str(found.get("question", "")), (memory,), tuple(notes), int(found.get("tokens", 0)))


def replacements_of(body: Any) -> tuple[Replacement, ...]:
    """Return what took whose place."""
    return _made(_REPLACEMENTS, body.get("replacements") if isinstance(body, dict) else None)


def verification_of(body: Any) -> Verification:
    """Return what was checked of a log."""
    return _made(_VERIFICATION, body)


def certificate_of(body: Any, memory: str) -> ErasureCertificate:
    """Return a certificate; a copy in another memory has that one's id for a name, another tenant's an empty one."""
    if not isinstance(body, dict):
        return _made(_CERTIFICATE, body)
    own = body.get("memory")
    rows = [{**row, "memory": memory if row["memory"] == own else row["memory"] or ""} for row in body["erased"]]
    return _made(_CERTIFICATE, {**_named(body, memory), "erased": rows, "artifacts_place": ELSEWHERE})


def _named(body: Any, memory: str) -> Any:
    """A body that has the memory's id, with its name instead."""
    return {**body, "memory": memory} if isinstance(body, dict) else body


def _made(adapter: TypeAdapter[_Value], body: Any) -> _Value:
    try:
        return adapter.validate_python(body)
    except ValidationError as err:
        first = err.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ServerError(
            f"The server's answer is not understood here ({place}: {first['msg']}): of which release is it?"
        ) from err
