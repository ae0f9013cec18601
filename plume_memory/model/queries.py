"""What is decoded, how, and what comes out: values alone.

Two rows per query, both fed the same chosen token: the global stream and, where there is evidence, the evidence stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from plume_memory.cancel import Cancel
from plume_memory.errors import InvalidInput
from plume_memory.model.grammar import Grammar
from plume_memory.model.streams import Row
from plume_memory.records import TokenTrace, Usage

FinishReason = Literal["stop", "length"]
"""`stop`: the model or a stop ended the answer, or it ran on (run_on.py). `length`: its budget did, or it went round in
a circle (repetition.py)."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One question: the global stream and, where there is evidence, the evidence stream."""

    global_row: Row
    evidence_row: Row | None = None
    """Without it the answer is the global stream's alone (λ = 0)."""
    sources: tuple[str, ...] | None = None
    """The question and the evidence: a value of theirs, once begun, is copied as it stands (copying.py), the answer
    ends where it runs on without their words (run_on.py), what it may copy is guessed (drafts.py). None: nothing of it.
    Nor where a grammar says what may follow; and with more `min_new_tokens` than one no answer is ended."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Its streams, the global one first."""
        return (self.global_row,) if self.evidence_row is None else (self.global_row, self.evidence_row)

    @property
    def tokens(self) -> int:
        """Tokens of the longer stream after the prompt was read."""
        return max(row.tokens for row in self.rows)


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    """How a query is decoded."""

    max_new_tokens: int = 256
    lambda_max: float = 1.0
    tau: float = 0.3
    stop: tuple[str, ...] = ()
    """The answer ends before the first of these texts."""
    stop_ids: frozenset[int] = frozenset()
    """The answer ends at one of these ids, beside the model's own."""
    top_candidates: int = 0
    """Keep this many candidates of both streams per token in the trace."""
    min_new_tokens: int = 0
    """No stop id ends an answer before this many tokens; a stop text or a complete grammar does."""
    stop_loops: bool = True
    """End an answer that says the same over and over; False where the whole budget is to be seen, as in `eval`."""
    grammar: Grammar | None = None
    """What an answer may look like. One that the budget cuts short finishes with "length"; none is cut as a loop."""
    timeout: float | None = None
    """Seconds within which the answer must be decoded, waiting for others included; None: no end."""
    cancel: Cancel | None = field(default=None, compare=False)
    """Ends the decode at the next step, from whatever thread; None: nobody does."""

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "min_new_tokens", "top_candidates"):
            if type(getattr(self, name)) is not int:
                raise InvalidInput(f"{name} must be a whole number, got {getattr(self, name)!r}.")
        if self.max_new_tokens < 1:
            raise InvalidInput(f"max_new_tokens must be at least 1, got {self.max_new_tokens}.")
        if not 0 <= self.min_new_tokens <= self.max_new_tokens:
            raise InvalidInput(
                f"min_new_tokens must be between 0 and max_new_tokens ({self.max_new_tokens}), got "
                f"{self.min_new_tokens}."
            )
        if self.top_candidates < 0:
            raise InvalidInput(f"top_candidates must be at least 0, got {self.top_candidates}.")
        if self.timeout is not None and not self.timeout > 0:
            raise InvalidInput(f"timeout must be more than 0 seconds, got {self.timeout!r}.")
        if any(not isinstance(text, str) or not text for text in self.stop):
            raise InvalidInput(f"A stop string is a text and must not be empty; got {list(self.stop)!r}.")


@dataclass(frozen=True, slots=True)
class Step:
    """One token of one query."""

    query: int
    """Number of the query among those decoded together."""
    text: str
    """Text that is now certain; empty while it is held back (half a character, a possible stop string)."""
    trace: TokenTrace
    finish_reason: FinishReason | None = None
    """Set on the last step of a query."""
    retried: bool = False
    """Whether the query was decoded a second time."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A finished answer."""

    text: str
    finish_reason: FinishReason
    usage: Usage
    trace: tuple[TokenTrace, ...]
    retried: bool = False
    """Whether it was decoded a second time."""


def collect(query: Query, steps: Sequence[Step]) -> Decoded:
    """Put the steps of one query together."""
    reason = steps[-1].finish_reason
    assert reason is not None, "a stream ends with a finish reason"
    usage = Usage(prompt_tokens=len(query.global_row.prompt_ids), completion_tokens=len(steps))
    return Decoded("".join(s.text for s in steps), reason, usage, tuple(s.trace for s in steps), steps[-1].retried)
