"""Finishes erasures that are in the log: deletes what was derived, and the bytes that the database has freed.

The log comes first, in one transaction (erasure.py): from then on no reader meets the text, and the log says
nothing that is not so. What is left to do is noted in that transaction (`unfinished_erasures`) and crossed out when
all of it is done, so a process that is killed in between is made good by the next erasure, or a repeated call. The
other order would be worse: artifacts that are deleted first are derived anew by any reader in between.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import sqlalchemy as sa

from plume_memory.errors import ArtifactError, StoreUnavailable
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.copies import lock_copies
from plume_memory.store.database import Database
from plume_memory.store.failures import mapped
from plume_memory.store.journaled import journal_tables
from plume_memory.store.sources import Source, found_in, sources_of
from plume_memory.store.tables import DerivationRow, MemoryRow, SourceRow, UnfinishedErasureRow

_PER_STATEMENT = 300  # parameters, three a row: below every SQLite's limit
_WRITTEN_S = 600.0  # an artifact's temporary file that is older belongs to a write that was killed
_PATIENCE_MS = 30_000  # where PostgreSQL's lock_timeout is off
_PAUSE_S = 0.05
_SHOWN = 5
_FILE = "SELECT pg_relation_filenode('versions')"
_LOCK_TIMEOUT = "SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'"
# Ages, as the numbers of transactions wrap around: those that hold VACUUM back, and the youngest erasure's.
_OLDER = """
SELECT who FROM (
    SELECT 'a transaction that writes or is prepared', age(pg_snapshot_xmin(pg_current_snapshot())::xid)
    UNION ALL SELECT 'session ' || pid, age(backend_xmin) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND (datname IS NULL OR datname = current_database())
    UNION ALL SELECT 'replication slot ' || slot_name, age(xmin) FROM pg_replication_slots
) AS holder (who, age)
WHERE age >= (SELECT min(age(xmin)) FROM unfinished_erasures)
"""


class Unfinished(NamedTuple):
    """An erasure that is yet to be finished."""

    memory_id: int
    number: int
    """Of the version of kind erase."""
    memory: str
    """Its name."""


def unfinished(database: Database) -> list[Unfinished]:
    """Return every erasure of the database that is yet to be finished."""
    with database.read() as connection:
        query = sa.select(UnfinishedErasureRow.memory_id, UnfinishedErasureRow.number, MemoryRow.name)
        query = query.join(MemoryRow, MemoryRow.id == UnfinishedErasureRow.memory_id)
        return [Unfinished(*row) for row in connection.execute(query)]


def finish(database: Database, artifacts: ArtifactStore) -> tuple[Source, ...]:
    """Finish every erasure of the database; returns the artifacts deleted, and what they were derived from.

    Repeatable at every point. Artifacts are searched in `artifacts` alone. The note of one that is not there stays,
    for a later erasure: it may lie in another place, or be written right now by a process that is then killed.

    Raises:
        StoreUnavailable: the database could not be compacted, e.g. because a reader held on to it: repeat.
        ArtifactError: an artifact could not be deleted: repeat.
    """
    rows = unfinished(database)
    if not rows:
        return ()
    with _named(database, rows):
        with database.read() as connection:
            sources = sources_of(connection, sorted({row.memory_id for row in rows}))
        mark = found_in(artifacts.root_url)
        there = {each.sha256 for each in sources if each.key == mark or artifacts.has(each.sha256)}
        found = [each for each in sources if each.sha256 in there]
        deleted = sorted({each._replace(key=mark) for each in found})
        # Rows before files: a reader that finds a row whose file is gone warns of a damage that is none. And what was
        # found is noted before it is gone, for the certificate of a call that goes on from here.
        database.transact(lambda connection: _delete_derivations(connection, sources, found, deleted), repeatable=True)
        for sha256 in sorted(there):
            artifacts.delete(sha256)
        artifacts.sweep(older_than_s=_WRITTEN_S)
        compact(database)
        database.transact(lambda connection: _cross_out(connection, rows, deleted), repeatable=True)
    return tuple(deleted)


def compact(database: Database) -> None:
    """Rewrite the database without the bytes of rows that are gone, and empty SQLite's write-ahead log.

    PostgreSQL's table of versions is locked meanwhile, for readers too; what its own write-ahead log, its replicas
    and its backups hold is beyond it.

    Raises:
        StoreUnavailable: a reader or writer held on for longer than the busy timeout, the disk is full, or the
            user does not own the table.
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
            "Another connection reads the database still, so the bytes stay in its write-ahead log: end that first."
        )


def _compact_postgresql(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")  # VACUUM wants no transaction
        _wait_for_older(connection)
        before = connection.exec_driver_sql(_FILE).scalar_one()
        connection.exec_driver_sql("SET statement_timeout = 0")  # a big table takes its time
        try:
            for table in ("versions", *journal_tables(connection)):
                connection.exec_driver_sql(f"VACUUM (FULL) {table}")
        finally:
            connection.exec_driver_sql("RESET statement_timeout")
        if connection.exec_driver_sql(_FILE).scalar_one() == before:  # PostgreSQL only warns
            raise StoreUnavailable(
                "PostgreSQL did not rewrite the table versions, so the bytes stay in its file: this must be run as the "
                "table's owner."
            )


def _wait_for_older(connection: sa.Connection) -> None:
    """Wait until nobody may see the rows as they were before they were erased: VACUUM keeps them for who may.

    Who begins after this is no hindrance: a snapshot is as old as the oldest transaction that writes, which is asked
    about too, also in the server's other databases.
    """
    timeout_ms = connection.exec_driver_sql(_LOCK_TIMEOUT).scalar_one() or _PATIENCE_MS
    deadline = time.monotonic() + timeout_ms / 1000
    while older := list(connection.exec_driver_sql(_OLDER).scalars()):
        if time.monotonic() > deadline:
            raise StoreUnavailable(
                f"PostgreSQL keeps the bytes for transactions that began before the erasure: {', '.join(older)}. End "
                "them first."
            )
        time.sleep(_PAUSE_S)


@contextmanager
def _named(database: Database, rows: list[Unfinished]) -> Iterator[None]:
    """Say of an error that the erasures are in the log: the database's own words are of one step alone."""
    try:
        yield
    except (StoreUnavailable, ArtifactError) as err:
        kind = ArtifactError if isinstance(err, ArtifactError) else StoreUnavailable
        listed = ", ".join(f"version {row.number} of memory {row.memory!r}" for row in rows[:_SHOWN])
        more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        raise kind(
            f"{database.url}: the text is erased from the log ({listed}{more}), but its bytes, or what was derived "
            f"from it, could not all be removed: repeat the call; it goes on from here. What failed: {err}"
        ) from err


def _delete_derivations(
    connection: sa.Connection, sources: list[Source], found: list[Source], deleted: list[Source]
) -> None:
    """Delete the derivations, and note in place of those whose artifact was found that it is being deleted."""
    lock_copies(connection, exclusive=True)  # another process may be finishing the same
    secure_deletes(connection)
    keys = sorted({source.key for source in sources})
    for start in range(0, len(keys), _PER_STATEMENT):
        connection.execute(sa.delete(DerivationRow).where(DerivationRow.key.in_(keys[start : start + _PER_STATEMENT])))
    _delete_notes(connection, [*found, *deleted])
    if deleted:
        connection.execute(sa.insert(SourceRow), [source._asdict() for source in deleted])


def _cross_out(connection: sa.Connection, rows: list[Unfinished], deleted: list[Source]) -> None:
    """Delete the notes that were read; what was noted meanwhile stays."""
    _delete_notes(connection, deleted)
    finished = [(row.memory_id, row.number) for row in rows]
    here = sa.tuple_(UnfinishedErasureRow.memory_id, UnfinishedErasureRow.number).in_(finished)
    connection.execute(sa.delete(UnfinishedErasureRow).where(here))


def _delete_notes(connection: sa.Connection, sources: list[Source]) -> None:
    for start in range(0, len(sources), _PER_STATEMENT):
        some = [tuple(each) for each in sources[start : start + _PER_STATEMENT]]
        here = sa.tuple_(SourceRow.memory_id, SourceRow.key, SourceRow.sha256).in_(some)
        connection.execute(sa.delete(SourceRow).where(here))
