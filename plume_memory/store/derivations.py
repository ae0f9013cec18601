"""Which artifact was derived from what. A cache in SQL: any row may be deleted, the log rebuilds it.

A key is the sha256 of everything the artifact depends on (texts, fingerprints, settings); the caller
computes it.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.errors import InvalidInput, StoreUnavailable
from plume_memory.store.database import Database
from plume_memory.store.tables import DerivationRow, MemoryRow, SourceRow

_KEY = re.compile("[0-9a-f]{64}")
_COLUMNS = (
    DerivationRow.key,
    DerivationRow.kind,
    DerivationRow.sha256,
    DerivationRow.size,
    DerivationRow.created_at,
)


@dataclass(frozen=True, slots=True)
class Derivation:
    """One derived artifact."""

    key: str
    """sha256 of what it was derived from."""
    kind: str
    """What it is, e.g. factors."""
    sha256: str
    """Address of the artifact."""
    size: int
    """Bytes."""
    created_at: datetime
    """Aware, UTC."""


class Derivations:
    """The table of derived artifacts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def lookup(self, key: str, memory: str | None = None) -> Derivation | None:
        """Return what was derived under the key; None if nothing was, or it was forgotten.

        Args:
            key: what was derived from.
            memory: only what is noted as derived for the memory of this name, by these very bytes (sources.py).
        """
        _check_key(key)
        query = sa.select(*_COLUMNS).where(DerivationRow.key == key)
        if memory is not None:
            noted = (SourceRow.key == DerivationRow.key) & (SourceRow.sha256 == DerivationRow.sha256)
            query = query.join(SourceRow, noted).join(MemoryRow, MemoryRow.id == SourceRow.memory_id)
            query = query.where(MemoryRow.name == memory)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else Derivation(*row)

    def keys(self, kind: str, memory: str) -> list[str]:
        """Return the keys of everything of a kind that is noted as derived for a memory, the newest first."""
        noted = (SourceRow.key == DerivationRow.key) & (SourceRow.sha256 == DerivationRow.sha256)
        query = sa.select(DerivationRow.key).join(SourceRow, noted).join(MemoryRow, MemoryRow.id == SourceRow.memory_id)
        query = query.where(MemoryRow.name == memory, DerivationRow.kind == kind)
        with self._database.read() as connection:
            return list(connection.execute(query.order_by(DerivationRow.created_at.desc())).scalars())

    def is_shared(self, key: str, memory: str) -> bool:
        """Tell whether another memory has a note of something under the key: a fork of the whole, or the same text."""
        query = sa.select(SourceRow.key).join(MemoryRow, MemoryRow.id == SourceRow.memory_id)
        query = query.where(SourceRow.key == key, MemoryRow.name != memory).limit(1)
        with self._database.read() as connection:
            return connection.execute(query).first() is not None

    def record(self, key: str, kind: str, sha256: str, size: int) -> Derivation:
        """Record an artifact under the key, in place of an earlier one: a rebuild may give other bytes."""
        _check_key(key)
        _check_key(sha256)
        derivation = Derivation(key, kind, sha256, size, datetime.now(UTC))
        values = {column.key: getattr(derivation, column.key) for column in _COLUMNS}

        def replace(connection: sa.Connection) -> None:
            connection.execute(sa.delete(DerivationRow).where(DerivationRow.key == key))
            connection.execute(sa.insert(DerivationRow).values(values))

        try:
            self._database.transact(replace, repeatable=True)
        except exc.IntegrityError as err:
            # PostgreSQL alone: another process recorded the key between the two statements. Either is right.
            found = self.lookup(key)
            if found is None:
                raise StoreUnavailable(f"The derivation {key} could not be recorded: {err.orig}") from err
            return found
        return derivation

    def forget(self, key: str) -> None:
        """Delete one row; one that is not there is forgotten already. The artifact stays."""
        _check_key(key)
        gone = sa.delete(DerivationRow).where(DerivationRow.key == key)
        self._database.transact(lambda connection: connection.execute(gone), repeatable=True)

    def clear(self) -> None:
        """Delete every row. The artifacts stay."""
        self._database.transact(lambda connection: connection.execute(sa.delete(DerivationRow)), repeatable=True)


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise InvalidInput(f"A key is 64 lowercase hexadecimal digits, got {key!r}.")
