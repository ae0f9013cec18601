"""Reads of the log over many rows: which texts hold at a version, and whether every row is as written."""

import json
from bisect import bisect_right
from typing import Any, NamedTuple, cast

import sqlalchemy as sa

from plume_memory.errors import IntegrityError
from plume_memory.records import Transition, Version
from plume_memory.store.chain import NO_PARENT, chain_hash, sha256_of
from plume_memory.store.tables import VersionRow

VERSION_COLUMNS = (
    VersionRow.number,
    VersionRow.kind,
    VersionRow.text,
    VersionRow.text_sha256,
    VersionRow.restores,
    VersionRow.metadata_json,
    VersionRow.created_at,
    VersionRow.idempotency_key,
    VersionRow.parent_hash,
    VersionRow.chain_hash,
)
_RANGES_PER_QUERY = 200  # two parameters each, below every SQLite's limit of 999
_ROWS_PER_FETCH = 500


class Numbers(NamedTuple):
    """A range of version numbers, both ends included."""

    first: int
    last: int


def to_version(memory: str, row: Any) -> Version:
    """Make the value from a row of VERSION_COLUMNS or a VersionRow."""
    found: VersionRow = row
    return Version(
        memory=memory,
        number=found.number,
        kind="rollback" if found.kind == "rollback" else "update",
        text=found.text,
        text_sha256=found.text_sha256,
        restores=found.restores,
        metadata=json.loads(found.metadata_json),
        created_at=found.created_at,
        idempotency_key=found.idempotency_key,
        parent_hash=found.parent_hash,
        chain_hash=found.chain_hash,
    )


def held_ranges(connection: sa.Connection, memory: str, memory_id: int, number: int) -> list[Numbers]:
    """Return the numbers of the updates that hold at a version, ascending; reads the rollbacks alone.

    C(update t) = C(t−1) ‖ t and C(rollback t) = C(restores): followed from `number` down.
    """
    query = sa.select(VersionRow.number, VersionRow.restores).order_by(VersionRow.number)
    query = query.where(
        VersionRow.memory_id == memory_id,
        VersionRow.number <= number,
        VersionRow.kind == sa.text("'rollback'"),
    )
    rollbacks = connection.execute(query).all()
    numbers = [row.number for row in rollbacks]
    ranges: list[Numbers] = []
    while number > 0:
        before = bisect_right(numbers, number) - 1
        if before < 0:
            ranges.append(Numbers(1, number))
            break
        if numbers[before] < number:
            ranges.append(Numbers(numbers[before] + 1, number))
        restores = rollbacks[before].restores
        if restores is None or not 1 <= restores < numbers[before]:
            raise _altered(memory, numbers[before], f"it restores {restores}, which is no version before it")
        number = restores
    return ranges[::-1]


def texts_of(connection: sa.Connection, memory: str, memory_id: int, ranges: list[Numbers]) -> tuple[Transition, ...]:
    """Read the updates of the ranges, in order.

    Raises:
        IntegrityError: If one of them is missing.
    """
    found: list[Transition] = []
    for start in range(0, len(ranges), _RANGES_PER_QUERY):
        some = ranges[start : start + _RANGES_PER_QUERY]
        query = sa.select(VersionRow.number, VersionRow.text).order_by(VersionRow.number)
        query = query.where(
            VersionRow.memory_id == memory_id, sa.or_(*(VersionRow.number.between(*each) for each in some))
        )
        rows = connection.execute(query).all()
        for expected, row in zip((n for each in some for n in range(each.first, each.last + 1)), rows, strict=False):
            if row.number != expected:
                raise _altered(memory, expected, "it is missing")
            found.append(Transition(row.number, row.text))
    wanted = sum(each.last - each.first + 1 for each in ranges)
    if len(found) != wanted:
        raise IntegrityError(f"Memory {memory!r}: {wanted} versions should hold, {len(found)} are there.")
    return tuple(found)


def verify_rows(connection: sa.Connection, memory: str, memory_id: int, head_number: int, head_hash: str) -> int:
    """Check every row of a log against its hashes and the head; return how many there are.

    Raises:
        IntegrityError: Naming the first row that does not fit.
    """
    query = sa.select(*VERSION_COLUMNS).where(VersionRow.memory_id == memory_id).order_by(VersionRow.number)
    parent_hash, number = NO_PARENT, 0
    rows = connection.execution_options(yield_per=_ROWS_PER_FETCH).execute(query)
    for row in rows:
        number += 1
        if row.number != number:
            raise _altered(memory, number, f"it is missing, version {row.number} follows")
        if number > head_number:
            raise _altered(memory, number, f"the head is version {head_number}")
        reason = _misfit(cast(VersionRow, row), parent_hash)
        if reason:
            raise _altered(memory, number, reason)
        parent_hash = row.chain_hash
    if number < head_number:
        raise _altered(memory, number + 1, f"it is missing, the head is version {head_number}")
    if parent_hash != head_hash:
        raise _altered(memory, number, "its chain hash is not the one the head was written with")
    return number


def _misfit(row: VersionRow, parent_hash: str) -> str | None:
    """Say what does not fit, if anything."""
    if row.parent_hash != parent_hash:
        return "its parent_hash is not the chain hash of the version before"
    if row.text_sha256 != sha256_of(row.text):
        return "its text does not have the sha256 it was written with"
    if row.kind == "rollback" and (row.restores is None or not 1 <= row.restores < row.number or row.text):
        return f"it restores {row.restores}, which is no version before it"
    expected = chain_hash(
        parent_hash=row.parent_hash,
        number=row.number,
        kind=row.kind,
        restores=row.restores,
        text_sha256=row.text_sha256,
        created_at=row.created_at,
        metadata_json=row.metadata_json,
    )
    return None if row.chain_hash == expected else "its fields do not have the chain hash they were written with"


def _altered(memory: str, number: int, reason: str) -> IntegrityError:
    return IntegrityError(
        f"Memory {memory!r}, version {number}: {reason}. The log was altered after it was written; "
        "restore the database from a copy."
    )
