"""Copies of a version in other memories: forks and imports hold rows with the same chain hash.

An erasure erases every copy, so no copy may be made beside it unseen: whoever makes one holds a lock
(`lock_copies`) that the erasure waits for. SQLite has one writer at a time anyway.
"""

from typing import NamedTuple

import sqlalchemy as sa

from plume_memory.records import Version
from plume_memory.store.chain import canonical_json
from plume_memory.store.entries import Clock, Entry, insert_entry
from plume_memory.store.memories import FoundMemory
from plume_memory.store.reading import VERSION_COLUMNS, to_version
from plume_memory.store.tables import MemoryRow, SourceRow, VersionRow

_COPIES_LOCK = 0x65726173  # "eras"


class Copy(NamedTuple):
    """One row that holds a version."""

    memory: FoundMemory
    text: str
    """As the log has it now."""


def lock_copies(connection: sa.Connection, *, exclusive: bool) -> None:
    """Hold the database's copies as they are (exclusive), or against an erasure, until the transaction ends."""
    if connection.dialect.name == "postgresql":
        lock = sa.func.pg_advisory_xact_lock if exclusive else sa.func.pg_advisory_xact_lock_shared
        connection.execute(sa.select(lock(_COPIES_LOCK)))


def copies_of(connection: sa.Connection, number: int, chain_hash: str) -> list[Copy]:
    """Return every row of the database that is a copy of a version, its memory locked, in the order of their ids."""
    fields = [getattr(MemoryRow, field) for field in FoundMemory._fields]
    query = sa.select(*fields, VersionRow.text).join(VersionRow, VersionRow.memory_id == MemoryRow.id)
    query = query.where(VersionRow.number == number, VersionRow.chain_hash == chain_hash).order_by(MemoryRow.id)
    rows = connection.execute(query.with_for_update(of=MemoryRow))
    return [Copy(FoundMemory(*row[:-1]), row[-1]) for row in rows]


def copy_prefix(connection: sa.Connection, source: FoundMemory, new: FoundMemory, clock: Clock) -> int:
    """Copy the versions up to `new.head_number` into a new memory, and behind them what erased any of them later.

    Returns:
        The number of the new memory's head.
    """
    later = _later_erasures(connection, source.id, new.head_number)
    marks = {erasure.number: new.head_number + place for place, erasure in enumerate(later, start=1)}
    columns = [column for column in VersionRow.__table__.columns if column.key not in ("memory_id", "erased_by")]
    erased_by: sa.ColumnElement[int | None] = VersionRow.__table__.c.erased_by
    if marks:
        erased_by = sa.case(marks, value=VersionRow.erased_by, else_=VersionRow.erased_by)
    prefix = sa.select(sa.literal(new.id), *columns, erased_by)
    prefix = prefix.where(VersionRow.memory_id == source.id, VersionRow.number <= new.head_number)
    names = ["memory_id", *(column.key for column in columns), "erased_by"]
    connection.execute(sa.insert(VersionRow).from_select(names, prefix))
    if new.head_number == source.head_number:  # it holds every text: what was derived of them is its own as well
        notes = sa.select(sa.literal(new.id), SourceRow.key, SourceRow.sha256).where(SourceRow.memory_id == source.id)
        connection.execute(sa.insert(SourceRow).from_select(["memory_id", "key", "sha256"], notes))
    for erasure in later:
        vouched = canonical_json({"erased": erasure.metadata["erased"]})  # the reason was given for the source
        entry = Entry("erase", "", None, erasure.forgets, None, None, None, erasure.span)
        version = insert_entry(connection, new, entry, vouched, clock)
        new = new._replace(head_number=version.number, head_hash=version.chain_hash)
    return new.head_number


def _later_erasures(connection: sa.Connection, memory_id: int, number: int) -> list[Version]:
    query = sa.select(*VERSION_COLUMNS).where(
        VersionRow.memory_id == memory_id,
        VersionRow.kind == "erase",
        VersionRow.number > number,
        VersionRow.forgets <= number,
    )
    return [to_version("", row) for row in connection.execute(query.order_by(VersionRow.number))]
