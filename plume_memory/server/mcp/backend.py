"""What the tools stand on: the operations on memories, wherever these are.

`memory` is the name or id that a call gives; it is None where the backend is of one memory (`fixed`), which no call
names. Every operation raises the library's errors.
"""

from dataclasses import dataclass
from typing import Protocol

from plume_memory.recalling.notes import Recall, RemoteRecallOptions
from plume_memory.records import Answer, Difference, ErasureCertificate, Version


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be forgotten or erased."""

    version: int | None
    """The update; None: the one that the words stand in."""
    text: str | None
    """Exact words; None: the whole update."""
    reason: str | None = None


class Backend(Protocol):
    """The memories that one caller may use."""

    @property
    def fixed(self) -> str | None:
        """Id of the one memory that all calls are about; None: each names its own."""

    async def remember(self, memory: str | None, text: str, idempotency_key: str | None) -> Version:
        """Append an update; it is durable when this returns."""

    async def ask(self, memory: str | None, question: str, version: int | None) -> Answer:
        """Answer from a version (None: the newest), or say that the memory does not know."""

    async def recall(self, memory: str | None, question: str, options: RemoteRecallOptions) -> Recall:
        """Return the notes of the newest version that bear on a question."""

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
