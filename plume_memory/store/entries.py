"""Appends one version inside a caller's transaction: repeated calls answered, the head checked, the row chained.

Works on a connection whose memory is locked (`find_memory(lock=True)`); begins and ends no transaction.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from plume_memory.errors import IdempotencyConflict, IntegrityError, VersionConflict
from plume_memory.records import Span, Version, VersionKind
from plume_memory.store.chain import chain_hash, sha256_of
from plume_memory.store.memories import FoundMemory, check_number
from plume_memory.store.reading import VERSION_COLUMNS, check_holds, to_version
from plume_memory.store.tables import IS_ERASURE, MemoryRow, VersionRow
from plume_memory.store.targets import Wanted, forget_target, is_in, is_repeated

Clock = Callable[[], datetime]

KEY_SHA256 = "key_sha256"
"""In what an erasure vouches with: of the idempotency key that the erased update had, if it had one."""


class Entry(NamedTuple):
    """What is to be appended."""

    kind: VersionKind
    text: str
    restores: int | None
    forgets: int | None
    metadata: dict[str, Any] | None
    idempotency_key: str | None
    expected_version: int | None
    span: Span | None = None
    asked: Wanted | None = None
    """For a forget or an erasure: what the caller named, found in the log within the transaction."""


def append_entry(
    connection: sa.Connection, found: FoundMemory, entry: Entry, metadata_json: str, clock: Clock
) -> Version:
    """Append an entry to a locked memory, or answer a repeated call with its first version.

    Raises:
        VersionConflict: If the head is another than expected.
        IdempotencyConflict: If the key was used for something else.
        VersionNotFound: If it restores or forgets what is not there.
        InvalidInput: If it forgets what does not hold.
        IntegrityError: If the head is missing or altered.
    """
    known = repeated(connection, found, entry)
    if known is not None:
        return known
    check_expected(found, entry.expected_version)
    if entry.restores is not None:
        check_number(found, entry.restores)
    if entry.asked is not None:
        target = forget_target(connection, found, entry.asked)
        entry = entry._replace(forgets=target.version, span=target.span)
    elif entry.forgets is not None:
        check_number(found, entry.forgets)
        check_holds(connection, found.name, found.id, found.head_number, entry.forgets)
    return insert_entry(connection, found, entry, metadata_json, clock)


def repeated(connection: sa.Connection, found: FoundMemory, entry: Entry) -> Version | None:
    """Return the version that an earlier call with the same key appended; None if there is none.

    Raises:
        IdempotencyConflict: If it says something else, or was an update whose text is erased.
    """
    if entry.idempotency_key is None:
        return None
    query = sa.select(*VERSION_COLUMNS).where(
        VersionRow.memory_id == found.id, VersionRow.idempotency_key == entry.idempotency_key
    )
    row = connection.execute(query).first()
    if row is None:
        _check_not_erased(connection, found, entry.idempotency_key)
        return None
    known = to_version(found.name, row)
    is_same = (known.kind, known.text, known.restores) == (entry.kind, entry.text, entry.restores)
    if entry.asked is not None:
        is_same = is_same and is_repeated(connection, found, entry.asked, known)
    else:
        is_same = is_same and (known.forgets, known.span) == (entry.forgets, entry.span)
    if not is_same:
        gone = " (or its words can no longer be compared: more was erased)" if known.span and entry.asked else ""
        raise IdempotencyConflict(
            f"Memory {found.name!r}: the idempotency key {entry.idempotency_key!r} belongs to version "
            f"{row.number}, which says something else{gone}; use a new key for a new update."
        )
    return known


def erased_keys(versions: Iterable[Version]) -> set[str]:
    """Return the sha256 of the idempotency keys of updates that were erased: their texts are not to come again."""
    erased = (version.metadata.get("erased", {}) for version in versions if version.kind == "erase")
    return {each[KEY_SHA256] for each in erased if KEY_SHA256 in each}


def _check_not_erased(connection: sa.Connection, found: FoundMemory, key: str) -> None:
    """Refuse the key of an erased update: a call that is sent again would bring its text back."""
    tombstone = f'"{KEY_SHA256}":"{sha256_of(key)}"'  # canonical JSON; within a text the quotes would be escaped
    query = sa.select(VersionRow.number, VersionRow.forgets).where(VersionRow.memory_id == found.id, IS_ERASURE)
    row = connection.execute(query.where(is_in(connection, tombstone, VersionRow.metadata_json))).first()
    if row is not None:
        raise IdempotencyConflict(
            f"Memory {found.name!r}: the idempotency key {key!r} belonged to version {row.forgets}, which was erased "
            f"in version {row.number}: its text is not written again; use a new key for a new update."
        )


def check_expected(found: FoundMemory, expected_version: int | None) -> None:
    """Refuse when the memory has moved on.

    Raises:
        VersionConflict: Naming both versions.
    """
    if expected_version is not None and expected_version != found.head_number:
        raise VersionConflict(
            f"Memory {found.name!r} is at version {found.head_number}, expected was "
            f"{expected_version}: read what came between and append again."
        )


def insert_entry(
    connection: sa.Connection, found: FoundMemory, entry: Entry, metadata_json: str, clock: Clock
) -> Version:
    """Write an entry that was checked, chained to the head, and move the head.

    Raises:
        IntegrityError: If the head is missing or altered.
    """
    created_at = _next_moment(connection, found, clock)
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
            span=entry.span,
        ),
        span_start=None if entry.span is None else entry.span.start,
        span_end=None if entry.span is None else entry.span.end,
        erased_by=None,
    )
    values = {column.key: getattr(row, column.key) for column in VersionRow.__table__.columns}
    connection.execute(sa.insert(VersionRow).values(values))
    moved = sa.update(MemoryRow).where(MemoryRow.id == found.id)
    connection.execute(moved.values(head_number=number, head_hash=row.chain_hash))
    return to_version(found.name, row)


def _next_moment(connection: sa.Connection, found: FoundMemory, clock: Clock) -> datetime:
    """Return the time of the next version, after checking that its parent is the one the head names."""
    now = clock().astimezone(UTC)
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
