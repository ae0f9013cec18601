"""Writes a whole memory as one file (archive_format.py says which bytes), and reads it again before it counts."""

import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from plume_memory.errors import ArchiveError, ArtifactError, InvalidInput
from plume_memory.records import ArchiveContents, Version
from plume_memory.store.archive_format import ARTIFACTS, DERIVATIONS, FORMAT, LOG, MANIFEST
from plume_memory.store.archive_reading import check_archive
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.chain import written_time
from plume_memory.store.checks import check_name
from plume_memory.store.database import Database
from plume_memory.store.json_values import write_json
from plume_memory.store.memories import FoundMemory, get_memory
from plume_memory.store.reading import VERSION_COLUMNS, to_version
from plume_memory.store.replacing import replacing
from plume_memory.store.schema import latest_revision
from plume_memory.store.tables import DerivationRow, MemoryRow, SourceRow, VersionRow
from plume_memory.store.verifying import verify_rows

_ROWS_PER_FETCH = 500
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_archive(
    database: Database, memory: str, path: Path, *, artifacts: ArtifactStore | None = None
) -> ArchiveContents:
    """Write one memory, as it stands in one snapshot, to a file; an older file of that name is replaced whole.

    Args:
        database: where it is.
        memory: its name.
        path: the file.
        artifacts: take what was derived along, from here.

    Raises:
        MemoryNotFound: If there is no such memory.
        IntegrityError: If its log does not verify: it is not exported.
        ArchiveError: If the file would be refused by an import: it is not kept, and an older one is.
        InvalidInput: If the file cannot be written.
    """
    check_name(memory)
    try:
        with replacing(path) as temporary, database.read() as connection:
            found = get_memory(connection, memory)
            verify_rows(connection, memory, found.id, found.head_number, found.head_hash)
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
                contents = _write(archive, connection, found, artifacts)
            _check_readable(temporary, path)
            return contents
    except OSError as err:
        raise InvalidInput(f"The archive cannot be written to {path}: {err}.") from err


def _check_readable(temporary: Path, path: Path) -> None:
    """Read what was written, as an import would: a log may hold what an older release let in."""
    try:
        check_archive(temporary)
    except ArchiveError as err:
        reason = str(err).replace(temporary.name, path.name)
        raise ArchiveError(
            f"No import would read the archive, so it was not written. {reason} Erase the version that it names "
            "(`plume forget VERSION --erase`), or copy the database file."
        ) from err


def version_line(version: Version) -> str:
    """Write a version as the log's line has it, without the line break."""
    fields = ("number", "kind", "text", "text_sha256", "restores", "forgets", "metadata", "idempotency_key")
    line: dict[str, Any] = {
        name: getattr(version, name) for name in (*fields, "parent_hash", "chain_hash", "erased_by")
    }
    line["created_at"] = written_time(version.created_at)
    line["span"] = None if version.span is None else [version.span.start, version.span.end]
    return write_json(line)


def _write(
    archive: zipfile.ZipFile, connection: sa.Connection, found: FoundMemory, artifacts: ArtifactStore | None
) -> ArchiveContents:
    members = {LOG: _member(archive, LOG, _log_lines(connection, found))}
    written, left_out = 0, 0
    if artifacts is not None:
        lines: list[bytes] = []
        for key, kind, sha256, size in _derivations(connection, found.id):
            name = f"{ARTIFACTS}{sha256}"
            if name not in members:
                try:
                    content = artifacts.get(sha256, size=size)
                except ArtifactError:  # a cache: what is not there is counted, and the log rebuilds it
                    left_out += 1
                    continue
                members[name] = _member(archive, name, [content])
                written += 1
            lines.append(write_json({"key": key, "kind": kind, "sha256": sha256}).encode() + b"\n")
        members[DERIVATIONS] = _member(archive, DERIVATIONS, lines)
    manifest = {
        "format": FORMAT,
        "schema": latest_revision(),
        "memory": _memory(connection, found),
        "versions": found.head_number,
        "artifacts": written,
        "members": members,
    }
    _member(archive, MANIFEST, [write_json(manifest).encode()])
    return ArchiveContents(found.name, found.head_number, found.head_hash, written, left_out)


def _member(archive: zipfile.ZipFile, name: str, parts: Iterable[bytes]) -> dict[str, Any]:
    """Write one member; returns its size and sha256."""
    info = zipfile.ZipInfo(name, _ZIP_EPOCH)
    info.create_system, info.external_attr = 3, 0o600 << 16  # the same on every system
    sha256, size = hashlib.sha256(), 0
    with archive.open(info, "w", force_zip64=True) as file:
        for part in parts:
            file.write(part)
            sha256.update(part)
            size += len(part)
    return {"sha256": sha256.hexdigest(), "size": size}


def _log_lines(connection: sa.Connection, found: FoundMemory) -> Iterator[bytes]:
    query = sa.select(*VERSION_COLUMNS).where(VersionRow.memory_id == found.id).order_by(VersionRow.number)
    with connection.execute(query.execution_options(yield_per=_ROWS_PER_FETCH)) as rows:
        for row in rows:
            yield version_line(to_version(found.name, row)).encode() + b"\n"


def _memory(connection: sa.Connection, found: FoundMemory) -> dict[str, Any]:
    created_at = connection.execute(sa.select(MemoryRow.created_at).where(MemoryRow.id == found.id)).scalar_one()
    origin = None if found.origin_name is None else {"memory": found.origin_name, "version": found.origin_version or 0}
    return {
        "name": found.name,
        "created_at": written_time(created_at),
        "head_number": found.head_number,
        "head_hash": found.head_hash,
        "origin": origin,
    }


def _derivations(connection: sa.Connection, memory_id: int) -> list[tuple[str, str, str, int]]:
    query = sa.select(DerivationRow.key, DerivationRow.kind, DerivationRow.sha256, DerivationRow.size)
    query = query.join(SourceRow, SourceRow.key == DerivationRow.key).where(SourceRow.memory_id == memory_id)
    rows = connection.execute(query.distinct().order_by(DerivationRow.key))
    return [(row.key, row.kind, row.sha256, row.size) for row in rows]
