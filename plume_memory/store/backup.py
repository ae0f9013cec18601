"""Copies a SQLite database to a file while it is in use. Knows no table."""

import sqlite3
from contextlib import closing
from pathlib import Path

from plume_memory.errors import InvalidInput, StoreUnavailable
from plume_memory.store.database import Database
from plume_memory.store.replacing import replacing


def write_backup(database: Database, path: Path) -> int:
    """Write the whole database to one file, as it is at one moment, by SQLite's own backup; returns its bytes.

    Readers and writers go on meanwhile. A copy of the file alone may lack what is in its write-ahead log. An older
    file of that name is replaced whole; only its owner may read the new one. Artifacts are not in it: the log
    rebuilds them.

    Raises:
        InvalidInput: The database is not SQLite's, the file is the database's own, or cannot be written.
        StoreUnavailable: The database cannot be read.
    """
    path = path.expanduser().absolute()
    if database.file is not None and path.exists() and path.samefile(database.file):
        raise InvalidInput(f"{path} is the database itself; give another file for its backup.")
    try:
        with database.sqlite() as source, replacing(path) as temporary, closing(sqlite3.connect(temporary)) as to:
            source.backup(to)
    except OSError as err:
        raise InvalidInput(f"The backup cannot be written to {path}: {err}.") from err
    except sqlite3.Error as err:
        raise StoreUnavailable(f"{database.url} cannot be copied to {path}: {err}.") from err
    return path.stat().st_size
