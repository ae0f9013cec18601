"""This project's memory as methods: its notes, its ranking without a gate, and its answers.

A session is an update of messages (`update(messages=…)`), with who says each and when. A turn is found again by the
characters of its message in the update's text, which the log has as JSON.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eval.conversations.methods import DEEPEST, CountTokens, Given, Reply
from eval.conversations.records import Conversation, Question, Session, Turn
from plume_memory import ParametricMemory
from plume_memory.engine import Engine
from plume_memory.records import Span

How = Literal["notes", "ranking", "answers"]
Spans = Mapping[int, Sequence[tuple[Span, str]]]
"""Of every update, by version: which characters are which turn."""
_UNLIMITED = 10**6


@dataclass(frozen=True, slots=True)
class Ours:
    """A memory in parameters.

    `notes` is what `recall` gives: silent where nothing bears on the question. `ranking` is what it is chosen from, the
    units of `route` without a gate. `answers` is what `ask` says.
    """

    how: How
    engine: Callable[[], Engine]
    count_tokens: CountTokens
    k: int
    max_new_tokens: int
    folder: Path
    """Where memories are kept, so that a run that was killed derives nothing twice."""

    @property
    def name(self) -> str:
        """What it gives."""
        return self.how

    @property
    def settings(self) -> Mapping[str, Any]:
        """How many notes are shown; an answer has its own evidence."""
        written = {"update": "session", "form": "messages"}
        return written if self.how == "answers" else {**written, "k": self.k}

    def remember(self, conversation: Conversation) -> "ToldMemory":
        """Append what is not there yet, and derive what the first question needs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        sessions = [(session, *written(session)) for session in conversation.sessions]
        told_as = json.dumps([messages for _, messages, _ in sessions], ensure_ascii=False)
        name = hashlib.sha256(told_as.encode()).hexdigest()[:32]
        file = self.folder / "memories.db"
        memory = ParametricMemory.open(
            name, url=f"sqlite:///{file}", engine=self.engine(), artifacts=f"{file.absolute()}.artifacts"
        )
        with ExitStack() as on_error:
            on_error.callback(memory.close)
            spans: dict[int, Sequence[tuple[Span, str]]] = {}
            for number, (session, messages, own) in enumerate(sessions, start=1):
                if messages:
                    key, said_at = f"session {number}", session.said_at
                    version = memory.update(messages=messages, observed_at=said_at, idempotency_key=key, derive=False)
                    spans[version.number] = own
            told = ToldMemory(memory, self.how, spans, self.k, self.max_new_tokens, self.count_tokens)
            told.derive()
            on_error.pop_all()
        return told


@dataclass(frozen=True, slots=True)
class ToldMemory:
    """A memory that was told a conversation."""

    memory: ParametricMemory
    how: How
    spans: Spans
    k: int
    max_new_tokens: int
    count_tokens: CountTokens

    def derive(self) -> None:
        """What is made of an update when it is written: of answers all, of notes what ranks them."""
        if self.how == "answers":
            self.memory.at().derive()
        elif self.spans:
            self.memory.recall("What is this about?", k=1)

    def ask(self, question: Question) -> Given:
        """Recall, rank or answer."""
        if self.how == "answers":
            return self._answered(question.question)
        return self._ranked(question.question) if self.how == "ranking" else self._noted(question.question)

    def close(self) -> None:
        """Close the database."""
        self.memory.close()

    def _answered(self, question: str) -> Given:
        begun = time.perf_counter()
        said = self.memory.ask(question, max_new_tokens=self.max_new_tokens)
        reply = Reply(said.text, said.known, said.usage.completion_tokens, said.finish_reason)
        return Given(None, "", 0, time.perf_counter() - begun, reply)

    def _ranked(self, question: str) -> Given:
        begun = time.perf_counter()
        ranked = self.memory.route(question, k=DEEPEST)
        seconds = time.perf_counter() - begun
        shown = "\n".join(one.unit.text for one in ranked[: self.k])
        places = [(one.unit.version, Span(one.unit.start, one.unit.end)) for one in ranked]
        return Given(self._turns(places), shown, self.count_tokens(shown), seconds)

    def _noted(self, question: str) -> Given:
        """What a user gets, timed; and the same to the depth of the deepest recall, not timed."""
        begun = time.perf_counter()
        recalled = self.memory.recall(question, k=self.k)
        seconds = time.perf_counter() - begun
        deep = self.memory.recall(question, k=DEEPEST, max_tokens=_UNLIMITED)
        notes = sorted(deep.notes, key=lambda note: (note.rank, note.completes))
        places = [(note.version, note.span) for note in notes]
        return Given(self._turns(places), recalled.text, recalled.tokens, seconds)

    def _turns(self, places: Iterable[tuple[int, Span]]) -> tuple[str, ...]:
        return turns_in(places, self.spans)[:DEEPEST]


def turns_in(places: Iterable[tuple[int, Span]], spans: Spans) -> tuple[str, ...]:
    """Turns that some characters of updates lie in, in their order, each once."""
    found: dict[str, None] = {}
    for version, place in places:
        for span, turn in spans.get(version, ()):
            if span.start < place.end and place.start < span.end:
                found[turn] = None
    return tuple(found)


def written(session: Session) -> tuple[list[dict[str, str]], list[tuple[Span, str]]]:
    """A session as messages, and where each turn will stand in the update's text; turns of no words are left out."""
    messages: list[dict[str, str]] = []
    spans: list[tuple[Span, str]] = []
    start = 1  # behind the list's bracket
    for turn in session.turns:
        if not turn.text.strip():
            continue
        message = _message(turn)
        if session.said_at is not None:
            message["timestamp"] = session.said_at.isoformat()
        end = start + len(json.dumps(message, ensure_ascii=False))
        spans.append((Span(start, end), turn.id))
        messages.append(message)
        start = end + len(", ")
    return messages, spans


def _message(turn: Turn) -> dict[str, str]:
    """As chat models take it; whoever is neither user nor assistant is named."""
    if turn.speaker in (None, "user", "assistant"):
        return {"role": turn.speaker or "user", "content": turn.text}
    return {"role": "user", "name": turn.speaker, "content": turn.text}
