"""A server's memory pinned to one version: what reads."""

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Unpack

from plume_memory.errors import InvalidInput
from plume_memory.recalling.notes import PROFILE_TOKENS, Recall, RemoteRecallOptions
from plume_memory.records import Answer, AnswerChunk, History, Replacement, ScoredUnit
from plume_memory.remote.asking import Asking, Question, RemoteAskOptions
from plume_memory.remote.reading import history_of, replacements_of
from plume_memory.remote.wire import Wire

ASKED_AT_ONCE = 8
"""Requests of one `ask_many`: the server decodes them in one batch with everybody else's."""


class RemoteSnapshot:
    """Made by `RemoteMemory.at`; read-only. The version is a number: the texts stay with the server."""

    def __init__(self, wire: Wire, path: str, memory: str, version: int) -> None:
        self._wire, self._path = wire, path
        self._asking = Asking(wire, path, memory)
        self.memory = memory
        """Name of the memory."""
        self.version = version
        """The pinned version; 0 before the first update."""

    @property
    def history(self) -> History:
        """The history that holds at this version."""
        if self.version == 0:  # nothing was written: the server has no text of it
            return History(self.memory, 0, ())
        return history_of(self._wire.get(f"{self._path}/versions/{self.version}/text").body, self.memory)

    @property
    def text(self) -> str:
        """C(t), the history as one text."""
        return self.history.text

    def ask(self, question: Question, **options: Unpack[RemoteAskOptions]) -> Answer:
        """Answer from this version. See `Snapshot.ask`.

        Raises:
            InvalidInput: as there, or an option that does not travel.
            ServerError: the server could not be reached, or does not let this key in.
        """
        return self._asking.ask(question, self.version, options)

    def ask_many(self, questions: Sequence[str], **options: Unpack[RemoteAskOptions]) -> list[Answer]:
        """Answer several questions, some at a time. See `ask`."""
        if isinstance(questions, str):
            raise InvalidInput(f"`questions` is a list of questions; write [{questions!r}], or ask({questions!r}).")
        if not questions:
            return []
        with ThreadPoolExecutor(min(len(questions), ASKED_AT_ONCE)) as threads:
            return list(threads.map(lambda question: self.ask(question, **options), questions))

    def stream(self, question: Question, **options: Unpack[RemoteAskOptions]) -> Generator[AnswerChunk, None, None]:
        """Answer piece by piece; the last chunk carries the whole `Answer`. See `ask`."""
        return self._asking.stream(question, self.version, options)

    def route(self, query: str, *, k: int = 1) -> list[ScoredUnit]:
        """Return the best `k` units for a question. See `Snapshot.route`."""
        return self._asking.route(query, k, self.version)

    def recall(self, question: Question, **options: Unpack[RemoteRecallOptions]) -> Recall:
        """Return what this version holds that bears on a question. See `Snapshot.recall`."""
        return self._asking.recall(question, self.version, options)

    def profile(self, *, max_tokens: int = PROFILE_TOKENS) -> Recall:
        """Return whom this version is about, in its own words. See `Snapshot.profile`."""
        return self._asking.profile(max_tokens, self.version)

    @property
    def replacements(self) -> tuple[Replacement, ...]:
        """Every unit that no longer holds at this version, and what took its place. See `Snapshot.replacements`."""
        if self.version == 0:
            return ()
        return replacements_of(self._wire.get(f"{self._path}/versions/{self.version}/replacements").body)
