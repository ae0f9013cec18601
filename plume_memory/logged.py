"""What the log alone knows of a memory: its versions and texts, and what is appended without a model."""

from pathlib import Path
from typing import Any

from plume_memory.errors import InvalidInput, MemoryClosed
from plume_memory.records import ArchiveContents, Difference, History, Verification, Version
from plume_memory.store.archive import write_archive
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.chain import NO_PARENT
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.store.purge import finish


class LoggedMemory:
    """The half of `ParametricMemory` that needs no model. Threads may share one object."""

    def __init__(self, name: str, *, database: Database, artifacts: ArtifactStore, owns_database: bool) -> None:
        self.name = name
        self._database = database
        self._artifacts = artifacts
        self._log = Log(database)
        self._owns_database = owns_database
        self._closed = False

    @property
    def version(self) -> int:
        """Number of the newest version; 0 before the first update."""
        self._check_open()
        return self._log.head_number(self.name)

    @property
    def head_hash(self) -> str:
        """Chain hash of the newest version: it determines the whole log; 64 zeros for an empty one."""
        self._check_open()
        number = self._log.head_number(self.name)
        return self._log.version(self.name, number).chain_hash if number else NO_PARENT

    @property
    def last_erasure(self) -> int:
        """Number of the newest version of kind erase; 0 for none. What was read before it may hold what it erased."""
        self._check_open()
        return self._log.last_erasure(self.name)

    def history(self, *, limit: int | None = None, after: int | None = None) -> list[Version]:
        """Return the log's entries, oldest first; with a limit the newest ones, or the first behind version `after`."""
        self._check_open()
        if after is not None:
            return self._log.versions(self.name, start=after + 1, limit=limit)
        newest = self._log.versions(self.name, limit=limit, newest_first=True)
        return newest[::-1]

    def entry(self, number: int) -> Version:
        """Return one entry of the log; needs no model.

        Raises:
            VersionNotFound: there is none of that number.
        """
        self._check_open()
        return self._log.version(self.name, number)

    def text_at(self, version: int | None = None) -> History:
        """Return the history that holds at a version (the newest by default); needs no model.

        Raises:
            VersionNotFound: there is no such version.
        """
        self._check_open()
        return self._log.history(self.name, version)

    def diff(self, before: int, after: int) -> Difference:
        """Compare the histories of two versions.

        Raises:
            VersionNotFound: one of them does not exist.
        """
        self._check_open()
        first, second = (self._log.history(self.name, number).transitions for number in (before, after))
        held, holds = set(first), set(second)
        return Difference(
            before,
            after,
            removed=tuple(t for t in first if t not in holds),
            added=tuple(t for t in second if t not in held),
        )

    def rollback(
        self,
        *,
        to: int,
        metadata: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> Version:
        """Append a version whose history is again that of version `to`; nothing is deleted.

        Args:
            to: its number.
            metadata: JSON kept with the version.
            idempotency_key: the same key with the same `to` is one rollback, however often it is sent.
            expected_version: append only if this is still the newest version.

        Raises:
            VersionNotFound: there is no version `to`.
            VersionConflict: the memory has moved on since `expected_version`.
            IdempotencyConflict: the key was used for something else.
        """
        self._check_open()
        return self._log.rollback(
            self.name, to, metadata=metadata, idempotency_key=idempotency_key, expected_version=expected_version
        )

    def verify(self) -> Verification:
        """Check every entry of the log against its hashes and links.

        Raises:
            IntegrityError: names the first altered entry.
        """
        self._check_open()
        return self._log.verification(self.name)

    def export_archive(self, path: str | Path, *, artifacts: bool = False) -> ArchiveContents:
        """Write the whole memory to one file, which `importers.archive.import_archive` reads into any database.

        The same memory gives the same bytes. A file of that name is replaced whole. Needs no model.

        Args:
            path: the file; `.plume` by custom.
            artifacts: take what was derived along.

        Raises:
            IntegrityError: the log does not verify; nothing is written.
            InvalidInput: the file cannot be written.
        """
        self._check_open()
        store = self._artifacts if artifacts else None
        return write_archive(self._database, self.name, Path(path).expanduser(), artifacts=store)

    def finish_erasures(self) -> int:
        """Finish what an erasure of this database left undone when it was killed or failed; returns artifacts deleted.

        The next erasure does so too. Raises what `erase` does of its second half.
        """
        self._check_open()
        return len(finish(self._database, self._artifacts))

    def discard_empty(self) -> bool:
        """Delete this memory if nothing was ever written to it; returns whether it was empty."""
        self._check_open()
        return self._log.discard_empty(self.name)

    def close(self) -> None:
        """Release the database. Closing twice is allowed."""
        self._closed = True
        if self._owns_database:
            self._database.close()
            self._artifacts.close()

    def _check_open(self) -> None:
        if self._closed:
            raise MemoryClosed(f"Memory {self.name!r} was closed; open it again with ParametricMemory.open.")

    def _check_update(self, number: int) -> None:
        if isinstance(number, bool) or not isinstance(number, int):
            raise InvalidInput(f"`replaces` and `keep` name versions by number, got {number!r}.")
        kind = self._log.version(self.name, number).kind
        if kind != "update":
            raise InvalidInput(f"Version {number} is a {kind}, which has no text to replace or keep. Name an update.")
