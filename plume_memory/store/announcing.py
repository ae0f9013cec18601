"""Tells the processes of one PostgreSQL database that a text was erased, and hears which have let go of it.

Nothing that is right depends on it: every read asks the log for the newest erasure first. It is for what a process that
is asked nothing would otherwise keep in memory. A database of SQLite has nobody to tell.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import sqlalchemy as sa

from plume_memory.errors import PlumeError, StoreUnavailable
from plume_memory.forks import Lock
from plume_memory.store.database import Database

_LOGGER = logging.getLogger(__name__)
LISTENER = "plume-listener"
"""Begins the application name of a connection that listens: who announces counts them by it. What the process answers
with may follow (peers.py)."""
_BEGINNING = "plume-beginning"
_ERASED, _FORGOTTEN = "plume_erased", "plume_forgotten"
PATIENCE_S = 2.0
"""Longest wait for those who listen."""
_TICK_S = 0.5
_AGAIN_S = 1.0
TOLD_S = 60.0
"""Longest that beginning to listen may take for who waits for it."""
_MOST_BYTES = 7000  # of PostgreSQL's 8000
_LISTENING = (
    f"SELECT pid FROM pg_stat_activity WHERE application_name LIKE '{LISTENER}%%' AND datname = current_database()"
)

Forget = Callable[[frozenset[str] | None], None]
"""Lets go of what is held of some memories, by their names in the log; None: of all."""


class Heard(NamedTuple):
    """Which listening processes said that they have let go."""

    confirmed: int
    silent: int


class Listener:
    """Hears of erasures in a thread of its own, and confirms each once `forget` has returned.

    Args:
        database: where the memories are.
        forget: called in the thread.
    """

    def __init__(self, database: Database, forget: Forget) -> None:
        self._database, self._forget = database, forget
        self._process = 0
        self._beginning = Lock()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._kind = ""
        self._is_told = threading.Event()

    def begin(self) -> None:
        """Listen from now on; a forked child begins anew. Of SQLite nothing is begun."""
        with self._beginning:
            if self._process == os.getpid() or not self._database.is_shared or self._is_closed.is_set():
                return
            self._process = os.getpid()
            self._thread = threading.Thread(target=self._run, name=LISTENER, daemon=True)
            self._thread.start()

    def tell(self, kind: str) -> None:
        """Have the name of the connection say what this process answers with, from now on; return once it does.

        Raises:
            StoreUnavailable: it does not after `TOLD_S`.
        """
        if kind != self._kind:
            self._is_told.clear()
            self._kind = kind
        self.begin()
        if not self._is_told.wait(TOLD_S):
            raise StoreUnavailable(f"{self._database.url} could not be listened to within {TOLD_S:g} s; see the log.")

    def close(self) -> None:
        """Stop listening. Twice is allowed."""
        self._is_closed.set()
        if self._thread is not None and self._process == os.getpid():
            self._thread.join()

    def _run(self) -> None:
        import psycopg  # noqa: PLC0415 — an extra

        while not self._is_closed.is_set():
            try:
                self._listen()
            except (psycopg.Error, PlumeError) as err:
                if not self._is_closed.is_set():
                    _LOGGER.warning("No erasure is heard of until the database answers again: %s", err)
            self._is_closed.wait(_AGAIN_S)

    def _listen(self) -> None:
        with self._database.apart(_BEGINNING) as connection:
            connection.exec_driver_sql(f"LISTEN {_ERASED}")
            named = self._name(connection)  # only now: who has the name is waited for, and hears
            driver: Any = connection.connection.dbapi_connection
            own = driver.info.backend_pid
            self._forget(None)  # what was announced before was not heard
            while not self._is_closed.is_set():
                if named != self._kind:
                    named = self._name(connection)
                for heard in list(driver.notifies(timeout=_TICK_S, stop_after=1)):  # it holds the connection
                    try:
                        number, names = _told(heard.payload)
                    except (ValueError, KeyError, TypeError):
                        _LOGGER.warning("What was said on %s is no erasure: %.200r", _ERASED, heard.payload)
                        continue
                    self._forget(names)
                    driver.execute("SELECT pg_notify(%s, %s)", [_FORGOTTEN, f"{number}:{own}"])

    def _name(self, connection: sa.Connection) -> str:
        kind = self._kind
        name = f"{LISTENER} {kind}".strip()
        connection.exec_driver_sql("SELECT set_config('application_name', %s, false)", (name,))
        if kind:
            self._is_told.set()
        return kind


def _told(payload: str) -> tuple[str, frozenset[str] | None]:
    told = json.loads(payload)
    return told["id"], None if told["names"] is None else frozenset(told["names"])


def announce(database: Database, names: set[str]) -> Heard:
    """Say that something was erased from some memories, and wait a little for those who listen.

    Raises:
        StoreUnavailable: nobody could be told; the erasure itself is in the log.
    """
    if not database.is_shared:
        return Heard(0, 0)
    import psycopg  # noqa: PLC0415 — an extra

    with database.apart("plume-erasing") as connection:
        connection.exec_driver_sql(f"LISTEN {_FORGOTTEN}")
        driver: Any = connection.connection.dbapi_connection
        number = f"{driver.info.backend_pid}-{time.monotonic_ns()}"
        waited_for = {row[0] for row in connection.exec_driver_sql(_LISTENING)}
        told = json.dumps({"id": number, "names": sorted(names)})
        if len(told.encode()) > _MOST_BYTES:
            told = json.dumps({"id": number, "names": None})
        connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (_ERASED, told))
        silent, deadline = set(waited_for), time.monotonic() + PATIENCE_S
        with suppress(psycopg.Error):  # the line is cut: those that are left are not heard
            while silent and time.monotonic() < deadline:
                for heard in driver.notifies(timeout=_TICK_S, stop_after=1):
                    announced, _, pid = heard.payload.rpartition(":")
                    if announced == number:
                        silent.discard(int(pid))
        return Heard(len(waited_for) - len(silent), len(silent))
