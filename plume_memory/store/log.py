"""The append-only log: every memory's versions, in one SQL database. Nothing updates or deletes a version.

Laws, each held by a test:

- numbers are 1, 2, 3, … without a gap, whoever writes at the same time;
- one append is one transaction: an acknowledged version outlives a crash, any other is there whole or not;
- as_of(v) never changes once v exists: an undo is a version of its own (`rollback`, `forget`);
- created_at never falls within a memory, even when the machine's clock does;
- `verify` recomputes every hash (see `chain` for the bytes) and names the first version that does not fit.

The memory's row keeps the head's number and hash, written in the same transaction, so a cut tail is
noticed. Who can alter that row as well can hide a cut: keep a head's chain_hash elsewhere to prove more.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.errors import (
    IdempotencyConflict,
    IntegrityError,
    MemoryExists,
    StoreUnavailable,
    VersionConflict,
    VersionNotFound,
)
from plume_memory.records import History, Version, VersionKind
from plume_memory.store.chain import NO_PARENT, canonical_json, chain_hash, sha256_of
from plume_memory.store.checks import MAX_NUMBER, check_moment, check_name, check_text
from plume_memory.store.database import Database
from plume_memory.store.memories import (
    FoundMemory,
    Origin,
    check_number,
    find_memory,
    get_memory,
    insert_memory,
    not_found,
)
from plume_memory.store.reading import (
    VERSION_COLUMNS,
    check_holds,
    held_ranges,
    texts_of,
    to_version,
    verify_rows,
)
from plume_memory.store.tables import MemoryRow, VersionRow

_ATTEMPTS = 5


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
            with self._database.write() as connection:
                insert_memory(connection, memory, self._clock())
        except exc.IntegrityError as err:
            raise MemoryExists(f"A memory named {memory!r} exists already; choose another name.") from err

    def ensure(self, memory: str) -> None:
        """Create an empty memory unless there is one of that name."""
        if not self.exists(memory):
            with suppress(MemoryExists):  # another thread or process made it in between
                self.create(memory)

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
            IdempotencyConflict: If the key was used with another text.
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
        version: int,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> Version:
        """Append a version from which on the history no longer holds the text of an update; nothing is removed.

        A rollback to a version before it undoes it; one to it or a version after does not.

        Args:
            memory: Name of the memory.
            version: The update whose text is to be forgotten; it must hold at the head.
            reason: Kept in the metadata, under "reason".
            idempotency_key: A repeated call with the same key and `version` answers with the version of the
                first, whatever its reason or `expected_version`.
            expected_version: The head this was decided on.

        Raises:
            VersionNotFound: If there is no such version.
            InvalidInput: If it is no update, or its text was forgotten or rolled back already.
            MemoryNotFound: If there is no such memory.
            VersionConflict: If the head is another than expected.
            IdempotencyConflict: If the key was used for something else.
        """
        metadata = None if reason is None else {"reason": check_text(reason, what="A reason")}
        entry = _Entry("forget", "", None, version, metadata, idempotency_key, expected_version)
        return self._append(memory, entry, create=False)

    def fork(self, memory: str, new_name: str, at: int | None = None) -> int:
        """Copy the versions up to `at` (default: the head) into a new memory, hashes and keys included.

        Returns:
            The number of the new memory's head; 0 if `memory` is empty.

        Raises:
            MemoryExists: If there is a memory named `new_name`.
            VersionNotFound: If there is no version `at`.
        """
        check_name(memory)
        check_name(new_name)
        try:
            with self._database.write() as connection:
                return self._fork(connection, memory, new_name, at)
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
            number = connection.execute(query.where(VersionRow.memory_id == found.id)).scalar()
        if number is None:
            raise VersionNotFound(f"Memory {memory!r} had no version yet at {moment.isoformat()}.")
        return number

    def history(self, memory: str, number: int | None = None) -> History:
        """Return C(t): the texts that hold at a version (default: the head; 0: before the first).

        Only texts that hold are read: what a rollback or a forget has taken back stays on disk.

        Raises:
            VersionNotFound: If there is no version of that number.
        """
        check_name(memory)
        with self._database.read() as connection:
            found = get_memory(connection, memory)
            at = found.head_number if number is None else number
            if at != 0:
                check_number(found, at)
            ranges = held_ranges(connection, memory, found.id, at)
            return History(memory, at, texts_of(connection, memory, found.id, ranges))

    def verify(self, memory: str) -> int:
        """Recompute every hash of the log and return the number of versions.

        Raises:
            IntegrityError: Naming the first version that was altered, removed or added.
        """
        check_name(memory)
        with self._database.read() as connection:
            found = get_memory(connection, memory)
            return verify_rows(connection, memory, found.id, found.head_number, found.head_hash)

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
                with self._database.write() as connection:
                    return self._append_row(connection, memory, entry, metadata_json, create=create)
            except exc.IntegrityError as err:
                collision = err
        raise StoreUnavailable(
            f"Memory {memory!r}: {_ATTEMPTS} appends met a constraint ({collision}); try again."
        ) from collision

    def _append_row(
        self, connection: sa.Connection, memory: str, entry: "_Entry", metadata_json: str, *, create: bool
    ) -> Version:
        # 1. The memory, locked until the end of the transaction.
        found = find_memory(connection, memory, lock=True)
        if found is None:
            if not create:
                raise not_found(memory)
            found = insert_memory(connection, memory, self._clock())
        # 2. A repeated call is answered before anything is expected of the head.
        repeated = self._repeated(connection, found, entry)
        if repeated is not None:
            return repeated
        self._check_fits(connection, found, entry)
        # 3. The version, chained to its parent.
        created_at = self._next_moment(connection, found)
        text_sha256, number = sha256_of(entry.text), found.head_number + 1
        row = VersionRow(
            memory_id=found.id,
            number=number,
            kind=entry.kind,
            text=entry.text,
            text_sha256=text_sha256,
            restores=entry.restores,
            forgets=entry.forgets,
            metadata_json=metadata_json,
            created_at=created_at,
            idempotency_key=entry.idempotency_key,
            parent_hash=found.head_hash,
            chain_hash=chain_hash(
                parent_hash=found.head_hash,
                number=number,
                kind=entry.kind,
                restores=entry.restores,
                forgets=entry.forgets,
                text_sha256=text_sha256,
                created_at=created_at,
                metadata_json=metadata_json,
            ),
        )
        values = {column.key: getattr(row, column.key) for column in VersionRow.__table__.columns}
        connection.execute(sa.insert(VersionRow).values(values))
        # 4. The head.
        moved = sa.update(MemoryRow).where(MemoryRow.id == found.id)
        connection.execute(moved.values(head_number=number, head_hash=row.chain_hash))
        return to_version(memory, row)

    def _check_fits(self, connection: sa.Connection, found: FoundMemory, entry: "_Entry") -> None:
        """Refuse an entry that expects another head, or names a version that is not there or does not hold."""
        if entry.expected_version is not None and entry.expected_version != found.head_number:
            raise VersionConflict(
                f"Memory {found.name!r} is at version {found.head_number}, expected was "
                f"{entry.expected_version}: read what came between and append again."
            )
        if entry.restores is not None:
            check_number(found, entry.restores)
        if entry.forgets is not None:
            check_number(found, entry.forgets)
            check_holds(connection, found.name, found.id, found.head_number, entry.forgets)

    def _repeated(self, connection: sa.Connection, found: FoundMemory, entry: "_Entry") -> Version | None:
        if entry.idempotency_key is None:
            return None
        query = sa.select(*VERSION_COLUMNS).where(
            VersionRow.memory_id == found.id, VersionRow.idempotency_key == entry.idempotency_key
        )
        row = connection.execute(query).first()
        if row is None:
            return None
        if (row.kind, row.text, row.restores, row.forgets) != (entry.kind, entry.text, entry.restores, entry.forgets):
            raise IdempotencyConflict(
                f"Memory {found.name!r}: the idempotency key {entry.idempotency_key!r} belongs to version "
                f"{row.number}, which says something else; use a new key for a new update."
            )
        return to_version(found.name, row)

    def _next_moment(self, connection: sa.Connection, found: FoundMemory) -> datetime:
        """Return the time of the next version, after checking that its parent is the one the head names."""
        now = self._clock().astimezone(UTC)
        if found.head_number == 0:
            return now
        query = sa.select(VersionRow.chain_hash, VersionRow.created_at)
        query = query.where(VersionRow.memory_id == found.id, VersionRow.number == found.head_number)
        parent = connection.execute(query).first()
        if parent is None or parent.chain_hash != found.head_hash:
            raise IntegrityError(
                f"Memory {found.name!r}: the head, version {found.head_number}, is missing or altered; "
                "nothing is appended to a broken log. Restore the database from a copy."
            )
        parent_moment: datetime = parent.created_at
        return max(now, parent_moment)

    def _fork(self, connection: sa.Connection, memory: str, new_name: str, at: int | None) -> int:
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
        )
        columns = [column for column in VersionRow.__table__.columns if column.key != "memory_id"]
        prefix = sa.select(sa.literal(new.id), *columns)
        prefix = prefix.where(VersionRow.memory_id == found.id, VersionRow.number <= number)
        names = ["memory_id", *(column.key for column in columns)]
        connection.execute(sa.insert(VersionRow).from_select(names, prefix))
        return number

    def _version(self, connection: sa.Connection, found: FoundMemory, number: int) -> Version:
        check_number(found, number)
        query = sa.select(*VERSION_COLUMNS)
        row = connection.execute(query.where(VersionRow.memory_id == found.id, VersionRow.number == number)).first()
        if row is None:
            raise IntegrityError(f"Memory {found.name!r}: version {number} is missing from the log.")
        return to_version(found.name, row)


class _Entry(NamedTuple):
    """What is to be appended."""

    kind: VersionKind
    text: str
    restores: int | None
    forgets: int | None
    metadata: dict[str, Any] | None
    idempotency_key: str | None
    expected_version: int | None
