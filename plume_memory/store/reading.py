"""Reads which texts hold at a version: along the rollbacks, forgets and erasures, then the texts alone."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import Any, NamedTuple, cast

import sqlalchemy as sa

from plume_memory.errors import IntegrityError, InvalidInput
from plume_memory.records import Span, Transition, Version, VersionKind
from plume_memory.store.overruling import context_of, expiry_of, overrules_of
from plume_memory.store.spans import Cut, current_cuts, held_slices, said
from plume_memory.store.tables import IS_ERASURE, IS_UNDO, VersionRow

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
    VersionRow.span_start,
    VersionRow.span_end,
    VersionRow.erased_by,
)
_RANGES_PER_QUERY = 200  # two parameters each, below every SQLite's limit of 999


class Numbers(NamedTuple):
    """A range of version numbers, both ends included."""

    first: int
    last: int


class Held(NamedTuple):
    """An update that holds, whole or in part."""

    number: int
    text: str
    """As the log has it now."""
    slices: tuple[Span, ...]
    """What of it holds; none when all of it was erased, or forgotten part by part."""
    row: Any
    """What else the log has of it."""

    @property
    def said(self) -> str:
        """The text as the history has it."""
        return said(self.text, self.slices)


class _Undo(NamedTuple):
    """A rollback, a forget or an erasure, without what else its row holds."""

    number: int
    kind: str
    restores: int | None
    forgets: int | None
    span_start: int | None
    span_end: int | None


class _Path(NamedTuple):
    """What lies on the way from a version down to the first."""

    ranges: list[Numbers]
    """Of updates, ascending; forgotten ones included."""
    forgotten: dict[int, int]
    """Update → the forget or erasure that took away the whole of it."""
    cuts: dict[int, list[Cut]]
    """Update → the forgets that took away a part of it."""


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
        span=span_of(found),
        erased_by=found.erased_by,
    )


def span_of(row: Any) -> Span | None:
    """Return the part that a row names; None for the whole."""
    return None if row.span_start is None or row.span_end is None else Span(row.span_start, row.span_end)


def held_updates(
    connection: sa.Connection, memory: str, memory_id: int, number: int, *, only: Collection[int] | None = None
) -> list[Held]:
    """Return the updates that hold at a version, oldest first; only texts that hold are read.

    C(update t) = C(t−1) ‖ t, C(rollback t) = C(restores), and C(forget t) and C(erase t) = C(t−1) without what they
    name: followed from `number` down. What a forget takes away is always further down; a rollback that jumps over
    a forget undoes it by never meeting it. It does not undo an erasure: there the text itself is less.

    Args:
        connection: on one snapshot.
        memory: name, for errors.
        memory_id: its row.
        number: the version; 0 before the first.
        only: read none but these.

    Raises:
        IntegrityError: If an update is missing, or an undo names no version.
    """
    path = _followed(memory, _undos(connection, memory_id, number), number)
    ranges = _without(path.ranges, sorted(path.forgotten))
    if only is not None:
        ranges = [Numbers(n, n) for n in sorted(only) if any(first <= n <= last for first, last in ranges)]
    rows = _rows_of(connection, memory, memory_id, ranges)
    cuts = path.cuts
    if any(row.erased_by is not None for row in rows):
        # Of any number: an erasure is not taken back, and every history lacks what it took.
        erased = erasures_of(connection, memory_id)
        cuts = {update: [*path.cuts.get(update, []), *erased.get(update, [])] for update in {*path.cuts, *erased}}
    found: list[Held] = []
    for row in rows:
        if not row.text:  # erased as a whole
            slices = []
        elif row.number in cuts:
            slices = held_slices(row.text, current_cuts(cuts[row.number]))
        else:
            slices = [Span(0, len(row.text))]
        found.append(Held(row.number, row.text, tuple(slices), row))
    return found


def transitions_of(held: list[Held]) -> tuple[Transition, ...]:
    """Return the texts of a history; an update of which nothing is left brings none."""
    return tuple(transition_of(each.row, each.said) for each in held if each.slices)


def transition_of(row: Any, text: str) -> Transition:
    """Make the value from an update's row and what of its text holds."""
    metadata: str = row.metadata_json
    return Transition(
        row.number, text, overrules_of(metadata), context_of(metadata), expiry_of(metadata), row.created_at
    )


def erasures_of(connection: sa.Connection, memory_id: int, number: int | None = None) -> dict[int, list[Cut]]:
    """Read the erasures of parts of texts: of all updates, or of one; ascending."""
    query = sa.select(VersionRow.number, VersionRow.forgets, VersionRow.span_start, VersionRow.span_end)
    query = query.where(VersionRow.memory_id == memory_id, IS_ERASURE).order_by(VersionRow.number)
    if number is not None:
        query = query.where(VersionRow.forgets == number)
    found: dict[int, list[Cut]] = {}
    for row in connection.execute(query):
        span = span_of(row)
        if span is not None:
            found.setdefault(row.forgets, []).append(Cut(row.number, span, is_erased=True))
    return found


def check_holds(connection: sa.Connection, memory: str, memory_id: int, head: int, number: int) -> None:
    """Refuse to forget what is no update, or an update whose text does not hold at the head.

    Raises:
        InvalidInput: Naming what the version is, or which version took its text back.
    """
    check_is_update(connection, memory, memory_id, number)
    undos = _undos(connection, memory_id, head)
    path = _followed(memory, undos, head)
    if number in path.forgotten:
        by = path.forgotten[number]
        is_erased = any(undo.number == by and undo.kind == "erase" for undo in undos)
        reason = f"version {by} {'erased' if is_erased else 'forgot'} it"
    elif not any(each.first <= number <= each.last for each in path.ranges):
        reason = "a rollback took it back"
    else:
        return
    raise InvalidInput(
        f"Memory {memory!r}: the text of version {number} does not hold at version {head} any more, {reason}: "
        "there is nothing to forget. Name an update of the history that holds."
    )


def check_is_update(connection: sa.Connection, memory: str, memory_id: int, number: int) -> None:
    """Refuse a version that has no text.

    Raises:
        InvalidInput: Naming what it is.
        IntegrityError: If its row is missing.
    """
    query = sa.select(VersionRow.kind).where(VersionRow.memory_id == memory_id, VersionRow.number == number)
    kind = connection.execute(query).scalar()
    if kind is None:
        raise altered(memory, number, "it is missing")
    if kind != "update":
        way_back = "" if kind == "erase" else f", or undo the {kind} by rolling back to an earlier version"
        raise InvalidInput(
            f"Memory {memory!r}: version {number} is a {kind}, which has no text to forget. Name an update{way_back}."
        )


def _rows_of(connection: sa.Connection, memory: str, memory_id: int, ranges: list[Numbers]) -> list[Any]:
    """Read number, text, mark, metadata and time of the updates of the ranges, in order.

    Raises:
        IntegrityError: If one of them is missing.
    """
    found: list[Any] = []
    for start in range(0, len(ranges), _RANGES_PER_QUERY):
        some = ranges[start : start + _RANGES_PER_QUERY]
        columns = (
            VersionRow.number,
            VersionRow.text,
            VersionRow.erased_by,
            VersionRow.metadata_json,
            VersionRow.created_at,
        )
        query = sa.select(*columns).order_by(VersionRow.number)
        query = query.where(
            VersionRow.memory_id == memory_id, sa.or_(*(VersionRow.number.between(*each) for each in some))
        )
        rows = connection.execute(query).all()
        for expected, row in zip((n for each in some for n in range(each.first, each.last + 1)), rows, strict=False):
            if row.number != expected:
                raise altered(memory, expected, "it is missing")
        found.extend(rows)
    wanted = sum(each.last - each.first + 1 for each in ranges)
    if len(found) != wanted:
        raise IntegrityError(f"Memory {memory!r}: {wanted} versions should hold, {len(found)} are there.")
    return found


def _undos(connection: sa.Connection, memory_id: int, number: int) -> list[_Undo]:
    """Read the rollbacks, forgets and erasures up to a version, ascending."""
    query = sa.select(*(getattr(VersionRow, field) for field in _Undo._fields))
    query = query.where(VersionRow.memory_id == memory_id, VersionRow.number <= number, IS_UNDO)
    query = query.order_by(VersionRow.number)
    return [_Undo(*row) for row in connection.execute(query)]


def _followed(memory: str, undos: list[_Undo], number: int) -> _Path:
    """Follow the history from a version down, from undo to undo."""
    numbers = [undo.number for undo in undos]
    ranges: list[Numbers] = []
    forgotten: dict[int, int] = {}
    cuts: dict[int, list[Cut]] = {}
    while number > 0:
        before = bisect_right(numbers, number) - 1
        last_undo = numbers[before] if before >= 0 else 0
        if last_undo < number:
            ranges.append(Numbers(last_undo + 1, number))
        if before < 0:
            break
        undo = undos[before]
        reason = _names_no_version(*undo[:4])
        if reason:
            raise altered(memory, undo.number, reason)
        span = span_of(undo)
        if undo.forgets is not None and span is None:
            forgotten[undo.forgets] = undo.number
        elif undo.forgets is not None and span is not None and undo.kind == "forget":
            # an erasure of a part is found in the text, which lacks it, whatever way led here
            cuts.setdefault(undo.forgets, []).append(Cut(undo.number, span, is_erased=False))
        number = undo.number - 1 if undo.restores is None else undo.restores
    return _Path(ranges[::-1], forgotten, cuts)


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


def names_no_version(row: VersionRow) -> str | None:
    """Say what is wrong with the versions a row names: a rollback restores one, a forget names one, both earlier."""
    return _names_no_version(row.number, row.kind, row.restores, row.forgets) or _names_no_span(row)


def _names_no_version(number: int, kind: str, restores: int | None, forgets: int | None) -> str | None:
    for owners, verb, named in (
        (("rollback",), "restores", restores),
        (("forget", "erase"), "forgets", forgets),
    ):
        if kind in owners and (named is None or not 1 <= named < number):
            return f"it {verb} {named}, which is no version before it"
        if kind not in owners and named is not None:
            return f"it {verb} {named}, being of kind {kind}"
    return None


def _names_no_span(row: VersionRow) -> str | None:
    start, end = row.span_start, row.span_end
    if start is None and end is None:
        return None
    if row.kind not in ("forget", "erase"):
        return f"it names characters {start} to {end}, being of kind {row.kind}"
    return None if start is not None and end is not None and 0 <= start < end else f"{start} to {end} is no span"


def altered(memory: str, number: int, reason: str) -> IntegrityError:
    """Return the error for a row that is not as it was written."""
    return IntegrityError(
        f"Memory {memory!r}, version {number}: {reason}. The log was altered after it was written; "
        "restore the database from a copy."
    )
