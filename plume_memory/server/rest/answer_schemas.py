"""Bodies of questions and answers in memory's own shape."""

from datetime import date, datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, model_validator

from plume_memory.recalling.notes import MAX_TOKENS, NOTES, Recall
from plume_memory.records import Answer, Replacement, ScoredUnit, Signals, TokenTrace, Usage
from plume_memory.server.rest.schemas import Incoming, NumberOrNone


class Turn(Incoming):
    """A turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Question(Incoming):
    """A question, or a conversation that ends with one."""

    question: Annotated[str, Field(min_length=1)] | None = None
    messages: Annotated[list[Turn], Field(min_length=1)] | None = None
    version: NumberOrNone | None = None
    stream: bool = False
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: Annotated[list[Annotated[str, Field(min_length=1)]], Field(default_factory=list, max_length=16)]
    top_candidates: Annotated[int, Field(ge=0, le=20)] = 0
    unknown: Literal["abstain", "bare"] = "abstain"
    known_at: Annotated[float, Field(ge=0, le=1)] | None = None

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        _check_one_question(self.question, self.messages)
        return self


class AnswerOut(BaseModel):
    """What a memory answered, and from what."""

    trace_id: str
    memory: str | None
    """Id; null of the bare model."""
    version: int
    text: str
    known: bool
    confidence: float
    evidence: ScoredUnit | None
    evidence_units: list[ScoredUnit]
    usage: Usage
    finish_reason: Literal["stop", "length"]
    retried: bool
    signals: Signals | None
    trace: list[TokenTrace]

    @classmethod
    def of(cls, answer: Answer, *, memory: str | None, trace_id: str) -> Self:
        """Make one of an answer."""
        return cls(
            trace_id=trace_id,
            memory=memory,
            version=answer.version,
            text=answer.text,
            known=answer.known,
            confidence=answer.confidence,
            evidence=answer.evidence,
            evidence_units=list(answer.evidence_units),
            usage=answer.usage,
            finish_reason=answer.finish_reason,
            retried=answer.retried,
            signals=answer.signals,
            trace=list(answer.trace),
        )


class TraceOut(AnswerOut):
    """What an answer was made of, for a while after it was given."""

    question: str
    created_at: datetime


def _day_or_moment(value: object) -> object:
    if not isinstance(value, str):
        return value
    return date.fromisoformat(value) if len(value) == len("2026-03-04") else datetime.fromisoformat(value)


DayOrMoment = Annotated[
    datetime | date, BeforeValidator(_day_or_moment), WithJsonSchema({"type": "string"}, mode="validation")
]
"""ISO 8601. A day is counted by the clock of whoever said a note; a time without a zone is of UTC."""


class RecallQuestion(Incoming):
    """What notes are wanted for: a question, or a conversation that ends with one."""

    question: Annotated[str, Field(min_length=1)] | None = None
    messages: Annotated[list[Turn], Field(min_length=1)] | None = None
    k: Annotated[int, Field(ge=1, le=100)] = NOTES
    max_tokens: Annotated[int, Field(ge=1)] = MAX_TOKENS
    history: bool = False
    """Whether what does not hold any more comes too, marked."""
    since: DayOrMoment | None = None
    until: DayOrMoment | None = None
    """A day counts whole."""
    version: NumberOrNone | None = None

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        _check_one_question(self.question, self.messages)
        return self


class NoteOut(BaseModel):
    """A note as a model may read it."""

    version: int
    span: list[int]
    text: str
    said_at: datetime
    speaker: str | None
    score: float
    rank: int
    is_current: bool
    completes: bool


class Recalled(BaseModel):
    """The notes that bear on a question, oldest first, and the text that shows them."""

    memory: str
    """Id."""
    version: int
    question: str
    """The words that were looked up."""
    notes: list[NoteOut]
    tokens: int
    text: str

    @classmethod
    def of(cls, found: Recall, *, memory: str, version: int) -> Self:
        """Make one of a recall."""
        notes = [
            NoteOut(
                version=note.version,
                span=list(note.span),
                text=note.text,
                said_at=note.said_at,
                speaker=note.speaker,
                score=note.score,
                rank=note.rank,
                is_current=note.is_current,
                completes=note.completes,
            )
            for note in found.notes
        ]
        return cls(
            memory=memory,
            version=version,
            question=found.question,
            notes=notes,
            tokens=found.tokens,
            text=found.text,
        )


class RouteQuestion(Incoming):
    """What units are ranked for."""

    question: Annotated[str, Field(min_length=1)]
    k: Annotated[int, Field(ge=1, le=100)] = 5
    version: NumberOrNone | None = None


class Routed(BaseModel):
    """The best units, best first."""

    memory: str
    version: int
    units: list[ScoredUnit]


class ReplacementsOut(BaseModel):
    """Units that no longer hold at a version, and what took their place."""

    memory: str
    version: int
    replacements: list[Replacement]


def _check_one_question(question: str | None, messages: list[Turn] | None) -> None:
    if (question is None) == (messages is None):
        raise ValueError("give `question` or `messages`, one of them")
