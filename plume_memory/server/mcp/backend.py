"""What the tools stand on: the operations on memories, wherever these are.

`memory` is the name or id that a call gives; it is None where the backend is of one memory (`fixed`), which no call
names. Every operation raises the library's errors.
"""

from dataclasses import dataclass
from typing import Protocol

from plume_memory.records import Answer, Difference, ErasureCertificate, ScoredUnit, Version


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be forgotten or erased."""

    version: int | None
    """The update; None: the one that the words stand in."""
    text: str | None
    """Exact words; None: the whole update."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best units for a question, best first."""

    version: int
    units: list[ScoredUnit]


class Backend(Protocol):
    """The memories that one caller may use."""

    @property
    def fixed(self) -> str | None:
        """Id of the one memory that all calls are about; None: each names its own."""

    async def remember(self, memory: str | None, text: str, idempotency_key: str | None) -> Version:
        """Append an update; it is durable when this returns."""

    async def recall(self, memory: str | None, question: str, version: int | None) -> Answer:
        """Answer from a version (None: the newest), or say that the memory does not know."""

    async def search(self, memory: str | None, query: str, k: int) -> Ranking:
        """Rank the units of the newest version."""

    async def history(self, memory: str | None, after: int | None, limit: int) -> list[Version]:
        """Return entries of the log, oldest first: the newest ones, or the first behind version `after`."""

    async def entry(self, memory: str | None, number: int) -> Version:
        """Return one entry of the log."""

    async def diff(self, memory: str | None, before: int, after: int) -> Difference:
        """Compare the histories of two versions."""

    async def forget(self, memory: str | None, target: Target) -> Version:
        """Append a version that no longer holds a text."""

    async def erase(self, memory: str | None, target: Target) -> ErasureCertificate:
        """Remove a text for good; once begun it is finished, whoever waits."""
