"""Which memory each artifact was derived from, so that an erasure finds every one. Knows no text and no version.

An artifact is a function of texts, and its address and its key are hashes: nothing in it says whose text it was.
So the memory is noted here before the artifact is written, and an erasure deletes all that a memory's texts became.
"""

from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.store.chain import sha256_of
from plume_memory.store.database import Database
from plume_memory.store.memories import get_memory
from plume_memory.store.tables import IS_ERASURE, DerivationRow, SourceRow, VersionRow


class Source(NamedTuple):
    """One artifact, and what it was derived for."""

    memory_id: int
    key: str
    """Of the derivation; or `found_in`."""
    sha256: str


class Sources:
    """Notes of one memory's artifacts.

    Args:
        database: where they are.
        memory: name of the memory that artifacts are derived from.
        last_erasure: the memory's newest erasure when its texts were read (`Log.last_erasure`).
    """

    def __init__(self, database: Database, memory: str, *, last_erasure: int) -> None:
        self._database = database
        self.memory = memory
        self._last_erasure = last_erasure

    def note(self, key: str, sha256: str) -> bool:
        """Note an artifact that is about to be written; False if something was erased since its text was read.

        Then it must not be kept: the erasure will not come by here again.
        """
        try:
            return self._database.transact(lambda connection: self._note(connection, key, sha256), repeatable=True)
        except exc.IntegrityError:
            # PostgreSQL alone: another process noted it between the two statements. Now it is found, or was erased.
            return self._database.transact(lambda connection: self._note(connection, key, sha256), repeatable=True)

    def is_current(self) -> bool:
        """Tell whether nothing was erased since the texts were read."""
        with self._database.read() as connection:
            return self._newest(connection, get_memory(connection, self.memory).id) == self._last_erasure

    def _note(self, connection: sa.Connection, key: str, sha256: str) -> bool:
        memory_id = get_memory(connection, self.memory).id
        if self._newest(connection, memory_id) != self._last_erasure:
            return False
        row = Source(memory_id, key, sha256)
        here = sa.select(SourceRow.key).where(
            *(getattr(SourceRow, name) == row[i] for i, name in enumerate(row._fields))
        )
        if connection.execute(here).first() is None:
            connection.execute(sa.insert(SourceRow).values(row._asdict()))
        return True

    def _newest(self, connection: sa.Connection, memory_id: int) -> int:
        query = sa.select(sa.func.coalesce(sa.func.max(VersionRow.number), 0))
        return connection.execute(query.where(VersionRow.memory_id == memory_id, IS_ERASURE)).scalar_one()


def found_in(place: str) -> str:
    """Return the key that notes get whose artifacts an erasure has found in a place and deletes."""
    return f"found:{sha256_of(place)[:58]}"


def adopt_unsourced(connection: sa.Connection, memory_id: int) -> None:
    """Note for a memory whatever was derived before sources were: it may have been derived from any."""
    known = sa.select(SourceRow.key).where(SourceRow.key == DerivationRow.key)
    rest = sa.select(sa.literal(memory_id), DerivationRow.key, DerivationRow.sha256).where(~known.exists())
    connection.execute(sa.insert(SourceRow).from_select(["memory_id", "key", "sha256"], rest))


def sources_of(connection: sa.Connection, memory_ids: list[int]) -> list[Source]:
    """Return what was derived from some memories."""
    query = sa.select(SourceRow.memory_id, SourceRow.key, SourceRow.sha256)
    query = query.where(SourceRow.memory_id.in_(memory_ids)).order_by(SourceRow.sha256, SourceRow.key)
    return [Source(*row) for row in connection.execute(query)]
