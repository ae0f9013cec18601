"""Questions to a memory of a server, pinned or not: what is sent, and the answer it comes back as."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, TypedDict

from plume_memory.errors import InvalidInput, ServerError
from plume_memory.recalling.notes import Recall, RemoteRecallOptions
from plume_memory.records import Answer, AnswerChunk, ScoredUnit
from plume_memory.remote.failures import error_of
from plume_memory.remote.reading import answer_of, recall_of, units_of
from plume_memory.remote.wire import Wire

Question = str | Sequence[Mapping[str, Any]]
"""A question, or a conversation of roles and contents that ends with one."""


class RemoteAskOptions(TypedDict, total=False):
    """Of `AskOptions` those that travel; tools and forms: over the server's OpenAI paths."""

    max_new_tokens: int | None
    """Longest answer; the server's policy's when not given."""
    stop: Sequence[str]
    """Texts that end the answer."""
    top_candidates: int
    """Keep this many candidates of both streams per token in the trace."""
    timeout: float | None
    """Seconds within which the answer must be decoded; the server has a limit of its own."""
    unknown: Literal["abstain", "bare"]
    """What is given where the memory does not know."""
    known_at: float | None
    """Least confidence at which the answer counts as known."""


class Asking:
    """Sends questions of one memory. Its name is for the answers alone: the path has the id."""

    def __init__(self, wire: Wire, path: str, memory: str) -> None:
        self._wire, self._path, self._memory = wire, path, memory

    def ask(self, question: Question, version: int | None, options: RemoteAskOptions) -> Answer:
        """Return the answer.

        Raises:
            InvalidInput: an option that does not travel.
            PlumeError: what the server says.
        """
        body, headers = _sent(question, version, options)
        return answer_of(self._wire.post(f"{self._path}/ask", body, headers=headers, writes=False).body, self._memory)

    def stream(
        self, question: Question, version: int | None, options: RemoteAskOptions
    ) -> Generator[AnswerChunk, None, None]:
        """Give the answer piece by piece; closing it ends the decode at the server.

        Raises:
            As `ask`.
        """
        body, headers = _sent(question, version, options)
        with closing(self._wire.events(f"{self._path}/ask", {**body, "stream": True}, headers)) as events:
            for event in events:
                if event.name == "piece":
                    yield AnswerChunk(event.body["text"])
                elif event.name == "answer":
                    yield AnswerChunk("", answer_of(event.body, self._memory))
                    return
                elif event.name == "error":
                    raise error_of(int(event.body.get("status", 500)), event.body)
        raise ServerError("The server's stream ended without an answer: was it stopped?")

    def route(self, query: str, k: int, version: int | None) -> list[ScoredUnit]:
        """Return the best `k` units for a query."""
        body = {"question": query, "k": k, "version": version}
        return units_of(self._wire.post(f"{self._path}/route", body, writes=False).body)

    def recall(self, question: Question, version: int | None, options: RemoteRecallOptions) -> Recall:
        """Return the notes that bear on a question.

        Raises:
            As `ask`.
        """
        if unknown := options.keys() - RemoteRecallOptions.__annotations__.keys():
            known = ", ".join(RemoteRecallOptions.__annotations__)
            raise InvalidInput(f"The option {min(unknown)!r} does not travel to a server; have {known}.")
        days = {"since": options.get("since"), "until": options.get("until")}
        period = {name: None if day is None else day.isoformat() for name, day in days.items()}
        body = {**options, **period, **_asked(question), "version": version}
        return recall_of(self._wire.post(f"{self._path}/recall", body, writes=False).body, self._memory)

    def profile(self, max_tokens: int, version: int | None) -> Recall:
        """Return whom the memory is about."""
        reply = self._wire.get(f"{self._path}/profile", max_tokens=max_tokens, version=version)
        return recall_of(reply.body, self._memory)


def _sent(question: Question, version: int | None, options: RemoteAskOptions) -> tuple[dict[str, Any], dict[str, str]]:
    """The body and headers of a question."""
    if unknown := options.keys() - RemoteAskOptions.__annotations__.keys():
        known = ", ".join(RemoteAskOptions.__annotations__)
        raise InvalidInput(f"The option {min(unknown)!r} does not travel to a server; have {known}.")
    given = {name: value for name, value in options.items() if name != "timeout" and value is not None}
    if isinstance(given.get("stop"), str):
        raise InvalidInput(f"`stop` is a list of texts; write stop=[{given['stop']!r}].")
    if "stop" in given:
        given["stop"] = list(options["stop"])
    timeout = options.get("timeout")
    headers = {} if timeout is None else {"x-plume-timeout": str(timeout)}
    return {**given, **_asked(question), "version": version}, headers


def _asked(question: Question) -> dict[str, Any]:
    if isinstance(question, str):
        return {"question": question}
    return {"messages": [dict(one) for one in question]}
