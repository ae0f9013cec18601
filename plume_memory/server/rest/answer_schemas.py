"""Bodies of questions and answers in memory's own shape."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

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
        if (self.question is None) == (self.messages is None):
            raise ValueError("give `question` or `messages`, one of them")
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
            signals=answer.signals,
            trace=list(answer.trace),
        )


class TraceOut(AnswerOut):
    """What an answer was made of, for a while after it was given."""

    question: str
    created_at: datetime


class RouteQuestion(Incoming):
    """What units are ranked for."""

    question: Annotated[str, Field(min_length=1)]
    k: Annotated[int, Field(ge=1, le=100)] = 5
    version: NumberOrNone | None = None
    relevant: bool = False
    """Only those that bear on the question, and that hold: often none."""


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
