"""What the tools take and give. Descriptions are read by models: they say when and what, in few words."""

from datetime import date, datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plume_memory.recalling.notes import NOTES, Note, Recall, RemoteRecallOptions
from plume_memory.records import Answer, Difference, ErasureCertificate, Transition, Version, VersionKind
from plume_memory.server.mcp.backend import Target
from plume_memory.server.settings import MAX_NUMBER, UPDATE_CHARS
from plume_memory.store.checks import MAX_NAME

SHOWN_CHARS = 1000
"""Most of one text that a list shows: a model reads it all. The whole text is a resource."""

Number = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
NumberOrNone = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Said = Annotated[str, Field(min_length=1, max_length=UPDATE_CHARS)]
MemoryName = Annotated[str, Field(min_length=1, max_length=MAX_NAME, description="The memory: its name or its id.")]


class Arguments(BaseModel):
    """What a call gives; what nobody reads is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RememberArguments(Arguments):
    """Of `remember`."""

    text: Annotated[Said, Field(description="What is now true, in whole sentences that name who and what.")]
    idempotency_key: Annotated[
        Annotated[str, Field(min_length=1, max_length=MAX_NAME)] | None,
        Field(description="Sent again with the same key it is one update."),
    ] = None


class AskArguments(Arguments):
    """Of `ask`."""

    question: Annotated[Said, Field(description="One question, complete in itself.")]
    version: Annotated[NumberOrNone | None, Field(description="As of this version; the newest by default.")] = None


class RecallArguments(Arguments):
    """Of `recall`."""

    question: Annotated[Said, Field(description="What you want to know, complete in itself.")]
    k: Annotated[int, Field(ge=1, le=50, description="At most so many notes.")] = NOTES
    history: Annotated[bool, Field(description="Also what does not hold any more.")] = False
    since: Annotated[date | None, Field(description="Only what was said from that day on.")] = None
    until: Annotated[date | None, Field(description="Only what was said until that day.")] = None

    @property
    def options(self) -> RemoteRecallOptions:
        """What goes with the question."""
        return {"k": self.k, "history": self.history, "since": self.since, "until": self.until}


class HistoryArguments(Arguments):
    """Of `history`."""

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    before: Annotated[Number | None, Field(description="Only versions below this one: the next page.")] = None


class DiffArguments(Arguments):
    """Of `diff`."""

    before: Annotated[NumberOrNone, Field(alias="from", description="A version; 0 is the empty memory.")]
    after: Annotated[NumberOrNone, Field(alias="to", description="Another version.")]


class ForgetArguments(Arguments):
    """Of `forget`."""

    text: Annotated[Said | None, Field(description="Exact words that it holds now, standing in one place.")] = None
    version: Annotated[Number | None, Field(description="The update to be forgotten, or that the words are of.")] = None
    reason: Annotated[Said | None, Field(description="Kept in the log.")] = None

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.version is None and self.text is None:
            raise ValueError("give `text`, `version`, or both")
        return self

    @property
    def target(self) -> Target:
        """What is meant."""
        return Target(self.version, self.text, self.reason)


class EraseArguments(ForgetArguments):
    """Of `erase`."""

    confirm: Annotated[Literal["erase"], Field(description='"erase", after the person has agreed to it.')]


class Remembered(BaseModel):
    """An update that is in the log."""

    version: int
    created_at: datetime

    @classmethod
    def of(cls, version: Version) -> Self:
        """Make one of an entry."""
        return cls(version=version.number, created_at=version.created_at)


class TextOf(BaseModel):
    """A text and the version that brought it."""

    version: int
    text: str
    is_cut: bool = False
    """Only its beginning is here."""

    @classmethod
    def of(cls, version: int, text: str) -> Self:
        """Make one, cut where it is long."""
        return cls(version=version, text=text[:SHOWN_CHARS], is_cut=len(text) > SHOWN_CHARS)


class Answered(BaseModel):
    """An answer, and what it is from."""

    answer: str
    known: bool
    """False: the memory was not told this; the answer only says so."""
    confidence: float
    version: int
    evidence: list[TextOf]

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """Make one of an answer."""
        units = [TextOf.of(one.unit.version, one.unit.text) for one in answer.evidence_units]
        return cls(
            answer=answer.text,
            known=answer.known,
            confidence=answer.confidence,
            version=answer.version,
            evidence=units,
        )


class NotePlace(BaseModel):
    """Where a note is from. Its words stand in the text alone, quoted."""

    version: int
    start: int
    end: int
    day: date
    score: float
    is_current: bool

    @classmethod
    def of(cls, note: Note) -> Self:
        """Make one of a note."""
        return cls(
            version=note.version,
            start=note.span.start,
            end=note.span.end,
            day=note.day,
            score=note.score,
            is_current=note.is_current,
        )


class Recalled(BaseModel):
    """The notes that bear on a question, oldest first."""

    text: str
    """What they say; empty where nothing bears on it."""
    notes: list[NotePlace]

    @classmethod
    def of(cls, found: Recall) -> Self:
        """Make one of a recall."""
        return cls(text=found.text, notes=[NotePlace.of(note) for note in found.notes])


class HistoryEntry(TextOf):
    """One version of the memory."""

    kind: VersionKind
    created_at: datetime
    restores: int | None
    """Of a rollback: the version that holds again."""
    forgets: int | None
    """Of a forget or an erase: the update that no longer holds."""
    reason: str | None
    erased_by: int | None

    @classmethod
    def of_version(cls, version: Version) -> Self:
        """Make one of an entry."""
        reason = version.metadata.get("reason") if version.kind in ("forget", "erase") else None
        return cls(
            **dict(TextOf.of(version.number, version.text)),
            kind=version.kind,
            created_at=version.created_at,
            restores=version.restores,
            forgets=version.forgets,
            reason=reason if isinstance(reason, str) else None,
            erased_by=version.erased_by,
        )


class HistoryPage(BaseModel):
    """Some versions, newest first."""

    entries: list[HistoryEntry]
    has_more: bool
    """There are older ones: ask again with `before`."""

    @classmethod
    def of(cls, versions: list[Version]) -> Self:
        """Make one of entries, oldest first."""
        entries = [HistoryEntry.of_version(one) for one in reversed(versions)]
        return cls(entries=entries, has_more=bool(versions) and versions[0].number > 1)


class Differs(BaseModel):
    """What one version holds and the other does not."""

    removed: list[TextOf]
    added: list[TextOf]

    @classmethod
    def of(cls, difference: Difference) -> Self:
        """Make one of a difference."""

        def shown(transitions: tuple[Transition, ...]) -> list[TextOf]:
            return [TextOf.of(one.version, one.text) for one in transitions]

        return cls(removed=shown(difference.removed), added=shown(difference.added))


class Forgotten(BaseModel):
    """The version from which on a text no longer holds."""

    version: int
    forgets: int | None

    @classmethod
    def of(cls, version: Version) -> Self:
        """Make one of an entry."""
        return cls(version=version.number, forgets=version.forgets)


class Erased(BaseModel):
    """What was removed for good, and what was not reached."""

    version: int
    erased: list[int]
    """Updates of this memory whose texts, or parts of them, are gone."""
    copies: int
    """Rows of forks and imports that lost them too."""
    artifacts: int
    still_said_by: list[int]
    """Other versions that say the same words: erase them too, if that is meant."""
    erased_at: datetime
    limits: list[str]

    @classmethod
    def of(cls, certificate: ErasureCertificate) -> Self:
        """Make one of a certificate."""
        own = [one.version for one in certificate.erased if one.memory == certificate.memory]
        return cls(
            version=certificate.version,
            erased=own,
            copies=len(certificate.erased) - len(own),
            artifacts=len(certificate.artifacts),
            still_said_by=list(certificate.still_said_by),
            erased_at=certificate.erased_at,
            limits=list(certificate.limits),
        )
