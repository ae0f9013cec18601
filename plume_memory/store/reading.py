"""Reads of the log over many rows: which texts hold at a version, and whether every row is as written."""

import json
from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple, cast

import sqlalchemy as sa

from plume_memory.errors import IntegrityError, InvalidInput
from plume_memory.records import Transition, Version, VersionKind
from plume_memory.store.chain import NO_PARENT, chain_hash, sha256_of
from plume_memory.store.tables import IS_UNDO, VersionRow

VERSION_COLUMNS = (
    VersionRow.number,
    VersionRow.kind,
    VersionRow.text,
    VersionRow.text_sha256,
    VersionRow.restores,
    VersionRow.forgets,
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


class _Undo(NamedTuple):
    """A rollback or a forget, without what else its row holds."""

    number: int
    kind: str
    restores: int | None
    forgets: int | None


class _Path(NamedTuple):
    """What lies on the way from a version down to the first."""

    ranges: list[Numbers]
    """Of updates, ascending; forgotten ones included."""
    forgotten: dict[int, int]
    """Forgotten update → the forget that took it away."""


def to_version(memory: str, row: Any) -> Version:
    """Make the value from a row of VERSION_COLUMNS or a VersionRow."""
    found: VersionRow = row
    return Version(
        memory=memory,
        number=found.number,
        kind=cast(VersionKind, found.kind),  # the table's check admits no other
        text=found.text,
        text_sha256=found.text_sha256,
        restores=found.restores,
        forgets=found.forgets,
        metadata=json.loads(found.metadata_json),
        created_at=found.created_at,
        idempotency_key=found.idempotency_key,
        parent_hash=found.parent_hash,
        chain_hash=found.chain_hash,
    )


def held_ranges(connection: sa.Connection, memory: str, memory_id: int, number: int) -> list[Numbers]:
    """Return the numbers of the updates that hold at a version, ascending; reads rollbacks and forgets alone.

    C(update t) = C(t−1) ‖ t, C(rollback t) = C(restores) and C(forget t) = C(t−1) without `forgets`: followed
    from `number` down. What a forget takes away is always further down; a rollback that jumps over a forget
    undoes it by never meeting it.
    """
    path = _followed(memory, _undos(connection, memory_id, number), number)
    return _without(path.ranges, sorted(path.forgotten))


def check_holds(connection: sa.Connection, memory: str, memory_id: int, head: int, number: int) -> None:
    """Refuse to forget what is no update, or an update whose text does not hold at the head.

    Raises:
        InvalidInput: Naming what the version is, or which version took its text back.
    """
    query = sa.select(VersionRow.kind).where(VersionRow.memory_id == memory_id, VersionRow.number == number)
    kind = connection.execute(query).scalar()
    if kind is None:
        raise _altered(memory, number, "it is missing")
    if kind != "update":
        raise InvalidInput(
            f"Memory {memory!r}: version {number} is a {kind}, which has no text to forget. Name an update, or undo "
            f"the {kind} by rolling back to an earlier version."
        )
    path = _followed(memory, _undos(connection, memory_id, head), head)
    if number in path.forgotten:
        reason = f"version {path.forgotten[number]} forgot it"
    elif not any(each.first <= number <= each.last for each in path.ranges):
        reason = "a rollback took it back"
    else:
        return
    raise InvalidInput(
        f"Memory {memory!r}: the text of version {number} does not hold at version {head} any more, {reason}: "
        "there is nothing to forget. Name an update of the history that holds."
    )


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


def _undos(connection: sa.Connection, memory_id: int, number: int) -> list[_Undo]:
    """Read the rollbacks and forgets up to a version, ascending."""
    query = sa.select(VersionRow.number, VersionRow.kind, VersionRow.restores, VersionRow.forgets)
    query = query.where(VersionRow.memory_id == memory_id, VersionRow.number <= number, IS_UNDO)
    query = query.order_by(VersionRow.number)
    return [_Undo(*row) for row in connection.execute(query)]


def _followed(memory: str, undos: list[_Undo], number: int) -> _Path:
    """Follow the history from a version down, from undo to undo."""
    numbers = [undo.number for undo in undos]
    ranges: list[Numbers] = []
    forgotten: dict[int, int] = {}
    while number > 0:
        before = bisect_right(numbers, number) - 1
        last_undo = numbers[before] if before >= 0 else 0
        if last_undo < number:
            ranges.append(Numbers(last_undo + 1, number))
        if before < 0:
            break
        undo = undos[before]
        reason = _names_no_version(*undo)
        if reason:
            raise _altered(memory, undo.number, reason)
        if undo.forgets is not None:
            forgotten[undo.forgets] = undo.number
        number = undo.number - 1 if undo.restores is None else undo.restores
    return _Path(ranges[::-1], forgotten)


def _without(ranges: list[Numbers], forgotten: list[int]) -> list[Numbers]:
    """Cut numbers, ascending, out of ranges."""
    left: list[Numbers] = []
    for first, last in ranges:
        start = first
        for number in forgotten[bisect_left(forgotten, first) : bisect_right(forgotten, last)]:
            if start < number:
                left.append(Numbers(start, number - 1))
            start = number + 1
        if start <= last:
            left.append(Numbers(start, last))
    return left


def _misfit(row: VersionRow, parent_hash: str) -> str | None:
    """Say what does not fit, if anything."""
    if row.parent_hash != parent_hash:
        return "its parent_hash is not the chain hash of the version before"
    if row.text_sha256 != sha256_of(row.text):
        return "its text does not have the sha256 it was written with"
    reason = _names_no_version(row.number, row.kind, row.restores, row.forgets)
    if reason:
        return reason
    if row.kind != "update" and row.text:
        return f"it has a text, being of kind {row.kind}"
    expected = chain_hash(
        parent_hash=row.parent_hash,
        number=row.number,
        kind=row.kind,
        restores=row.restores,
        forgets=row.forgets,
        text_sha256=row.text_sha256,
        created_at=row.created_at,
        metadata_json=row.metadata_json,
    )
    return None if row.chain_hash == expected else "its fields do not have the chain hash they were written with"


def _names_no_version(number: int, kind: str, restores: int | None, forgets: int | None) -> str | None:
    """Say what is wrong with the versions a row names: a rollback restores one, a forget forgets one, both earlier."""
    for owner, verb, named in (("rollback", "restores", restores), ("forget", "forgets", forgets)):
        if kind == owner and (named is None or not 1 <= named < number):
            return f"it {verb} {named}, which is no version before it"
        if kind != owner and named is not None:
            return f"it {verb} {named}, being of kind {kind}"
    return None


def _altered(memory: str, number: int, reason: str) -> IntegrityError:
    return IntegrityError(
        f"Memory {memory!r}, version {number}: {reason}. The log was altered after it was written; "
        "restore the database from a copy."
    )
