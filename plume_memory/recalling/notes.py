"""What a recall gives: notes, and the text that shows them to a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TypedDict

from plume_memory.recalling.rendering import Line, rendered
from plume_memory.records import Span

NOTES = 8
"""Most notes of a recall, where nothing else is said."""
MAX_TOKENS = 1024
"""Most tokens of its text, where nothing else is said."""
PROFILE_TOKENS = 256
"""Most tokens of a profile, where nothing else is said: some hundred words and what stands around them."""


@dataclass(frozen=True, slots=True)
class Note:
    """A unit of a memory, as it is shown to a model."""

    memory: str
    """Name of the memory that holds it."""
    version: int
    """The version whose text it is part of."""
    span: Span
    """Its characters in that text, as it holds."""
    text: str
    """What it says, under its headings."""
    said_at: datetime
    """Aware: when it was said, as the text or its caller says; else when it was written. A time whose zone nobody names
    is taken for UTC."""
    speaker: str | None = None
    """Whose words it is; None: the owner's, or nobody is named."""
    score: float = 0.0
    """Of the unit, for the question (`ScoredUnit.score`); of a note that completes another that one's."""
    rank: int = 0
    """0 for the note that bears most on the question, or of one that completes it; of a profile always 0."""
    is_current: bool = True
    """Whether it holds: nothing replaced it, and it has not expired."""
    completes: bool = False
    """Whether it is here for its neighbour: the question that a message answers, or the answer to it."""

    @property
    def day(self) -> date:
        """The day on which it was said, where it was said."""
        return self.said_at.date()

    @property
    def order(self) -> tuple[datetime, str, int, int]:
        """Sorts notes by when they were said."""
        return self.said_at.astimezone(UTC), self.memory, self.version, self.span.start


@dataclass(frozen=True, slots=True)
class Recall:
    """What some memories hold that bears on a question; false where nothing does."""

    question: str
    """The words that were routed; empty for a profile."""
    memories: tuple[str, ...]
    """The memories that were read."""
    notes: tuple[Note, ...] = ()
    """Oldest first; of a profile the most central first."""
    tokens: int = 0
    """Of `text`, as they were counted."""
    text: str = field(init=False, repr=False)
    """The notes as a model reads them: quoted, between two marks, under one sentence that says what they are; empty
    where there are none. Of several memories their names are shown."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", text_of(self.notes, self.memories))

    def __bool__(self) -> bool:
        return bool(self.notes)

    def __str__(self) -> str:
        return self.text


class RemoteRecallOptions(TypedDict, total=False):
    """What a recall may be told beside its question."""

    k: int
    """Most notes that bear on it; what completes one of them comes besides."""
    max_tokens: int
    """Most tokens of the text."""
    history: bool
    """Whether what does not hold any more comes too, marked."""
    since: datetime | date | None
    """Only what was said from then on. A day is counted by the clock of whoever said it, UTC where the note
    names no zone. A time without a zone is of UTC."""
    until: datetime | date | None
    """Only what was said until then; a day counts whole."""


class RecallOptions(RemoteRecallOptions, total=False):
    """The same, and what does not travel to a server."""

    count_tokens: Callable[[str], int] | None
    """Counts the tokens of a text; by default tiktoken, over the memory's own model's vocabulary."""


def text_of(notes: Sequence[Note], memories: Sequence[str]) -> str:
    """Return notes as a model reads them, in their order."""
    is_named = len(memories) > 1
    return rendered(
        [
            Line(note.text, note.version, note.day, note.speaker, note.memory if is_named else None, note.is_current)
            for note in notes
        ]
    )
