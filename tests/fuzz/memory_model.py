"""What a database of memories must hold, said as simply as possible: lists of words, no SQL, no hashes, no artifacts.

A text is words that no other text has, joined by single blanks, and whatever is forgotten or erased of it begins and
ends with a whole word. What holds of it is then the words that are left, joined by single blanks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Holding = dict[int, frozenset[str]]
"""Number of an update that holds → its words that were forgotten; the order is that of the history."""


@dataclass(eq=False)
class Said:
    """One update's text, one object for all its copies: forks share what is erased."""

    words: tuple[str, ...]
    in_log: str
    """The text as the log has it now."""
    erased: set[str] = field(default_factory=set)

    def place(self, words: tuple[str, ...]) -> tuple[int, int]:
        """Return where words stand in the log's text, from the first to the last of them."""
        return self.in_log.index(words[0]), self.in_log.index(words[-1]) + len(words[-1])

    def between(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return all words from the first to the last of some."""
        return self.words[self.words.index(words[0]) : self.words.index(words[-1]) + 1]

    def erase(self, words: tuple[str, ...]) -> None:
        """Take what lies between words out of the log."""
        start, end = self.place(words)
        self.in_log = self.in_log[:start] + self.in_log[end:]
        self.erased |= set(self.between(words))


@dataclass(frozen=True)
class Entry:
    """One version."""

    kind: str
    holding: Holding
    said: Said | None = None
    restores: int | None = None
    forgets: int | None = None
    span: tuple[int, int] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    erased_by: int | None = None


class MemoryModel:
    """One memory's versions."""

    def __init__(self, entries: list[Entry] | None = None) -> None:
        self.entries = entries or []

    @property
    def head(self) -> int:
        """Number of the newest version."""
        return len(self.entries)

    def holding(self, at: int | None = None) -> Holding:
        """Return what holds at a version."""
        number = self.head if at is None else at
        return self.entries[number - 1].holding if number else {}

    def said(self, number: int) -> Said:
        """Return an update's text."""
        said = self.entries[number - 1].said
        assert said is not None
        return said

    def is_copy(self, number: int, said: Said) -> bool:
        """Tell whether a version is a copy of an update."""
        return number <= self.head and self.entries[number - 1].said is said

    def updates(self) -> list[int]:
        """Return the numbers of all updates, holding or not."""
        return [number for number, entry in enumerate(self.entries, start=1) if entry.kind == "update"]

    def held_words(self, number: int, at: int | None = None) -> tuple[str, ...]:
        """Return the words of an update that hold at a version."""
        holding, said = self.holding(at), self.said(number)
        if number not in holding:
            return ()
        return tuple(word for word in said.words if word not in holding[number] and word not in said.erased)

    def history(self, at: int | None = None) -> list[tuple[int, str]]:
        """Return numbers and texts that hold at a version, oldest first."""
        held = [(number, " ".join(self.held_words(number, at))) for number in self.holding(at)]
        return [(number, text) for number, text in held if text]

    def of_key(self, key: str) -> int | None:
        """Return the version that has an idempotency key."""
        return next((n for n, entry in enumerate(self.entries, start=1) if entry.key == key), None)

    def update(self, said: Said, metadata: Mapping[str, Any], key: str | None) -> None:
        """Append a text."""
        holding = {**self.holding(), self.head + 1: frozenset[str]()}
        self.entries.append(Entry("update", holding, said=said, metadata=metadata, key=key))

    def rollback(self, to: int, metadata: Mapping[str, Any]) -> None:
        """Let hold again what held at a version."""
        self.entries.append(Entry("rollback", self.holding(to), restores=to, metadata=metadata))

    def forget(self, number: int, words: tuple[str, ...] | None, metadata: Mapping[str, Any], key: str | None) -> None:
        """Let an update, or words of it, hold no more."""
        before, span = self.holding(), None
        if words is None:
            holding = {n: cut for n, cut in before.items() if n != number}
        else:
            span = self.said(number).place(words)
            cut = before[number] | frozenset(self.said(number).between(words))
            holding = {n: cut if n == number else other for n, other in before.items()}
        self.entries.append(Entry("forget", holding, forgets=number, span=span, metadata=metadata, key=key))

    def erase(self, number: int, span: tuple[int, int] | None, metadata: Mapping[str, Any], key: str | None) -> None:
        """Append what stands for an erasure, and mark the update; its text is erased by `World.erase`."""
        holding = {n: cut for n, cut in self.holding().items() if span is not None or n != number}
        self.entries.append(Entry("erase", holding, forgets=number, span=span, metadata=metadata, key=key))
        gone = self.entries[number - 1]
        self.entries[number - 1] = replace(gone, metadata={}, key=None, erased_by=self.head)


class World:
    """All memories of one database."""

    def __init__(self, name: str) -> None:
        self.memories = {name: MemoryModel()}

    def erase(
        self,
        name: str,
        number: int,
        words: tuple[str, ...] | None,
        metadata: Mapping[str, Any],
        key: str | None,
    ) -> set[str]:
        """Erase an update, or words of it, wherever it was copied; returns the memories that had it."""
        said = self.memories[name].said(number)
        span = None if words is None else said.place(words)
        found = {other for other, model in self.memories.items() if model.is_copy(number, said)}
        for other in found:
            own = other == name
            self.memories[other].erase(number, span, metadata if own else {}, key if own else None)
        if words is not None:
            said.erase(words)
        else:
            said.in_log, said.erased = "", set(said.words)
        return found

    def fork(self, name: str, new_name: str, at: int) -> None:
        """Copy the versions up to one, and behind them what was erased of them later."""
        source = self.memories[name].entries
        copy = MemoryModel([])
        copy.entries = list(source[:at])
        for entry in source[at:]:
            if entry.kind == "erase" and entry.forgets is not None and entry.forgets <= at:
                copy.erase(entry.forgets, entry.span, {}, None)
        self.memories[new_name] = copy
