"""The append-only log: every memory's versions, in one SQL database. Nothing deletes a version.

Nothing updates one either, but an erasure: it takes text out of it for good (erasure.py).

Laws, each held by a test:

- numbers are 1, 2, 3, … without a gap, whoever writes at the same time;
- one append is one transaction: an acknowledged version outlives a crash, any other is there whole or not;
- as_of(v) never changes once v exists, except that it lacks what was erased since: an undo is a version of its
  own (`rollback`, `forget`, the `erase` that an erasure appends);
- created_at never falls within a memory, even when the machine's clock does;
- `verify` recomputes every hash (see `chain` for the bytes) and names the first version that does not fit.

The memory's row keeps the head's number and hash, written in the same transaction, so a cut tail is
noticed. Who can alter that row as well can hide a cut: keep a head's chain_hash elsewhere to prove more.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.errors import IntegrityError, MemoryExists, StoreUnavailable, VersionNotFound
from plume_memory.records import History, Verification, Version
from plume_memory.store.chain import NO_PARENT, canonical_json
from plume_memory.store.checks import MAX_NUMBER, check_moment, check_name, check_text
from plume_memory.store.copies import copy_prefix, lock_copies
from plume_memory.store.database import Database
from plume_memory.store.entries import Entry as _Entry
from plume_memory.store.entries import append_entry
from plume_memory.store.memories import (
    FoundMemory,
    Listing,
    Origin,
    check_number,
    find_memory,
    get_memory,
    insert_memory,
    not_found,
)
from plume_memory.store.reading import VERSION_COLUMNS, held_updates, to_version, transition_of, transitions_of
from plume_memory.store.tables import IS_ERASURE, MemoryRow, VersionRow
from plume_memory.store.targets import wanted
from plume_memory.store.verifying import verify_rows

_ATTEMPTS = 5
_FIRST_MOMENT = datetime(2, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """Return the time, aware."""
    return datetime.now(UTC)


class Log:
    """The memories of one database and their versions.

    Args:
        database: Where they are.
        clock: The time of an append; aware.
    """

    def __init__(self, database: Database, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    def create(self, memory: str) -> None:
        """Create an empty memory.

        Raises:
            MemoryExists: If there is one of that name.
        """
        check_name(memory)
        try:
            self._database.transact(lambda connection: insert_memory(connection, memory, self._clock()))
        except exc.IntegrityError as err:
            raise MemoryExists(f"A memory named {memory!r} exists already; choose another name.") from err

    def ensure(self, memory: str) -> None:
        """Create an empty memory unless there is one of that name."""
        if not self.exists(memory):
            with suppress(MemoryExists):  # another thread or process made it in between
                self.create(memory)

    def discard_empty(self, memory: str) -> bool:
        """Delete a memory that nothing was ever written to; returns whether there was one."""
        check_name(memory)
        empty = (MemoryRow.name == memory) & (MemoryRow.head_number == 0) & MemoryRow.origin_name.is_(None)
        gone = sa.delete(MemoryRow).where(empty)
        return bool(self._database.transact(lambda connection: connection.execute(gone).rowcount, repeatable=True))

    def names(self) -> list[str]:
        """Return the names of all memories, sorted by code point."""
        with self._database.read() as connection:
            return sorted(connection.execute(sa.select(MemoryRow.name)).scalars())

    def exists(self, memory: str) -> bool:
        """Tell whether there is a memory of that name."""
        check_name(memory)
        with self._database.read() as connection:
            return find_memory(connection, memory) is not None

    def origin(self, memory: str) -> Origin | None:
        """Return where a fork came from; None for a memory that was created."""
        check_name(memory)
        with self._database.read() as connection:
            found = get_memory(connection, memory)
        return None if found.origin_name is None else Origin(found.origin_name, found.origin_version or 0)

    def append(
        self,
        memory: str,
        text: str,
        *,
        metadata: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
        create: bool = True,
    ) -> Version:
        """Append an update and return its version; the same text again is a new version.

        Args:
            memory: Name of the memory.
            text: What the memory is told.
            metadata: Kept with the version and covered by its hash.
            idempotency_key: A repeated call with the same key and text answers with the version of the first,
                whatever its metadata or `expected_version`.
            expected_version: The head this update was written against; 0 for an empty memory.
            create: Whether a memory of that name is created when there is none.

        Raises:
            InvalidInput: If the name, text, key or metadata cannot be stored.
            MemoryNotFound: If there is no such memory and `create` is False.
            VersionConflict: If the head is another than expected.
            IdempotencyConflict: If the key was used with another text, or for an update that was erased since.
        """
        entry = _Entry("update", check_text(text), None, None, metadata, idempotency_key, expected_version)
        return self._append(memory, entry, create=create)

    def rollback(
        self,
        memory: str,
        to: int,
        *,
        metadata: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> Version:
        """Append a version from which on the history of version `to` holds again; nothing is removed.

        Raises:
            VersionNotFound: If there is no version `to`.
            MemoryNotFound: If there is no such memory.
            VersionConflict: If the head is another than expected.
            IdempotencyConflict: If the key was used for something else.
        """
        entry = _Entry("rollback", "", to, None, metadata, idempotency_key, expected_version)
        return self._append(memory, entry, create=False)

    def forget(
        self,
        memory: str,
        version: int | None = None,
        *,
        text: str | None = None,
        span: tuple[int, int] | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> Version:
        """Append a version from which on the history lacks an update's text, or a part of it; nothing is removed.

        A rollback to a version before it undoes it; one to it or a version after does not.

        Args:
            memory: Name of the memory.
            version: The update whose text is to be forgotten; it must hold at the head.
            text: Exact words instead of a version, which must stand in one place of what holds; with a version, in
                one place of its text.
            span: The part of the version's text: first character and one past the last, in the text of
                `version(memory, version)`. White space at the cut is tidied (spans.py).
            reason: Kept in the metadata, under "reason".
            idempotency_key: A repeated call with the same key and target answers with the version of the
                first, whatever its reason or `expected_version`.
            expected_version: The head this was decided on.

        Raises:
            VersionNotFound: If there is no such version.
            InvalidInput: If it is no update, its text was forgotten or rolled back already, or the words stand
                nowhere or in several places: says where.
            MemoryNotFound: If there is no such memory.
            VersionConflict: If the head is another than expected.
            IdempotencyConflict: If the key was used for something else, or for words that cannot be compared any
                more because some of them were erased.
        """
        asked = wanted(version, text=text, span=span)
        metadata = None if reason is None else {"reason": check_text(reason, what="A reason")}
        entry = _Entry("forget", "", None, version, metadata, idempotency_key, expected_version, asked=asked)
        return self._append(memory, entry, create=False)

    def fork(self, memory: str, new_name: str, at: int | None = None, *, listing: Listing | None = None) -> int:
        """Copy the versions up to `at` (default: the head) into a new memory, hashes and keys included.

        What was erased after `at` is erased in the copy too: for each such erasure it gets a version of its own
        behind `at`, which vouches for it. See `insert_memory` for the listing.

        Returns:
            The number of the new memory's head; 0 if `memory` is empty.

        Raises:
            MemoryExists: If there is a memory named `new_name`.
            VersionNotFound: If there is no version `at`.
        """
        check_name(memory)
        check_name(new_name)
        try:
            return self._database.transact(lambda connection: self._fork(connection, memory, new_name, at, listing))
        except exc.IntegrityError as err:
            raise MemoryExists(f"A memory named {new_name!r} exists already; choose another name.") from err

    def head(self, memory: str) -> Version:
        """Return the newest version.

        Raises:
            VersionNotFound: If the memory is empty.
        """
        check_name(memory)
        with self._database.read() as connection:
            found = get_memory(connection, memory)
            if found.head_number == 0:
                raise VersionNotFound(f"Memory {memory!r} is empty: it has no version yet.")
            return self._version(connection, found, found.head_number)

    def head_number(self, memory: str) -> int:
        """Return the newest version's number; 0 for an empty memory."""
        check_name(memory)
        with self._database.read() as connection:
            return get_memory(connection, memory).head_number

    def version(self, memory: str, number: int) -> Version:
        """Return one version.

        Raises:
            VersionNotFound: If there is none of that number.
        """
        check_name(memory)
        with self._database.read() as connection:
            return self._version(connection, get_memory(connection, memory), number)

    def versions(
        self,
        memory: str,
        *,
        start: int = 1,
        stop: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[Version]:
        """Return the versions from `start` to `stop`, both included, at most `limit` of them."""
        check_name(memory)
        order = VersionRow.number.desc() if newest_first else VersionRow.number
        with self._database.read() as connection:
            found = get_memory(connection, memory)
            last = found.head_number if stop is None else min(stop, found.head_number)
            query = (
                sa.select(*VERSION_COLUMNS)
                .where(VersionRow.memory_id == found.id)
                .where(VersionRow.number.between(max(1, min(start, MAX_NUMBER)), last))
                .order_by(order)
                .limit(None if limit is None else max(0, min(limit, MAX_NUMBER)))
            )
            return [to_version(memory, row) for row in connection.execute(query)]

    def at_time(self, memory: str, moment: datetime) -> int:
        """Return the number of the newest version written at or before an aware time.

        Whatever is there was written by now, even if the clock was ahead when it was, and its time lies in the future.

        Raises:
            InvalidInput: If the time has no zone.
            VersionNotFound: If the memory had no version then.
        """
        check_name(memory)
        check_moment(moment)
        query = sa.select(VersionRow.number).where(VersionRow.created_at <= moment)
        query = query.order_by(VersionRow.created_at.desc(), VersionRow.number.desc()).limit(1)
        with self._database.read() as connection:
            found = get_memory(connection, memory)
            if moment >= self._clock():
                number = found.head_number or None
            elif moment < _FIRST_MOMENT:  # no database has it, and no zone may take it below the first year
                number = None
            else:
                number = connection.execute(query.where(VersionRow.memory_id == found.id)).scalar()
        if number is None:
            raise VersionNotFound(f"Memory {memory!r} had no version yet at {moment.isoformat()}.")
        return number

    def last_erasure(self, memory: str) -> int:
        """Return the newest version of kind erase; 0 for none. What was read before it may hold what it erased."""
        return self.newest(memory)[1]

    def newest(self, memory: str) -> tuple[int, int]:
        """Return the numbers of the newest version and of the newest erasure, of one moment; 0 for none."""
        check_name(memory)
        query = sa.select(sa.func.coalesce(sa.func.max(VersionRow.number), 0)).where(IS_ERASURE)
        with self._database.read() as connection:
            found = get_memory(connection, memory)
            erased = connection.execute(query.where(VersionRow.memory_id == found.id)).scalar_one()
            return found.head_number, erased

    def history(self, memory: str, number: int | None = None) -> History:
        """Return C(t): the texts that hold at a version (default: the head; 0: before the first).

        Only texts that hold are read: what a rollback or a forget has taken back stays on disk. What was erased
        is in no history, whenever it was erased.

        Raises:
            VersionNotFound: If there is no version of that number.
        """
        check_name(memory)
        with self._database.read() as connection:
            found = get_memory(connection, memory)
            at = found.head_number if number is None else number
            if at != 0:
                check_number(found, at)
            return History(memory, at, transitions_of(held_updates(connection, memory, found.id, at)))

    def history_behind(self, known: History, number: int) -> History | None:
        """Return the history of a later version from one at hand, reading the updates since alone.

        Returns:
            None where it cannot be told from them: anything but whole updates came since, or the version is not later.

        Raises:
            VersionNotFound: If there is no version of that number.
        """
        query = sa.select(
            VersionRow.number,
            VersionRow.kind,
            VersionRow.text,
            VersionRow.erased_by,
            VersionRow.metadata_json,
            VersionRow.created_at,
        ).order_by(VersionRow.number)
        with self._database.read() as connection:
            found = get_memory(connection, known.memory)
            if number <= known.version:
                return None
            check_number(found, number)
            query = query.where(VersionRow.memory_id == found.id, VersionRow.number.between(known.version + 1, number))
            rows = connection.execute(query).all()
        is_whole = all(row.kind == "update" and row.text and row.erased_by is None for row in rows)
        if not is_whole or len(rows) != number - known.version:
            return None  # what is missing or altered is named by `history`
        fresh = (transition_of(row, row.text) for row in rows)
        return History(known.memory, number, (*known.transitions, *fresh))

    def verify(self, memory: str) -> int:
        """Recompute every hash of the log and return the number of versions.

        Raises:
            IntegrityError: Naming the first version that was altered, removed or added.
        """
        return self.verification(memory).versions

    def verification(self, memory: str) -> Verification:
        """Recompute every hash of the log and return the number of versions with the last one's hash.

        Raises:
            IntegrityError: Naming the first version that was altered, removed or added.
        """
        check_name(memory)
        with self._database.read() as connection:  # one snapshot: an append meanwhile is in neither of the two
            found = get_memory(connection, memory)
            count = verify_rows(connection, memory, found.id, found.head_number, found.head_hash)
        return Verification(count, found.head_hash)

    def _append(self, memory: str, entry: "_Entry", *, create: bool) -> Version:
        """Append in one transaction, again when another writer was first to a number or name.

        On SQLite the lock at BEGIN excludes that; on PostgreSQL the locked memory row does, except while
        the row is being created.
        """
        check_name(memory)
        if entry.idempotency_key is not None:
            check_name(entry.idempotency_key, what="An idempotency key")
        metadata_json = canonical_json({} if entry.metadata is None else entry.metadata)
        collision: exc.IntegrityError | None = None
        for _ in range(_ATTEMPTS):
            try:
                return self._database.transact(
                    lambda connection: self._append_row(connection, memory, entry, metadata_json, create=create),
                    repeatable=entry.idempotency_key is not None,
                )
            except exc.IntegrityError as err:
                collision = err
        raise StoreUnavailable(
            f"Memory {memory!r}: {_ATTEMPTS} appends met a constraint ({collision}); try again."
        ) from collision

    def _append_row(
        self, connection: sa.Connection, memory: str, entry: "_Entry", metadata_json: str, *, create: bool
    ) -> Version:
        found = find_memory(connection, memory, lock=True)
        if found is None:
            if not create:
                raise not_found(memory)
            found = insert_memory(connection, memory, self._clock())
        return append_entry(connection, found, entry, metadata_json, self._clock)

    def _fork(
        self, connection: sa.Connection, memory: str, new_name: str, at: int | None, listing: Listing | None
    ) -> int:
        lock_copies(connection, exclusive=False)
        found = get_memory(connection, memory)
        number = found.head_number if at is None else at
        head_hash = NO_PARENT
        if at is not None or number > 0:
            head_hash = self._version(connection, found, number).chain_hash
        # The id must be known before the versions are copied, the head is right from the start.
        new = insert_memory(
            connection,
            new_name,
            self._clock(),
            head_number=number,
            head_hash=head_hash,
            origin=Origin(memory, number),
            listing=listing,
        )
        return copy_prefix(connection, found, new, self._clock)

    def _version(self, connection: sa.Connection, found: FoundMemory, number: int) -> Version:
        check_number(found, number)
        query = sa.select(*VERSION_COLUMNS)
        row = connection.execute(query.where(VersionRow.memory_id == found.id, VersionRow.number == number)).first()
        if row is None:
            raise IntegrityError(f"Memory {found.name!r}: version {number} is missing from the log.")
        return to_version(found.name, row)
