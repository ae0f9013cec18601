"""Turns a database's own errors into this package's. Knows the two drivers' words, no table."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.errors import MissingExtra, StoreUnavailable


@contextmanager
def mapped(url: sa.URL) -> Iterator[None]:
    """Raise this package's errors for the database's.

    A violated constraint passes through as `sqlalchemy.exc.IntegrityError`: only the caller knows its
    meaning.
    """
    try:
        yield
    except exc.IntegrityError:
        raise
    except exc.TimeoutError as err:
        raise StoreUnavailable(f"{shown(url)}: every connection is in use: {err}") from err
    except exc.DBAPIError as err:
        raise StoreUnavailable(_message(url, str(err.orig))) from err
    except sqlite3.Error as err:  # from a connection's first pragmas, which SQLAlchemy does not wrap
        raise StoreUnavailable(_message(url, str(err))) from err
    except exc.SQLAlchemyError as err:
        raise StoreUnavailable(f"{shown(url)}: {err}") from err


@contextmanager
def driver_needed(url: sa.URL) -> Iterator[None]:
    """Name the extra to install when the database's driver is missing."""
    try:
        yield
    except ModuleNotFoundError as err:
        raise MissingExtra(f"{shown(url)} needs the package {err.name}: pip install 'plume-memory[postgres]'.") from err


def shown(url: sa.URL) -> str:
    """Return the URL without its password."""
    return url.render_as_string(hide_password=True)


def _message(url: sa.URL, found: str) -> str:
    """Say what was found and what to do."""
    name = shown(url)
    if "not a database" in found:
        return f"{name} is not a SQLite database: give another path, or restore the file from a copy."
    if "malformed" in found:
        return f"{name} is damaged or cut short ({found}): restore the file from a copy."
    if "unable to open" in found:
        folder = Path(url.database or ".").parent
        if not folder.is_dir():
            return f"{name} cannot be opened: the folder {folder} does not exist; create it first."
        return f"{name} cannot be opened ({found}): check that it is a file you may read and write."
    if "readonly" in found or "read-only" in found:
        return f"{name} is read-only ({found}): give a place you may write to."
    if "locked" in found or "busy" in found:
        return f"{name} is locked by another writer, longer than the busy timeout: try again."
    return f"{name}: {found}"
