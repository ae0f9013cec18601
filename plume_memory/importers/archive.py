"""Imports an archive that `ParametricMemory.export_archive` wrote: the same history, hashes and times."""

from pathlib import Path

from plume_memory.defaults import DEFAULT_URL
from plume_memory.records import ArchiveContents
from plume_memory.store.archive_reading import read_archive
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.paths import default_artifacts


def import_archive(
    path: str | Path,
    *,
    url: str = DEFAULT_URL,
    memory: str | None = None,
    with_artifacts: bool = False,
    artifacts: str | None = None,
) -> ArchiveContents:
    """Read an archive into a new memory, of any database: all of it, or nothing.

    Args:
        path: the archive.
        url: SQLAlchemy URL of the database, made when it does not exist.
        memory: name of the new memory; by default that in the archive.
        with_artifacts: take what was derived along, for every memory of the database. Only the log can be verified,
            so ask for it only if you trust who made the archive; otherwise everything is derived anew.
        artifacts: folder or fsspec URL for derived bytes; beside the database when not given.

    Raises:
        ArchiveError: it is no archive, damaged, of an unknown format, does not verify, or holds a text that was
            erased in this database. Nothing was written.
        MemoryExists: there is a memory of that name.
        InvalidInput: the file cannot be opened, or a bad name or URL.
        StoreUnavailable: the database cannot be written. Nothing was.
    """
    store = ArtifactStore(artifacts or default_artifacts(url)) if with_artifacts else None
    with Database(url) as database:
        return read_archive(database, Path(path).expanduser(), name=memory, artifacts=store)
