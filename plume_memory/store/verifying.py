"""Proves that a log is as it was written: every row against its hashes, its parent and the head.

A row that nothing was erased of is hashed again in full. An erased one has lost what its hash is over, so three
things stand in for it: its parent_hash is the chain hash before it, the next row's is its own, and a version of
kind `erase`, itself hashed and chained, names it and vouches for what is left of it (`chain.vouching`).
"""

import json
from typing import NamedTuple, cast

import sqlalchemy as sa

from plume_memory.store.chain import NO_PARENT, chain_hash, sha256_of, vouching
from plume_memory.store.entries import KEY_SHA256
from plume_memory.store.memories import FoundMemory
from plume_memory.store.reading import VERSION_COLUMNS, altered, names_no_version, span_of
from plume_memory.store.tables import IS_ERASURE, VersionRow

_ROWS_PER_FETCH = 500


class _Voucher(NamedTuple):
    """The last erasure of an update."""

    number: int
    erased: object
    """What its metadata holds under "erased"."""


def verify_rows(connection: sa.Connection, memory: str, memory_id: int, head_number: int, head_hash: str) -> int:
    """Check every row of a log against its hashes and the head; return how many there are.

    Raises:
        IntegrityError: Naming the first row that does not fit.
    """
    vouchers = _vouchers(connection, memory_id)
    query = sa.select(*VERSION_COLUMNS).where(VersionRow.memory_id == memory_id).order_by(VersionRow.number)
    parent_hash, number = NO_PARENT, 0
    with connection.execute(query.execution_options(yield_per=_ROWS_PER_FETCH)) as rows:  # closed by an error too
        for row in rows:
            number += 1
            if row.number != number:
                raise altered(memory, number, f"it is missing, version {row.number} follows")
            if number > head_number:
                raise altered(memory, number, f"the head is version {head_number}")
            reason = _misfit(cast(VersionRow, row), parent_hash, vouchers.get(number))
            if reason:
                raise altered(memory, number, reason)
            parent_hash = row.chain_hash
    if number < head_number:
        raise altered(memory, number + 1, f"it is missing, the head is version {head_number}")
    if parent_hash != head_hash:
        raise altered(memory, number, "its chain hash is not the one the head was written with")
    return number


def check_row(connection: sa.Connection, found: FoundMemory, number: int) -> VersionRow:
    """Check one row as `verify_rows` does, and return it: an erasure vouches for none that does not fit.

    Raises:
        IntegrityError: If it, or the row before it, is missing, or it does not fit its hashes.
    """
    query = sa.select(*VERSION_COLUMNS).where(VersionRow.memory_id == found.id)
    rows = connection.execute(
        query.where(VersionRow.number.between(number - 1, number)).order_by(VersionRow.number)
    ).all()
    expected = [each for each in (number - 1, number) if each > 0]
    missing = set(expected) - {row.number for row in rows}
    if missing:
        raise altered(found.name, min(missing), "it is missing")
    parent_hash = rows[0].chain_hash if number > 1 else NO_PARENT
    row = cast(VersionRow, rows[-1])
    reason = _misfit(row, parent_hash, _vouchers(connection, found.id, number).get(number))
    if reason:
        raise altered(found.name, number, reason)
    return row


def _vouchers(connection: sa.Connection, memory_id: int, of: int | None = None) -> dict[int, _Voucher]:
    """Read the erasures, of all updates or one, by the update they name. They are verified with every other row."""
    query = sa.select(VersionRow.number, VersionRow.forgets, VersionRow.metadata_json)
    query = query.where(VersionRow.memory_id == memory_id, IS_ERASURE).order_by(VersionRow.number)
    if of is not None:
        query = query.where(VersionRow.forgets == of)
    found: dict[int, _Voucher] = {}
    for number, forgets, metadata_json in connection.execute(query):
        if forgets is None:  # altered, as the next
            continue
        try:
            metadata = json.loads(metadata_json)
        except ValueError:  # altered: its own chain hash says so when its turn comes
            metadata = None
        found[forgets] = _Voucher(number, metadata.get("erased") if isinstance(metadata, dict) else None)
    return found


def _misfit(row: VersionRow, parent_hash: str, voucher: _Voucher | None) -> str | None:
    """Say what does not fit, if anything."""
    if row.parent_hash != parent_hash:
        return "its parent_hash is not the chain hash of the version before"
    if row.erased_by is not None or voucher is not None:
        return _misfit_of_erased(row, voucher)
    if row.text_sha256 != sha256_of(row.text):
        return "its text does not have the sha256 it was written with"
    reason = names_no_version(row)
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
        span=span_of(row),
    )
    return None if row.chain_hash == expected else "its fields do not have the chain hash they were written with"


def _misfit_of_erased(row: VersionRow, voucher: _Voucher | None) -> str | None:
    if voucher is None:
        return f"it is marked as erased by version {row.erased_by}, and no version erases it"
    if row.erased_by is None:
        return f"version {voucher.number} erased it, but it is not marked as erased"
    if row.erased_by != voucher.number:
        return f"it is marked as erased by version {row.erased_by}, and version {voucher.number} erased it last"
    if row.kind != "update" or names_no_version(row):
        return f"it is marked as erased, being of kind {row.kind}"
    if row.metadata_json != "{}" or row.idempotency_key is not None:
        return "it has metadata or a key, and an erased version has neither"
    expected = vouching(
        created_at=row.created_at, text_sha256=row.text_sha256, chain_hash=row.chain_hash, left=row.text
    )
    named = dict(voucher.erased) if isinstance(voucher.erased, dict) else {}
    named.pop(KEY_SHA256, None)  # of the key that the row lost: the voucher's own hash is over it
    if named == expected:
        return None
    wrong = [key for key, value in expected.items() if named.get(key) != value]
    return f"its {' and '.join(wrong) or 'fields'} is not what version {voucher.number}, which erased it, vouches for"
