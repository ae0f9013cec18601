"""What the tools take and give. Descriptions are read by models: they say when and what, in few words."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plume_memory.records import Answer, Difference, ErasureCertificate, Transition, Version, VersionKind
from plume_memory.server.mcp.backend import Ranking, Target
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


class RecallArguments(Arguments):
    """Of `recall`."""

    question: Annotated[Said, Field(description="One question, complete in itself.")]
    version: Annotated[NumberOrNone | None, Field(description="As of this version; the newest by default.")] = None


class SearchArguments(Arguments):
    """Of `search`."""

    query: Annotated[Said, Field(description="A question or words.")]
    k: Annotated[int, Field(ge=1, le=50, description="At most so many.")] = 5


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


class Recalled(BaseModel):
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


class FoundUnit(TextOf):
    """A piece of what the memory holds."""

    score: float
    superseded: bool
    """A later piece took its place."""


class Found(BaseModel):
    """The best pieces, best first."""

    version: int
    units: list[FoundUnit]

    @classmethod
    def of(cls, ranking: Ranking) -> Self:
        """Make one of a ranking."""
        units = [
            FoundUnit(**dict(TextOf.of(one.unit.version, one.unit.text)), score=one.score, superseded=one.superseded)
            for one in ranking.units
        ]
        return cls(version=ranking.version, units=units)


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
