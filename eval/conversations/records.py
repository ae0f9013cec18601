"""Conversations with questions about them: what every benchmark's file becomes, and all that methods see.

Knows no file. A turn's id is unique within its conversation; gold turns are named by these ids.
"""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from plume_memory.errors import InvalidInput

IDLE_KIND = "idle"
"""Of messages that ask nothing of a memory, whatever it was told; no benchmark has them."""
_IDLE = (
    "Hi!",
    "Thanks, that helps a lot!",
    "Write me a haiku about rain",
    "What is 17 times 23?",
    "Who won the world cup in 1998?",
    "Explain quicksort",
    "How are you today?",
    "Translate good morning to French",
    "What is the capital of Peru?",
    "ok",
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What somebody said at once."""

    id: str
    speaker: str | None
    """A name, or a role: `user` or `assistant`; None for a piece of a text that nobody in particular says."""
    text: str

    @property
    def line(self) -> str:
        """With its speaker before it, as a transcript shows it."""
        return self.text if self.speaker is None else f"{self.speaker}: {self.text}"


@dataclass(frozen=True, slots=True)
class Session:
    """Turns said in one go."""

    said_at: datetime | None
    """Naive: benchmarks name no zone. None where none is given."""
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """Asked when everything was told."""

    id: str
    """Unique in its conversation."""
    question: str
    answers: tuple[str, ...]
    """References; none where it cannot be answered from the conversation."""
    kind: str
    """The benchmark's own class of questions."""
    gold: tuple[str, ...] = ()
    """Ids of the turns that hold the answer; none where the benchmark does not say."""
    answerable: bool = True
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Sessions in the order in which they were held, and what is asked about them."""

    id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        for what, ids in (("turn", [t.id for t in self.turns]), ("question", [q.id for q in self.questions])):
            if len(set(ids)) < len(ids):
                twice = next(one for at, one in enumerate(ids) if one in ids[:at])
                raise InvalidInput(f"Conversation {self.id!r} has two {what}s {twice!r}; ids must be unique in it.")

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Of all sessions."""
        return tuple(turn for session in self.sessions for turn in session.turns)

    @property
    def digest(self) -> str:
        """sha256 of what is told; questions aside."""
        told = [asdict(session) for session in self.sessions]
        return hashlib.sha256(json.dumps(told, default=str, sort_keys=True).encode()).hexdigest()


def drawn(
    conversations: Sequence[Conversation], *, count: int | None, questions: int | None, seed: int
) -> list[Conversation]:
    """Some conversations with some of their questions, in their order.

    The draw depends on the ids and the seed alone. Questions are drawn evenly over all kinds together; where answerable
    ones are among them, one more draw takes half as many unanswerable ones, so that abstention has a denominator.

    Args:
        conversations: to draw from.
        count: so many; all when None or more than there are.
        questions: so many answerable ones a conversation; all of both when None.
        seed: of both draws.

    Raises:
        InvalidInput: a count below 1.
    """
    for option, number in (("--conversations", count), ("--questions", questions)):
        if number is not None and number < 1:
            raise InvalidInput(f"{option} must be at least 1, got {number}.")
    ids = sorted(one.id for one in conversations)
    kept = set(ids if count is None else random.Random(seed).sample(ids, min(count, len(ids))))
    chosen = [one for one in conversations if one.id in kept]
    return chosen if questions is None else [_fewer(one, questions, seed) for one in chosen]


def with_idle(conversation: Conversation) -> Conversation:
    """The same with ten messages behind its questions that a memory has nothing to say to."""
    idle = tuple(
        Question(f"{IDLE_KIND}-{at}", said, (), IDLE_KIND, answerable=False) for at, said in enumerate(_IDLE, start=1)
    )
    return replace(conversation, questions=conversation.questions + idle)


def _fewer(conversation: Conversation, count: int, seed: int) -> Conversation:
    chosen: set[str] = set()
    for answerable, most in ((True, count), (False, (count + 1) // 2)):
        ids = sorted(one.id for one in conversation.questions if one.answerable == answerable)
        chosen.update(random.Random(f"{seed} {conversation.id} {answerable}").sample(ids, min(most, len(ids))))
    return replace(conversation, questions=tuple(one for one in conversation.questions if one.id in chosen))
