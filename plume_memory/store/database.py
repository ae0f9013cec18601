"""Connections to one database: opened lazily, the schema checked once, errors in this package's words.

Knows the two databases (SQLite, PostgreSQL) and their locking; knows no memory and no version.

SQLite runs in WAL mode (readers never wait for the writer) with `synchronous=FULL`: a commit is fsynced
before it is acknowledged, so a version whose number a caller has seen survives a power cut. NORMAL would be
faster but may lose the last acknowledged commits. A writer takes the lock at BEGIN (IMMEDIATE): it never
reads a head that another writer then moves. Readers see one snapshot for the whole block on both databases.

PostgreSQL writers run at READ COMMITTED whatever the server's default: they lock the rows they depend on, and
must see what was committed while they waited for the lock. A connection that died while idle (the server was
restarted) is replaced unnoticed. One that dies in a transaction is an error that says what is known: nothing was
written (TransactionUndone), or that is not known (CommitUnknown).
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from plume_memory.defaults import CONNECTIONS
from plume_memory.errors import CommitUnknown, InvalidInput, MemoryClosed, StoreUnavailable, TransactionUndone
from plume_memory.forks import ForkGate, Lock
from plume_memory.store import schema
from plume_memory.store.failures import commit_mapped, driver_needed, mapped, shown, shown_text
from plume_memory.store.paths import absolute, database_file, is_in_memory

_Result = TypeVar("_Result")
_SQLITE = ForkGate()
_DRIVERS = {"sqlite": ("sqlite", "sqlite+pysqlite"), "postgresql": ("postgresql", "postgresql+psycopg")}
_MIGRATION_LOCK = 0x706C756D65  # "plume": the advisory lock a PostgreSQL session holds while it migrates
_ATTEMPTS = 5  # at a transaction that the database takes back
_CLAIM = "plume-claim"
_LOCK_NOT_AVAILABLE = "55P03"
_PAUSE_S = 0.02  # after the first attempt; doubles with each
_RECONNECT_S = 5.0  # a server that answered before is waited for: it is restarting
# A peer that vanished without a word (a cable, a host) is noticed within a minute instead of the system's hours.
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


class Database:
    """One database, shared by threads; a forked child makes connections of its own.

    Args:
        url: SQLAlchemy URL: `sqlite:///file.db`, `sqlite://` (in memory), `postgresql://…`.
        busy_timeout_s: Longest wait for another writer, for a free connection, or to be connected.
        statement_timeout_s: Longest that PostgreSQL may work on one statement. SQLite has no such limit: its
            statements run in this process.
        connections: To PostgreSQL, of this process at most; beside them half as many for claims, and one for each
            name that `apart` is asked for. They are opened when they are needed, and half of them stay open.

    Raises:
        InvalidInput: If the URL cannot be parsed or names another database or driver, a timeout is not more than
            0, or there are fewer than 2 connections. Nothing is opened yet.
    """

    def __init__(
        self,
        url: str,
        *,
        busy_timeout_s: float = 30.0,
        statement_timeout_s: float = 60.0,
        connections: int = CONNECTIONS,
    ) -> None:
        self._url = _parse(url)
        if connections < 2:
            raise InvalidInput(f"One connection is for a writer and one for readers: at least 2, got {connections}.")
        self._connections = connections
        self._busy_timeout_s = _positive("busy_timeout_s", busy_timeout_s)
        self._statement_timeout_s = _positive("statement_timeout_s", statement_timeout_s)
        self._engine: sa.Engine | None = None
        self._process = 0
        self._is_checked = False
        self._is_closed = False
        self._opening = Lock()
        self._writing = self._new_turns()
        self._apart: dict[str, threading.Semaphore] = {}

    @property
    def url(self) -> str:
        """The URL without its password."""
        return shown(self._url)

    @property
    def file(self) -> Path | None:
        """The SQLite file; None for a database in memory or a server's."""
        return database_file(self._url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Yield a connection on one snapshot of the database."""
        with mapped(self._url), self._used(), self._connected() as connection:
            if not self._is_sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Yield a connection in one write transaction: committed at the end, rolled back on any error.

        A violated constraint passes through as `sqlalchemy.exc.IntegrityError`, for the caller to name.

        Raises:
            TransactionUndone: If the database took the transaction back, or the connection was lost before the
                commit. Nothing was written.
            CommitUnknown: If the connection was lost during the commit.
        """
        with mapped(self._url, writes=True):
            self._check()
            with self._turn(), self._used(), self._connected() as connection:
                connection.execution_options(plume_write=True)
                with connection.begin() as transaction:
                    yield connection
                    if transaction.is_active:  # the block has not rolled it back itself
                        with commit_mapped(self._url):
                            transaction.commit()

    def transact(self, work: Callable[[sa.Connection], _Result], *, repeatable: bool = False) -> _Result:
        """Run `work` in a write transaction and return its result; again, a few times, if it was undone.

        Args:
            work: Does nothing but SQL on the connection it is given: it may be called more than once.
            repeatable: Whether two runs that are both committed write once, so that it may also run again when
                the answer to a commit was lost.

        Raises:
            TransactionUndone: If every attempt was undone.
            CommitUnknown: If the connection was lost during a commit, and the work is not repeatable or it was
                the last attempt.
        """
        attempt = 1
        while True:
            try:
                with self.write() as connection:
                    return work(connection)
            except (TransactionUndone, CommitUnknown) as err:
                if attempt == _ATTEMPTS or (isinstance(err, CommitUnknown) and not repeatable):
                    raise
            time.sleep(_PAUSE_S * 2 ** (attempt - 1))
            attempt += 1

    @property
    def is_shared(self) -> bool:
        """Whether processes on several machines can use it: PostgreSQL."""
        return not self._is_sqlite

    @contextmanager
    def apart(self, name: str) -> Iterator[sa.Connection]:
        """Yield a connection of PostgreSQL beside the pool: each statement is a transaction, and locks outlive it.

        This process has one of a name at a time, and others wait for it as for one of the pool.

        Args:
            name: what the server's list of sessions calls it.

        Raises:
            StoreUnavailable: the one before was not over within the busy timeout.
        """
        turns = self._turns_beside(name, 1)
        if not turns.acquire(timeout=self._busy_timeout_s):
            raise StoreUnavailable(f"{self.url} is busy: another thread has its {name} for too long; try again.")
        try:
            with self._beside(name) as connection:
                yield connection
        finally:
            turns.release()

    def _turns_beside(self, name: str, most: int) -> threading.Semaphore:
        self._made()  # in a forked child they begin anew
        with self._opening:
            return self._apart.setdefault(name, threading.Semaphore(most))

    @contextmanager
    def _beside(self, name: str) -> Iterator[sa.Connection]:
        with mapped(self._url), self._connected() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.detach()  # it is closed at the end, and is none of the pool's
            connection.exec_driver_sql("SELECT set_config('application_name', %s, false)", (name,))
            yield connection

    @contextmanager
    def claimed(self, what: str) -> Iterator[None]:
        """Hold a claim that one process at a time has, and wait for the one that has it; its death ends the claim.

        For work that need not be done twice and may be: who has waited for the busy timeout goes on without. SQLite's
        processes do not wait for each other. Half as many claims as connections are held or waited for at a time.
        """
        if self._is_sqlite:
            yield
            return
        turns = self._turns_beside(_CLAIM, self._connections // 2)
        if not turns.acquire(timeout=self._busy_timeout_s):
            yield
            return
        try:
            with self._claim(what):
                yield
        finally:
            turns.release()

    @contextmanager
    def _claim(self, what: str) -> Iterator[None]:
        with self._beside(_CLAIM) as connection:
            connection.exec_driver_sql("SET statement_timeout = 0")  # lock_timeout is what ends the wait
            try:
                connection.exec_driver_sql("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (what,))
            except exc.OperationalError as err:
                if getattr(err.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                    raise
            yield

    @contextmanager
    def sqlite(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection of the driver's own, for what only SQLite can do.

        Raises:
            InvalidInput: If it is another database.
        """
        if not self._is_sqlite:
            raise InvalidInput(f"{self.url} is no SQLite database: use the tools of its server, e.g. pg_dump.")
        with mapped(self._url), self._used():
            self._check()
            connection = self._made().raw_connection()
            try:
                yield cast(sqlite3.Connection, connection.driver_connection)
            finally:
                connection.close()

    def check(self) -> None:
        """Open the database and refuse a schema that is not this package's; an empty one gets the schema.

        Raises:
            SchemaError: the database belongs to another release, or to something else.
            StoreUnavailable: it cannot be opened.
        """
        with mapped(self._url):
            self._check()

    def revision(self) -> str | None:
        """Return the schema's revision, whatever it is; None for an empty database."""
        with mapped(self._url), self._used(), self._made().connect() as connection:
            return schema.revision_of(connection)

    def upgrade(self) -> str:
        """Run the missing migrations and return the revision reached.

        Raises:
            SchemaError: If the database belongs to something else or to a newer package.
        """
        with mapped(self._url), self._used():
            return self._migrate(self._made(), only_if_empty=False)

    def close(self) -> None:
        """Close every connection; later use raises MemoryClosed. Closing twice is allowed."""
        with self._used(), self._opening:
            self._is_closed = True
            if self._engine is not None:
                self._engine.dispose(close=self._process == os.getpid())
                self._engine = None

    @property
    def _is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    def _used(self) -> AbstractContextManager[None]:
        """Hold back forks while SQLite works; libpq has no lock that a fork could copy."""
        return _SQLITE.used() if self._is_sqlite else nullcontext()

    def _check(self) -> None:
        """Refuse a database whose schema is not this package's; an empty one gets the schema."""
        engine = self._made()
        if not self._is_checked:
            with self._used():
                with engine.connect() as connection:
                    revision = schema.revision_of(connection)
                if revision is None:
                    revision = self._migrate(engine, only_if_empty=True)
            schema.check_revision(revision, self.url)
            self._is_checked = True

    def _connected(self) -> sa.Connection:
        """Return a connection to the checked database, waiting for a server that is being restarted."""
        self._check()
        deadline = time.monotonic() + min(_RECONNECT_S, self._busy_timeout_s)
        while True:
            try:
                return self._made().connect()
            except exc.OperationalError:
                if self._is_sqlite or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_S)

    def _made(self) -> sa.Engine:
        """Return the engine, making it on first use and again in a forked child."""
        with self._opening:
            if self._is_closed:
                raise MemoryClosed(f"The database {self.url} was closed; open it again.")
            if self._engine is not None and self._process != os.getpid():
                # A fork inherits its parent's sockets and file locks: forget them without closing.
                self._engine.dispose(close=False)
                self._engine, self._writing, self._apart = None, self._new_turns(), {}
            if self._engine is None:
                with driver_needed(self._url):
                    self._engine = self._new_engine()
                self._process = os.getpid()
            return self._engine

    def _new_engine(self) -> sa.Engine:
        if not self._is_sqlite:
            return self._new_postgresql_engine()
        # A database in memory lives in its connection: one, handed from thread to thread.
        in_memory = is_in_memory(self._url)
        engine = sa.create_engine(
            self._opened_url(),
            connect_args={"timeout": self._busy_timeout_s, "check_same_thread": False},
            poolclass=QueuePool,
            pool_size=1 if in_memory else 8,
            max_overflow=0 if in_memory else 24,
            pool_timeout=self._busy_timeout_s,
        )
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _opened_url(self) -> sa.URL:
        """The URL to open: of a new file after making it, for its owner alone; of one that cannot be written, so.

        SQLite needs a file beside a WAL database even to read it, unless it is told that nobody writes: true of a
        file in a folder that cannot be written, with no write-ahead log beside it.
        """
        file = self.file
        if file is None or str(self._url.database).startswith("file:"):
            return self._url
        with suppress(OSError):  # it is there; or SQLite says what hinders it
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        if not file.exists() or os.access(file.parent, os.W_OK) or Path(f"{file}-wal").exists():
            return self._url
        query = {"mode": "ro", "immutable": "1", "uri": "true"}
        return self._url.set(database=f"file:{quote(str(file))}").update_query_dict(query)

    def _new_postgresql_engine(self) -> sa.Engine:
        limits = {"lock_timeout": self._busy_timeout_s, "statement_timeout": self._statement_timeout_s}
        settings = [f"-c {name}={max(1, round(1000 * seconds))}" for name, seconds in limits.items()]
        given = self._url.query.get("options", ())  # the user's own come last: they win
        options = " ".join([*settings, *([given] if isinstance(given, str) else given)])
        # libpq's limit is in whole seconds, and 2 is its least.
        network = {**_KEEPALIVES, "connect_timeout": max(2, round(self._busy_timeout_s))}
        arguments: dict[str, Any] = {name: value for name, value in network.items() if name not in self._url.query}
        engine = sa.create_engine(
            self._url,
            connect_args={**arguments, "options": options},
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            pool_size=self._connections // 2,
            max_overflow=self._connections - self._connections // 2,
            pool_timeout=self._busy_timeout_s,
        )
        event.listen(engine, "checkout", _leave_writing_to_the_server)
        return engine

    def _new_turns(self) -> threading.Semaphore:
        # SQLite's busy handler polls and is not fair: the threads of one process queue here instead.
        return threading.Semaphore(1 if self._is_sqlite else self._connections // 2)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for this process's other writers."""
        turns = self._writing
        if not turns.acquire(timeout=self._busy_timeout_s):
            raise StoreUnavailable(f"{self.url} is busy: another thread has been writing for too long; try again.")
        try:
            yield
        finally:
            turns.release()

    def _migrate(self, engine: sa.Engine, *, only_if_empty: bool) -> str:
        """Migrate under a lock every process respects; another may have done it while this one waited."""
        in_file = self._is_sqlite and not is_in_memory(self._url)
        if in_file:
            self._switch_to_wal(engine)
        with self._turn(), engine.connect() as connection:
            connection.execution_options(plume_write=True)
            with connection.begin():
                if not self._is_sqlite:
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
                    connection.execute(sa.text("SET LOCAL statement_timeout = 0"))  # a big table takes its time
                found = schema.revision_of(connection)
                if found is not None:
                    if only_if_empty:
                        return found
                    schema.check_revision_is_known(found, self.url)
                schema.upgrade(connection)
        if in_file:  # into the file itself: a plain copy of it is then a database, if without the newest versions
            with engine.connect() as connection:
                connection.connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").close()
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
        raise InvalidInput(f"{shown_text(url)} is not a database URL: give e.g. sqlite:///plume.db.") from err
    backend = parsed.get_backend_name()
    if backend not in _DRIVERS:
        raise InvalidInput(f"{shown(parsed)}: {backend} is not supported; use sqlite or postgresql.")
    if parsed.drivername not in _DRIVERS[backend]:
        raise InvalidInput(f"{shown(parsed)}: {parsed.drivername} is not supported; write {backend}:// alone.")
    # The bare name means another driver in each SQLAlchemy; this package's extra installs psycopg 3.
    parsed = parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed
    return absolute(parsed)  # now: the working folder may be another when it is first used


def _positive(name: str, seconds: float) -> float:
    if not 0 < seconds < float("inf"):
        raise InvalidInput(f"{name} must be a number of seconds more than 0, got {seconds!r}.")
    return seconds


def _leave_writing_to_the_server(connection: DBAPIConnection, entry: ConnectionPoolEntry, proxy: object) -> None:
    """Undo what SQLAlchemy does after a read-only use: it demands READ WRITE, even of a server set to read-only."""
    connection.read_only = None


def _configure_sqlite(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver must not begin transactions: `_begin_sqlite` does
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    is_write = connection.get_execution_options().get("plume_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")
