"""Connections to one database: opened lazily, the schema checked once, errors in this package's words.

Knows the two databases (SQLite, PostgreSQL) and their locking; knows no memory and no version.

SQLite runs in WAL mode (readers never wait for the writer) with `synchronous=FULL`: a commit is fsynced
before it is acknowledged, so a version whose number a caller has seen survives a power cut. NORMAL would be
faster but may lose the last acknowledged commits. A writer takes the lock at BEGIN (IMMEDIATE): it never
reads a head that another writer then moves. Readers see one snapshot for the whole block on both databases.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from plume_memory.errors import InvalidInput, MemoryClosed, StoreUnavailable
from plume_memory.store import schema
from plume_memory.store.failures import driver_needed, mapped, shown

_MIGRATION_LOCK = 0x706C756D65  # "plume": the advisory lock a PostgreSQL session holds while it migrates


class Database:
    """One database, shared by threads; a forked child makes connections of its own.

    Args:
        url: SQLAlchemy URL: `sqlite:///file.db`, `sqlite://` (in memory), `postgresql://…`.
        busy_timeout_s: Longest wait for another writer or for a free connection.

    Raises:
        InvalidInput: If the URL cannot be parsed or names another database. Nothing is opened yet.
    """

    def __init__(self, url: str, *, busy_timeout_s: float = 30.0) -> None:
        self._url = _parse(url)
        self._busy_timeout_s = busy_timeout_s
        self._engine: sa.Engine | None = None
        self._process = 0
        self._is_checked = False
        self._is_closed = False
        self._opening = threading.Lock()
        # SQLite's busy handler polls and is not fair: the threads of one process queue here instead.
        self._writing = threading.Lock()

    @property
    def url(self) -> str:
        """The URL without its password."""
        return shown(self._url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Yield a connection on one snapshot of the database."""
        with mapped(self._url), self._checked().connect() as connection:
            if not self._is_sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Yield a connection in one write transaction: committed at the end, rolled back on any error.

        A violated constraint passes through as `sqlalchemy.exc.IntegrityError`, for the caller to name.
        """
        with mapped(self._url):
            engine = self._checked()
            with self._turn(), engine.connect() as connection:
                connection.execution_options(plume_write=True)
                with connection.begin():
                    yield connection

    def revision(self) -> str | None:
        """Return the schema's revision, whatever it is; None for an empty database."""
        with mapped(self._url), self._made().connect() as connection:
            return schema.revision_of(connection)

    def upgrade(self) -> str:
        """Run the missing migrations and return the revision reached.

        Raises:
            SchemaError: If the database belongs to something else or to a newer package.
        """
        with mapped(self._url):
            return self._migrate(self._made(), only_if_empty=False)

    def close(self) -> None:
        """Close every connection; later use raises MemoryClosed. Closing twice is allowed."""
        with self._opening:
            self._is_closed = True
            if self._engine is not None:
                self._engine.dispose(close=self._process == os.getpid())
                self._engine = None

    @property
    def _is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    def _checked(self) -> sa.Engine:
        """Return the engine of a database whose schema is this package's; an empty one gets the schema."""
        engine = self._made()
        if not self._is_checked:
            with engine.connect() as connection:
                revision = schema.revision_of(connection)
            if revision is None:
                revision = self._migrate(engine, only_if_empty=True)
            schema.check_revision(revision, self.url)
            self._is_checked = True
        return engine

    def _made(self) -> sa.Engine:
        """Return the engine, making it on first use and again in a forked child."""
        with self._opening:
            if self._is_closed:
                raise MemoryClosed(f"The database {self.url} was closed; open it again.")
            if self._engine is not None and self._process != os.getpid():
                # A fork inherits its parent's sockets and file locks: forget them without closing.
                self._engine.dispose(close=False)
                self._engine, self._writing = None, threading.Lock()
            if self._engine is None:
                with driver_needed(self._url):
                    self._engine = self._new_engine()
                self._process = os.getpid()
            return self._engine

    def _new_engine(self) -> sa.Engine:
        if not self._is_sqlite:
            return sa.create_engine(self._url, pool_pre_ping=True, pool_timeout=self._busy_timeout_s)
        # A database in memory lives in its connection: one, handed from thread to thread.
        in_memory = _in_memory(self._url)
        engine = sa.create_engine(
            self._url,
            connect_args={"timeout": self._busy_timeout_s, "check_same_thread": False},
            poolclass=QueuePool,
            pool_size=1 if in_memory else 8,
            max_overflow=0 if in_memory else 24,
            pool_timeout=self._busy_timeout_s,
        )
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for this process's other writers to SQLite."""
        if not self._is_sqlite:
            yield
            return
        lock = self._writing
        if not lock.acquire(timeout=self._busy_timeout_s):
            raise StoreUnavailable(f"{self.url} is busy: another thread has been writing for too long; try again.")
        try:
            yield
        finally:
            lock.release()

    def _migrate(self, engine: sa.Engine, *, only_if_empty: bool) -> str:
        """Migrate under a lock every process respects; another may have done it while this one waited."""
        if self._is_sqlite and not _in_memory(self._url):
            self._switch_to_wal(engine)
        with self._turn(), engine.connect() as connection:
            connection.execution_options(plume_write=True)
            with connection.begin():
                if not self._is_sqlite:
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
                found = schema.revision_of(connection)
                if found is not None:
                    if only_if_empty:
                        return found
                    schema.check_revision_is_known(found, self.url)
                schema.upgrade(connection)
                return schema.latest_revision()

    def _switch_to_wal(self, engine: sa.Engine) -> None:
        """Write the WAL mode into the file. SQLite does not wait for other connections here, so this does."""
        deadline = time.monotonic() + self._busy_timeout_s
        while True:
            connection = engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA journal_mode=WAL").close()
            except sqlite3.OperationalError as err:
                if "locked" not in str(err) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return
            finally:
                connection.close()


def _parse(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except exc.ArgumentError as err:
        raise InvalidInput(f"{url!r} is not a database URL: give e.g. sqlite:///plume.db.") from err
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise InvalidInput(f"{shown(parsed)}: {backend} is not supported; use sqlite or postgresql.")
    # The bare name means another driver in each SQLAlchemy; this package's extra installs psycopg 3.
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def _in_memory(url: sa.URL) -> bool:
    return url.database in (None, "", ":memory:") or url.query.get("mode") == "memory"


def _configure_sqlite(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver must not begin transactions: `_begin_sqlite` does
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    is_write = connection.get_execution_options().get("plume_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")
