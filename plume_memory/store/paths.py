"""Where a memory's files are: which file a URL names, and where what is derived goes when nobody says."""

import os
import uuid
from pathlib import Path
from urllib.parse import quote, unquote

import sqlalchemy as sa
from sqlalchemy import exc

IN_MEMORY = "memory://plume/"
"""Where what is derived from databases in memory goes, each in a folder of its own (`ArtifactStore.close`)."""


def database_file(url: str | sa.URL) -> Path | None:
    """The file that a URL names, absolute and with `~` expanded; None where it names no file of SQLite's."""
    try:
        parsed = sa.make_url(url)
    except exc.ArgumentError:
        return None
    if parsed.get_backend_name() != "sqlite" or is_in_memory(parsed):
        return None
    path = parsed.database or ""
    if path.startswith("file:"):  # SQLite's own URI: file:relative, file:/absolute or file://host/absolute
        path = unquote(path.removeprefix("file:"))
        path = f"/{path[2:].partition('/')[2].lstrip('/')}" if path.startswith("//") else path
    return Path(path).expanduser().absolute()


def is_in_memory(url: sa.URL) -> bool:
    """Whether a URL of SQLite's names a database that goes with its connection."""
    return url.database in (None, "", ":memory:", "file::memory:") or url.query.get("mode") == "memory"


def absolute(url: sa.URL) -> sa.URL:
    """The same database, whatever the working folder is later; a URL that names no file of SQLite's as it is."""
    file = database_file(url)
    if file is None:
        return url
    as_uri = (url.database or "").startswith("file:")
    return url.set(database=f"file:{quote(str(file))}" if as_uri else str(file))


def is_missing_file(url: str) -> bool:
    """Whether the URL names a SQLite file that does not exist: a read must not leave one behind."""
    file = database_file(url)
    return file is not None and not file.exists()


def default_artifacts(url: str) -> str:
    """What the variable PLUME_ARTIFACTS names, else a folder beside a SQLite file, else one where this process runs.

    What is derived from a database in memory stays in memory, whatever is named.

    Absolute: an erasure's certificate names it as the only place that was searched, wherever it is read.
    """
    file = database_file(url)
    if file is None and url.startswith("sqlite"):
        return f"{IN_MEMORY}{uuid.uuid4().hex}"
    named = os.environ.get("PLUME_ARTIFACTS")
    if named:
        return named if "://" in named else str(Path(named).expanduser().absolute())
    return f"{file}.artifacts" if file is not None else str(Path("plume.artifacts").absolute())
