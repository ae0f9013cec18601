"""What a way of remembering is: it is told a conversation once and then gives what it has for each question.

`shown` is what a reader is given to answer from; a method that answers by itself gives `answer` and no reader is asked.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from eval.conversations.records import Conversation, Question, Turn
from eval.methods.prompted import terms

DEEPEST = 32
"""Turns of a ranking that are kept: the largest k of recall."""
CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a method said by itself."""

    text: str
    is_known: bool
    """False: it said that it does not know."""
    tokens: int
    """Of the answer."""
    finish_reason: str = "stop"


@dataclass(frozen=True, slots=True)
class Given:
    """What a method has for a question."""

    ranked: tuple[str, ...] | None
    """Ids of turns, the best first, each once; None of a method that ranks nothing."""
    shown: str
    """What a reader is given; empty where nothing bears on the question, or nothing is ever shown."""
    tokens: int
    """Of `shown`, by the run's model."""
    seconds: float
    """To find it; of a method that answers by itself, to answer."""
    answer: Reply | None = None


class Told(Protocol):
    """A conversation as a method remembers it."""

    def ask(self, question: Question) -> Given:
        """What there is for a question; only `question.question` may be looked at."""

    def close(self) -> None:
        """Let go of what it holds."""


class Method(Protocol):
    """A way of remembering."""

    @property
    def name(self) -> str:
        """What tables call it; unique in a run."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything its results depend on beside model and conversation; JSON-able, written into every row."""

    def remember(self, conversation: Conversation) -> Told:
        """Tell it everything. Must not look at the questions."""


class Shelf(Protocol):
    """Scores of texts for a question, the higher the better."""

    def scores(self, question: str) -> Sequence[float]:
        """One for each text, in their order."""


@dataclass(frozen=True, slots=True)
class RankedTurns:
    """Turns on a shelf: the best few are shown, in the order in which they were said."""

    turns: tuple[Turn, ...]
    lines: tuple[str, ...]
    """As they are shown, one of each turn."""
    shelf: Shelf
    count_tokens: CountTokens
    k: int

    def ask(self, question: Question) -> Given:
        """Of equals the later first, as of what may have replaced the other."""
        begun = time.perf_counter()
        scores = self.shelf.scores(question.question)
        best = sorted(range(len(self.turns)), key=lambda at: (-scores[at], -at))
        seconds = time.perf_counter() - begun
        shown = "\n".join(self.lines[at] for at in sorted(best[: self.k]))
        return Given(tuple(self.turns[at].id for at in best[:DEEPEST]), shown, self.count_tokens(shown), seconds)

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True, slots=True)
class Bm25:
    """Okapi BM25 (`rank-bm25`) over turns."""

    count_tokens: CountTokens
    k: int
    name: str = "bm25"

    @property
    def settings(self) -> Mapping[str, Any]:
        """How many turns are shown."""
        return {"k": self.k, "retriever": "BM25Okapi", "unit": "turn"}

    def remember(self, conversation: Conversation) -> RankedTurns:
        """Index the turns' lines."""
        from rank_bm25 import BM25Okapi  # noqa: PLC0415 - of the extra `eval`

        index = BM25Okapi([terms(turn.line) or [""] for turn in conversation.turns])
        return RankedTurns(conversation.turns, transcript(conversation), _Okapi(index), self.count_tokens, self.k)


@dataclass(frozen=True, slots=True)
class _Okapi:
    index: Any

    def scores(self, question: str) -> Sequence[float]:
        return [float(score) for score in self.index.get_scores(terms(question))]


@dataclass(frozen=True, slots=True)
class Embeddings:
    """A store of sentence embeddings: the cosine of a question and each turn, searched exactly."""

    model: str
    """A folder, or a name that sentence-transformers knows; all-MiniLM-L6-v2 is also a wheel."""
    count_tokens: CountTokens
    k: int

    @property
    def name(self) -> str:
        """With its model's: two models are two methods."""
        return f"embeddings {self.model.rstrip('/').rpartition('/')[2]}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """The model and how many turns are shown."""
        return {"k": self.k, "retriever": self.model, "unit": "turn"}

    def remember(self, conversation: Conversation) -> RankedTurns:
        """Embed the turns' lines.

        Raises:
            MissingExtra: sentence-transformers is not installed.
            InvalidInput: no such model, here or on the hub.
        """
        from eval.conversations.embedder import open_embedder  # noqa: PLC0415 - an import of its own extra

        shelf = open_embedder(self.model).shelf([turn.line for turn in conversation.turns])
        return RankedTurns(conversation.turns, transcript(conversation), shelf, self.count_tokens, self.k)


@dataclass(frozen=True, slots=True)
class Everything:
    """The whole conversation in the prompt: nothing is ranked."""

    count_tokens: CountTokens
    name: str = "everything"

    @property
    def settings(self) -> Mapping[str, Any]:
        """None: all of it is shown."""
        return {}

    def remember(self, conversation: Conversation) -> "_Whole":
        """Write it out."""
        text = "\n".join(transcript(conversation))
        return _Whole(Given(None, text, self.count_tokens(text), 0.0))


@dataclass(frozen=True, slots=True)
class _Whole:
    given: Given

    def ask(self, question: Question) -> Given:
        return self.given

    def close(self) -> None:
        """Nothing is held open."""


def transcript(conversation: Conversation) -> tuple[str, ...]:
    """A line for each turn: its day, where there is one, who says it, and what."""
    return tuple(
        f"[{session.said_at:%Y-%m-%d %H:%M}] {turn.line}" if session.said_at else turn.line
        for session in conversation.sessions
        for turn in session.turns
    )
