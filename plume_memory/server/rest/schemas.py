"""Bodies of memory's own REST. What comes in is refused where it holds what nobody reads."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from plume_memory.records import (
    Difference,
    ErasedText,
    ErasureCertificate,
    Form,
    Transition,
    Version,
    VersionKind,
)
from plume_memory.server.settings import MAX_NUMBER
from plume_memory.store.checks import MAX_NAME
from plume_memory.store.directory import ListedMemory

Number = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
NumberOrNone = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


def _moment(value: object) -> object:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


Moment = Annotated[
    datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation")
]
"""ISO 8601."""


class Incoming(BaseModel):
    """A body that is refused where it holds what nobody reads."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ProblemDocument(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    param: str | None = None


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": description,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }
    for status, description in (
        (400, "The request is wrong."),
        (401, "No key that opens anything."),
        (403, "The key may not do this."),
        (404, "Nothing there that is the caller's."),
        (405, "No such method."),
        (408, "The body came too slowly."),
        (409, "There is one already, or the same key is still running."),
        (412, "The memory has moved on."),
        (413, "The body is too large."),
        (415, "The body is of another type."),
        (422, "The idempotency key was used for something else."),
        (429, "Too much was asked for."),
        (500, "The server failed."),
        (503, "Not now."),
    )
}
"""What any of these routes may answer besides."""


class NewMemory(Incoming):
    """A memory to be made."""

    name: Name


class KeyOut(BaseModel):
    """What a key may do."""

    tenant: str
    scopes: list[str]
    memory: str | None
    """The id of the one memory that it opens; null: those of its tenant."""


class MemoryOut(BaseModel):
    """A memory, as its tenant sees it."""

    id: str
    name: str
    created_at: datetime
    version: int
    """The newest; 0 of an empty one."""
    head_hash: str
    forked_from: str | None = None
    """The id of the memory it was forked from, where that is the tenant's."""
    forked_at: int | None = None

    @classmethod
    def of(cls, memory: ListedMemory, origin: ListedMemory | None = None) -> Self:
        """Make one of a row."""
        return cls(
            id=memory.id,
            name=memory.name,
            created_at=memory.created_at,
            version=memory.head_number,
            head_hash=memory.head_hash,
            forked_from=None if origin is None else origin.id,
            forked_at=None if origin is None else memory.origin_version,
        )


class MemoryPage(BaseModel):
    """Some memories, oldest first."""

    data: list[MemoryOut]
    has_more: bool


class VersionOut(BaseModel):
    """An entry of a memory's log."""

    memory: str
    """Id."""
    number: int
    kind: VersionKind
    text: str
    text_sha256: str
    restores: int | None
    forgets: int | None
    span: list[int] | None
    metadata: dict[str, Any]
    created_at: datetime
    parent_hash: str
    chain_hash: str
    erased_by: int | None

    @classmethod
    def of(cls, memory: ListedMemory, version: Version) -> Self:
        """Make one of an entry. Its idempotency key stays with who sent it."""
        return cls(
            memory=memory.id,
            number=version.number,
            kind=version.kind,
            text=version.text,
            text_sha256=version.text_sha256,
            restores=version.restores,
            forgets=version.forgets,
            span=None if version.span is None else list(version.span),
            metadata=version.metadata,
            created_at=version.created_at,
            parent_hash=version.parent_hash,
            chain_hash=version.chain_hash,
            erased_by=version.erased_by,
        )


class VersionPage(BaseModel):
    """Some entries, oldest first."""

    data: list[VersionOut]
    has_more: bool


class NewUpdate(Incoming):
    """What is now true: a text, or what was said by turns."""

    text: str = ""
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    form: Form | None = None
    """How the text is written; as it looks, if it is left out."""
    speaker: Annotated[str, Field(min_length=1, max_length=MAX_NAME)] | None = None
    """Whose words it is; the owner's, if it is left out."""
    observed_at: Moment | None = None
    """When it was said: "yesterday" is counted from there."""
    in_answer_to: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """The question it answers, where it says nothing without."""
    expires_at: Moment | None = None
    """With its zone; from then on it is not read, and stays in the log."""
    metadata: dict[str, Any] | None = None
    replaces: list[Number] = []
    """Updates whose texts it replaces, whatever the judge says."""
    keep: bool | list[Number] = False
    """Updates of which it replaces nothing; true: of none."""
    derive: Literal["wait", "later"] = "later"


class UpdateOut(VersionOut):
    """The update that was written. It is durable, whatever became of its factors."""

    derived: bool
    """Whether its factors are there; else the next question derives them."""


class NewRollback(Incoming):
    """The version whose history is to hold again."""

    to: Number


class NewFork(Incoming):
    """A copy under a new name."""

    name: Name
    at: NumberOrNone | None = None


class Forgetting(Incoming):
    """What is to be forgotten: a version, words, or a part of a version."""

    version: Number | None = None
    text: Annotated[str, Field(min_length=1)] | None = None
    span: Annotated[list[NumberOrNone], Field(min_length=2, max_length=2)] | None = None
    reason: str | None = None
    erase: bool = False
    """Remove it for good: the answer is the certificate."""

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.version is None and self.text is None:
            raise ValueError("name what is to be forgotten: `version`, `text` or both")
        return self


class ErasedTextOut(BaseModel):
    """One row of the log whose text was erased."""

    memory: str | None
    """Id; null for another tenant's copy."""
    version: int
    span: list[int] | None
    erased_by: int
    text_sha256: str
    left_sha256: str
    chain_hash: str

    @classmethod
    def of(cls, erased: ErasedText, memory: ListedMemory | None) -> Self:
        """Make one of a certificate's row."""
        return cls(
            memory=None if memory is None else memory.id,
            version=erased.version,
            span=None if erased.span is None else list(erased.span),
            erased_by=erased.erased_by,
            text_sha256=erased.text_sha256,
            left_sha256=erased.left_sha256,
            chain_hash=erased.chain_hash,
        )


class CertificateOut(BaseModel):
    """What an erasure removed, and what it could not."""

    object: Literal["certificate"] = "certificate"
    memory: str
    version: int
    reason: str | None
    erased: list[ErasedTextOut]
    artifacts: list[str]
    still_said_by: list[int]
    journal_items: int
    confirmed_by: int
    unconfirmed_by: int
    rebuilt: list[int]
    erased_at: datetime
    limits: list[str]

    @classmethod
    def of(cls, memory: ListedMemory, certificate: ErasureCertificate, known: dict[str, ListedMemory]) -> Self:
        """Make one of a certificate; `known` are the tenant's memories by the log's names."""
        return cls(
            memory=memory.id,
            version=certificate.version,
            reason=certificate.reason,
            erased=[ErasedTextOut.of(one, known.get(one.memory)) for one in certificate.erased],
            artifacts=list(certificate.artifacts),
            still_said_by=list(certificate.still_said_by),
            journal_items=certificate.journal_items,
            confirmed_by=certificate.confirmed_by,
            unconfirmed_by=certificate.unconfirmed_by,
            rebuilt=list(certificate.rebuilt),
            erased_at=certificate.erased_at,
            limits=list(certificate.limits),
        )


class OperationOut(BaseModel):
    """What takes longer than a request waits."""

    id: str
    memory: str
    status: Literal["running", "done", "failed"]
    created_at: datetime
    result: CertificateOut | None
    problem: ProblemDocument | None


class VerificationOut(BaseModel):
    """What was checked of a log; one that does not verify is an error."""

    memory: str
    versions: int
    head_hash: str


class TextOut(BaseModel):
    """The history that holds at a version."""

    memory: str
    version: int
    text: str
    transitions: list[Transition]


class DifferenceOut(BaseModel):
    """What one version's history holds and another's does not."""

    memory: str
    before: int
    after: int
    removed: list[Transition]
    added: list[Transition]

    @classmethod
    def of(cls, memory: ListedMemory, found: Difference) -> Self:
        """Make one of a difference."""
        return cls(
            memory=memory.id,
            before=found.before,
            after=found.after,
            removed=list(found.removed),
            added=list(found.added),
        )


class ImportOut(BaseModel):
    """A memory that was read from an archive."""

    memory: MemoryOut
    versions: int
    head_hash: str
