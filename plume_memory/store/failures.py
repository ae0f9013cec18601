"""Turns a database's own errors into this package's. Knows the two drivers' words, no table."""

import errno
import os
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.errors import CommitUnknown, MissingExtra, StoreUnavailable, TransactionUndone
from plume_memory.store.paths import database_file

# SQLSTATE: serialization failure, deadlock. The server chose a victim and rolled it back; a repetition may pass.
_UNDONE = ("40001", "40P01")
# What PostgreSQL's codes mean to the caller; its words come in the server's language. {} is what a write left behind.
_POSTGRESQL_ADVICE = {
    "55P03": "is locked by another writer, longer than the busy timeout: try again",
    "57014": "cancelled a statement that ran longer than the statement timeout, or that an administrator stopped: "
    "{}allow it more time (statement_timeout_s) or try again",
    "25006": "is read-only, perhaps a standby or still in recovery: {}give one that may be written to, or wait",
    "53100": "has no room left on its disk: {}make room and try again",
    "53300": "admits no further connection: close others, or raise its max_connections",
    "42501": "denies the user of this URL what was asked: grant it, or give another user",
}

_NOT_YET = ("the database system is ", "Hot standby mode is disabled", "Consistent recovery state")
"""Of 57P03, which the driver gives no code of, in the server's first language."""

_NO_SECRETS = frozenset(
    (
        *("mode", "cache", "uri", "immutable", "timeout", "host", "hostaddr", "port", "user", "dbname"),
        *("sslmode", "sslrootcert", "sslcert", "channel_binding", "gssencmode", "connect_timeout"),
        *("application_name", "target_session_attrs", "options"),
    )
)
"""Parameters of a URL that are shown: of any other nobody here knows that it is none."""


@contextmanager
def mapped(url: sa.URL, *, writes: bool = False) -> Iterator[None]:
    """Raise this package's errors for the database's.

    A violated constraint passes through as `sqlalchemy.exc.IntegrityError`: only the caller knows its
    meaning.

    Args:
        url: of the database.
        writes: whether it is a transaction that writes; only then can it be said that nothing was written.
    """
    undone = "nothing was written; " if writes else ""
    try:
        yield
    except exc.IntegrityError:
        raise
    except exc.TimeoutError as err:
        raise StoreUnavailable(f"{shown(url)}: every connection is in use: {err}") from err
    except exc.DBAPIError as err:
        raise _named(url, err, undone) from err
    except sqlite3.Error as err:  # from a connection's first pragmas, which SQLAlchemy does not wrap
        raise StoreUnavailable(_sqlite_message(url, str(err), undone)) from err
    except exc.SQLAlchemyError as err:
        raise StoreUnavailable(f"{shown(url)}: {err}") from err


@contextmanager
def commit_mapped(url: sa.URL) -> Iterator[None]:
    """Say of a commit whose answer was lost that nobody knows whether it was written."""
    try:
        yield
    except exc.DBAPIError as err:
        if not err.connection_invalidated:
            raise  # the server answered: nothing was written
        raise CommitUnknown(
            f"The connection to {shown(url)} was lost while a commit was under way ({_said(err)}): it may have been "
            "written or not. Look whether it is there before you repeat it, or repeat it with the idempotency key it "
            "had: that writes it once."
        ) from err


@contextmanager
def driver_needed(url: sa.URL) -> Iterator[None]:
    """Name the extra to install when the database's driver is missing."""
    try:
        yield
    except ModuleNotFoundError as err:
        raise MissingExtra(f"{shown(url)} needs the package {err.name}: pip install 'plume-memory[postgres]'.") from err


def shown(url: sa.URL) -> str:
    """Return the URL as a user writes it, without its password and what else of its parameters may be a secret."""
    url = url.update_query_dict({name: "***" for name in url.query if name not in _NO_SECRETS})
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def shown_text(url: str) -> str:
    """`shown`, of a URL that may be none: then nothing of it is shown that could be a secret."""
    try:
        return shown(sa.make_url(url))
    except exc.ArgumentError:
        return repr(url) if "@" not in url and "=" not in url else "what was given"


def _named(url: sa.URL, err: exc.DBAPIError, undone: str) -> StoreUnavailable:
    if url.get_backend_name() == "sqlite":
        return StoreUnavailable(_sqlite_message(url, str(err.orig), undone))
    name, found = shown(url), _said(err)
    state = getattr(err.orig, "sqlstate", None)
    if state in _UNDONE:
        return TransactionUndone(f"{name} undid the transaction for another's sake ({found}): it may be repeated.")
    if err.connection_invalidated:
        return TransactionUndone(
            f"The connection to {name} was lost before a commit ({found}): {undone}it may be repeated."
        )
    if state in _POSTGRESQL_ADVICE:
        return StoreUnavailable(f"{name} {_POSTGRESQL_ADVICE[state].format(undone)} ({found}).")
    if state is None and any(words in found for words in _NOT_YET):
        return StoreUnavailable(
            f"{name} takes no connections: it starts, ends, or is in recovery ({found}): wait, or give its primary."
        )
    if state is None:  # the driver's own: there was no server to give a code
        return StoreUnavailable(f"{name} cannot be reached ({found}): check the URL, and that the server runs.")
    return StoreUnavailable(f"{name}: {found}")


OUT_OF_FILES = "this process has as many files open as it may; close some, or allow more (ulimit -n)."


def out_of_files() -> bool:
    """Whether no further file can be opened: SQLite says no more than that it could not open its own."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as err:
        return err.errno in (errno.EMFILE, errno.ENFILE)
    return False


def _said(err: exc.DBAPIError) -> str:
    """Return the database's words on one line."""
    return " ".join(str(err.orig).split())


def _sqlite_message(url: sa.URL, found: str, undone: str) -> str:
    """Say what was found and what to do."""
    name = shown(url)
    if "not a database" in found:
        return f"{name} is not a SQLite database: give another path, or restore the file from a copy."
    if "malformed" in found:
        return f"{name} is damaged or cut short ({found}): restore the file from a copy."
    if "unable to open" in found:
        if out_of_files():
            return f"{name} cannot be opened: {OUT_OF_FILES}"
        folder = (database_file(url) or Path()).parent
        if not folder.is_dir():
            made = f"mkdir -p {shlex.quote(str(folder))}"
            return f"{name} cannot be opened: the folder {folder} does not exist; create it first: {made}"
        if Path(f"{database_file(url)}-wal").exists() and not os.access(folder, os.W_OK):
            return (
                f"{name} cannot be opened in a read-only folder: its newest versions are in {url.database}-wal. "
                "Open it once where it may be written, or copy both files to such a place."
            )
        return f"{name} cannot be opened ({found}): check that it is a file you may read and write."
    if "readonly" in found or "read-only" in found:
        return f"{name} is read-only ({found}): give a place you may write to."
    if "full" in found:
        return f"{name} has no room left on its disk ({found}): {undone}make room and try again."
    if "locked" in found or "busy" in found:
        return f"{name} is locked by another writer, longer than the busy timeout: try again."
    return f"{name}: {found}"
