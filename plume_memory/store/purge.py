"""Finishes erasures that are in the log: deletes what was derived, and the bytes that the database has freed.

The log comes first, in one transaction (erasure.py): from then on no reader meets the text, and the log says
nothing that is not so. What is left to do is noted in that transaction (`unfinished_erasures`) and crossed out when
all of it is done, so a process that is killed in between is made good by the next erasure, or a repeated call. The
other order would be worse: artifacts that are deleted first are derived anew by any reader in between.
"""

from typing import NamedTuple

import sqlalchemy as sa

from plume_memory.errors import StoreUnavailable
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.failures import mapped
from plume_memory.store.sources import Source, sources_of
from plume_memory.store.tables import DerivationRow, SourceRow, UnfinishedErasureRow

_PER_STATEMENT = 300  # parameters, three a row: below every SQLite's limit


class Unfinished(NamedTuple):
    """An erasure that is yet to be finished."""

    memory_id: int
    number: int
    """Of the version of kind erase."""


def unfinished(database: Database) -> list[Unfinished]:
    """Return every erasure of the database that is yet to be finished."""
    with database.read() as connection:
        query = sa.select(UnfinishedErasureRow.memory_id, UnfinishedErasureRow.number)
        return [Unfinished(*row) for row in connection.execute(query)]


def finish(database: Database, artifacts: ArtifactStore) -> tuple[Source, ...]:
    """Finish every erasure of the database; returns the artifacts deleted, and what they were derived from.

    Repeatable at every point. Artifacts are searched in `artifacts` alone.

    Raises:
        StoreUnavailable: the database could not be compacted, e.g. because a reader held on to it: repeat.
        ArtifactError: an artifact could not be deleted: repeat.
    """
    rows = unfinished(database)
    if not rows:
        return ()
    with database.read() as connection:
        sources = sources_of(connection, sorted({memory_id for memory_id, _ in rows}))
    # Rows before files: a reader that finds a row whose file is gone warns of a damage that is none.
    database.transact(lambda connection: _delete_derivations(connection, sources), repeatable=True)
    for sha256 in sorted({source.sha256 for source in sources}):
        artifacts.delete(sha256)
    compact(database)
    database.transact(lambda connection: _cross_out(connection, rows, sources), repeatable=True)
    return tuple(sources)


def compact(database: Database) -> None:
    """Rewrite the database without the bytes of rows that are gone, and empty SQLite's write-ahead log.

    PostgreSQL's table of versions is locked meanwhile, for readers too; what its own write-ahead log, its replicas
    and its backups hold is beyond it.

    Raises:
        StoreUnavailable: a reader or writer held on for longer than the busy timeout, or the disk is full.
    """
    with database.read() as connection:
        engine = connection.engine
    with mapped(engine.url):
        if engine.dialect.name == "sqlite":
            _compact_sqlite(engine)
        else:
            _compact_postgresql(engine)


def secure_deletes(connection: sa.Connection) -> None:
    """Make SQLite overwrite what this connection frees; VACUUM would drop it only later."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete=ON").close()


def _compact_sqlite(engine: sa.Engine) -> None:
    raw = engine.raw_connection()  # VACUUM wants no transaction, and this begins none
    try:
        cursor = raw.cursor()
        cursor.execute("PRAGMA secure_delete=ON")
        cursor.execute("VACUUM")
        busy = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        cursor.close()
    finally:
        raw.close()
    if busy:
        raise StoreUnavailable(
            "The text is erased from the log, but another connection reads the database still, so the bytes stay in "
            "its write-ahead log: end that, and repeat the call; it goes on from here."
        )


def _compact_postgresql(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")  # VACUUM wants no transaction
        connection.exec_driver_sql("SET statement_timeout = 0")  # a big table takes its time
        try:
            connection.exec_driver_sql("VACUUM (FULL) versions")
        finally:
            connection.exec_driver_sql("RESET statement_timeout")


def _delete_derivations(connection: sa.Connection, sources: list[Source]) -> None:
    secure_deletes(connection)
    keys = sorted({source.key for source in sources})
    for start in range(0, len(keys), _PER_STATEMENT):
        connection.execute(sa.delete(DerivationRow).where(DerivationRow.key.in_(keys[start : start + _PER_STATEMENT])))


def _cross_out(connection: sa.Connection, rows: list[Unfinished], sources: list[Source]) -> None:
    """Delete the notes that were read; what was noted meanwhile stays."""
    for start in range(0, len(sources), _PER_STATEMENT):
        some = sources[start : start + _PER_STATEMENT]
        here = sa.tuple_(SourceRow.memory_id, SourceRow.key, SourceRow.sha256).in_([tuple(each) for each in some])
        connection.execute(sa.delete(SourceRow).where(here))
    here = sa.tuple_(UnfinishedErasureRow.memory_id, UnfinishedErasureRow.number).in_([tuple(row) for row in rows])
    connection.execute(sa.delete(UnfinishedErasureRow).where(here))
