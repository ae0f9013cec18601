"""Reads an archive (archive_format.py) into a new memory. Trusts nothing in it: any file at all is read or refused.

Every member is hashed against the manifest, every line is checked for its form, and the chain is verified by the
same code as `verify`, inside the transaction that writes it: a memory appears whole, or not at all. Members are
stored, never unpacked or written under a name of their own, so there is nothing to blow up and nowhere to escape to.

What was erased in the database does not come back through an older archive: such a file is refused.
"""

import hashlib
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from json import JSONDecodeError
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import exc

from plume_memory.errors import ArchiveError, IntegrityError, InvalidInput, MemoryExists
from plume_memory.records import ArchiveContents
from plume_memory.store.archive_format import ARTIFACTS, DERIVATIONS, FORMAT, LOG, MANIFEST
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.chain import canonical_json, sha256_of, written_time
from plume_memory.store.checks import MAX_NUMBER, check_name, check_text
from plume_memory.store.copies import lock_copies
from plume_memory.store.database import Database
from plume_memory.store.derivations import Derivations
from plume_memory.store.json_values import MAX_DEPTH, read_json
from plume_memory.store.log import Log
from plume_memory.store.memories import Listing, Origin, find_memory, insert_memory
from plume_memory.store.sources import Sources
from plume_memory.store.tables import IS_ERASURE, VersionRow
from plume_memory.store.verifying import verify_rows

_ROWS_PER_INSERT = 500
_CHUNK = 1 << 20
_PLAIN_FLAGS = 0x0808  # sizes behind the bytes, names in UTF-8; every other flag is a kind of encryption or patch
_MAX_MANIFEST = 64 << 20  # bytes: a line per artifact; the other members are read piece by piece
_Parsed = TypeVar("_Parsed", bound=BaseModel)
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Number = Annotated[int, Field(ge=0, le=MAX_NUMBER)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Origin(_Strict):
    memory: str
    version: _Number


class _Memory(_Strict):
    name: str
    created_at: str
    head_number: _Number
    head_hash: _Sha256
    origin: _Origin | None


class _Member(_Strict):
    sha256: _Sha256
    size: _Number


class _Manifest(_Strict):
    format: int
    schema_revision: str = Field(alias="schema")
    memory: _Memory
    versions: _Number
    artifacts: _Number
    members: dict[str, _Member]


class _Line(_Strict):
    number: _Number
    kind: Literal["update", "rollback", "forget", "erase"]
    text: str
    text_sha256: _Sha256
    restores: _Number | None
    forgets: _Number | None
    span: Annotated[list[_Number], Field(min_length=2, max_length=2)] | None
    metadata: dict[str, Any]
    idempotency_key: str | None
    created_at: str
    parent_hash: _Sha256
    chain_hash: _Sha256
    erased_by: _Number | None


class _DerivationLine(_Strict):
    key: _Sha256
    kind: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00]*$")]
    sha256: _Sha256


def read_archive(
    database: Database,
    path: Path,
    *,
    name: str | None = None,
    artifacts: ArtifactStore | None = None,
    listing: Listing | None = None,
) -> ArchiveContents:
    """Read an archive into a new memory of the same history, hashes and times.

    Args:
        database: where it goes.
        path: the file.
        name: of the memory; by default that in the archive.
        artifacts: put what was derived here, for all memories to use. It cannot be verified without deriving it
            again, so ask for it only if you trust who made the archive; without it the log rebuilds everything.
        listing: see `insert_memory`.

    Raises:
        ArchiveError: If it is no archive, damaged, of an unknown format, does not verify, or holds a text that was
            erased in this database. Nothing was written.
        MemoryExists: If there is a memory of that name.
        InvalidInput: If the file cannot be opened, or the name cannot be one.
        StoreUnavailable: If the database cannot be written. Nothing was.
    """
    if name is not None:
        check_name(name)
    with _opened(path) as archive:
        manifest = _checked_manifest(archive, path)
        memory = name or manifest.memory.name
        derived = [] if artifacts is None else _derived(archive, path)
        try:
            check_name(memory)
            database.transact(lambda connection: _insert(connection, archive, path, manifest, memory, listing))
        except IntegrityError as err:
            raise ArchiveError(f"{path.name} does not verify: {err}") from err
        except exc.IntegrityError as err:
            raise ArchiveError(f"{path.name} holds what no log can: {err.orig}") from err
        written = 0 if artifacts is None else _put_artifacts(database, archive, derived, memory, artifacts)
    return ArchiveContents(memory, manifest.versions, manifest.memory.head_hash, written, 0)


def check_archive(path: Path) -> None:
    """Read all of an archive and write nothing.

    Raises:
        ArchiveError: As `read_archive`; whether the log verifies is not looked at.
        InvalidInput: If the file cannot be opened.
    """
    with _opened(path) as archive:
        manifest = _checked_manifest(archive, path)
        _moment(manifest.memory.created_at, f"{path.name}, {MANIFEST}")
        for where, line in _lines(archive, LOG, _Line, path):
            _row(line, where, {})
        _derived(archive, path)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open the file and refuse members that no archive has; whatever zipfile raises on a bad file is mapped."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            _check_members(archive, path)
            yield archive
    except OSError as err:
        raise InvalidInput(f"The archive {path} cannot be read: {err}.") from err
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError, OverflowError, struct.error) as err:
        if isinstance(err, InvalidInput):  # this package's, of a name
            raise
        raise ArchiveError(f"{path.name} is no archive of a memory, or damaged: {err}") from err


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    file_size = path.stat().st_size
    names = [info.filename for info in archive.infolist()]
    for info in archive.infolist():
        is_known = info.filename in (MANIFEST, LOG, DERIVATIONS) or (
            info.filename.startswith(ARTIFACTS) and _is_sha256(info.filename.removeprefix(ARTIFACTS))
        )
        if not is_known:
            raise ArchiveError(f"{path.name} has a member {info.filename[:80]!r}, which no archive has.")
        is_plain = info.compress_size == info.file_size and not info.flag_bits & ~_PLAIN_FLAGS
        if info.compress_type != zipfile.ZIP_STORED or not is_plain:
            raise ArchiveError(f"{path.name}: {info.filename} is compressed or encrypted, and an archive's is not.")
    if len(set(names)) != len(names):
        raise ArchiveError(f"{path.name} has two members of one name.")
    if sum(info.file_size for info in archive.infolist()) > file_size:
        raise ArchiveError(f"{path.name} says it holds more than its {file_size} bytes.")


def _checked_manifest(archive: zipfile.ZipFile, path: Path) -> _Manifest:
    """Read the manifest and hash every member against it."""
    infos = {info.filename: info for info in archive.infolist()}
    if MANIFEST not in infos:
        raise ArchiveError(f"{path.name} has no {MANIFEST}: it is no archive of a memory, or cut short.")
    if infos[MANIFEST].file_size > _MAX_MANIFEST:
        raise ArchiveError(f"{path.name}: {MANIFEST} has {infos[MANIFEST].file_size} bytes, more than any has.")
    content = archive.read(MANIFEST)
    _check_format(content, path)
    manifest = _parsed(_Manifest, content, f"{path.name}, {MANIFEST}")
    if set(manifest.members) != set(infos) - {MANIFEST} or LOG not in infos:
        raise ArchiveError(f"{path.name}: its members are not those that {MANIFEST} lists.")
    for name, member in manifest.members.items():
        sha256 = hashlib.sha256()
        with archive.open(name) as file:
            while chunk := file.read(_CHUNK):
                sha256.update(chunk)
        if (infos[name].file_size, sha256.hexdigest()) != (member.size, member.sha256):
            raise ArchiveError(f"{path.name}: {name} has sha256 {sha256.hexdigest()}, {MANIFEST} says {member.sha256}.")
        if name.startswith(ARTIFACTS) and name != f"{ARTIFACTS}{member.sha256}":
            raise ArchiveError(f"{path.name}: {name} has another sha256, {member.sha256}.")
    return manifest


class _AnyFormat(BaseModel):
    format: int


def _check_format(content: bytes, path: Path) -> None:
    """Say of a newer format that it is one, before its other fields are found unknown."""
    found = _parsed(_AnyFormat, content, f"{path.name}, {MANIFEST}").format
    if found != FORMAT:
        raise ArchiveError(
            f"{path.name} has format {found}, this package reads {FORMAT}: it was written by another plume-memory; "
            "upgrade the package, or export again with this one."
        )


def _insert(
    connection: sa.Connection,
    archive: zipfile.ZipFile,
    path: Path,
    manifest: _Manifest,
    name: str,
    listing: Listing | None,
) -> None:
    """Write the memory and every version, then verify them; the caller's transaction undoes it all on an error."""
    lock_copies(connection, exclusive=False)
    if find_memory(connection, name) is not None:
        raise MemoryExists(f"A memory named {name!r} exists already: import it under another name.")
    head, origin = manifest.memory, manifest.memory.origin
    try:
        with connection.begin_nested():
            new = insert_memory(
                connection,
                name,
                _moment(head.created_at, f"{path.name}, {MANIFEST}"),
                head_number=head.head_number,
                head_hash=head.head_hash,
                origin=None if origin is None else Origin(check_name(origin.memory), origin.version),
                listing=listing,
            )
    except exc.IntegrityError as err:  # PostgreSQL: another process was faster
        raise MemoryExists(f"A memory named {name!r} exists already: import it under another name.") from err
    erased = _erased_here(connection)
    rows: list[dict[str, Any]] = []
    previous: datetime | None = None
    for where, line in _lines(archive, LOG, _Line, path):
        row = _row(line, where, erased)
        if previous is not None and row["created_at"] < previous:
            raise ArchiveError(f"{where}: it is older than the version before.")
        previous = row["created_at"]
        rows.append({"memory_id": new.id, **row})
        if len(rows) == _ROWS_PER_INSERT:
            connection.execute(sa.insert(VersionRow), rows)
            rows = []
    if rows:
        connection.execute(sa.insert(VersionRow), rows)
    if verify_rows(connection, name, new.id, head.head_number, head.head_hash) != manifest.versions:
        raise ArchiveError(f"{path.name}: {MANIFEST} counts {manifest.versions} versions, it is at {head.head_number}.")


def _row(line: _Line, where: str, erased: dict[tuple[int, str], set[str]]) -> dict[str, Any]:
    """Check what the chain does not, and return the values of a row."""
    try:
        metadata_json = canonical_json(line.metadata)
        if line.idempotency_key is not None:
            check_name(line.idempotency_key, what="An idempotency key")
        if line.kind == "update" and line.erased_by is None:
            check_text(line.text)
        elif "\x00" in line.text:
            raise InvalidInput("its text holds a NUL.")
    except InvalidInput as err:
        raise ArchiveError(f"{where}: {err}") from err
    left = erased.get((line.number, line.chain_hash))
    if left is not None and line.text and sha256_of(line.text) not in left:
        raise ArchiveError(
            f"{where}: the text of this version was erased in this database, and an archive from before does not "
            "bring it back: import a later one."
        )
    found = line.model_dump(exclude={"span", "metadata", "created_at"})
    start, end = line.span or (None, None)
    moment = _moment(line.created_at, where)
    return {**found, "metadata_json": metadata_json, "created_at": moment, "span_start": start, "span_end": end}


def _erased_here(connection: sa.Connection) -> dict[tuple[int, str], set[str]]:
    """Return number and chain hash of every version erased in the database → sha256 of what its rows have left."""
    query = sa.select(VersionRow.number, VersionRow.chain_hash, VersionRow.text)
    pairs = connection.execute(sa.select(VersionRow.memory_id, VersionRow.forgets).where(IS_ERASURE).distinct()).all()
    found: dict[tuple[int, str], set[str]] = {}
    for memory_id, number in pairs:
        row = connection.execute(query.where(VersionRow.memory_id == memory_id, VersionRow.number == number)).first()
        if row is not None:
            found.setdefault((row.number, row.chain_hash), set()).add(sha256_of(row.text))
    return found


def _derived(archive: zipfile.ZipFile, path: Path) -> list[_DerivationLine]:
    """Read what the archive says was derived, all of it before anything is written."""
    names, found = set(archive.namelist()), []
    if DERIVATIONS not in names:
        return []
    for where, line in _lines(archive, DERIVATIONS, _DerivationLine, path):
        if f"{ARTIFACTS}{line.sha256}" not in names:
            raise ArchiveError(f"{where}: there is no artifact {line.sha256}.")
        found.append(line)
    return found


def _put_artifacts(
    database: Database, archive: zipfile.ZipFile, derived: list[_DerivationLine], memory: str, artifacts: ArtifactStore
) -> int:
    """Keep the artifacts for keys of which this memory has none; returns how many. The log is written: a cache."""
    sources = Sources(database, memory, last_erasure=Log(database).last_erasure(memory))
    derivations, written = Derivations(database), set[str]()
    for line in derived:
        if derivations.lookup(line.key, memory) is None and sources.note(line.key, line.sha256):
            content = archive.read(f"{ARTIFACTS}{line.sha256}")
            derivations.record(line.key, line.kind, artifacts.put(content), len(content))
            written.add(line.sha256)
    return len(written)


def _lines(archive: zipfile.ZipFile, member: str, kind: type[_Parsed], path: Path) -> Iterator[tuple[str, _Parsed]]:
    with archive.open(member) as file:
        for number, line in enumerate(file, start=1):
            where = f"{path.name}, {member}, line {number}"
            yield where, _parsed(kind, line, where)


def _parsed(kind: type[_Parsed], content: bytes, where: str) -> _Parsed:
    try:
        return kind.model_validate(read_json(content, depth=MAX_DEPTH + 1))  # a line's metadata is one of its fields
    except JSONDecodeError as err:
        raise ArchiveError(f"{where}: it is not JSON: {err.msg} at character {err.pos}.") from err
    except InvalidInput as err:
        raise ArchiveError(f"{where}: {err}") from err
    except ValidationError as err:
        first = err.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ArchiveError(f"{where}: {f'{place}: ' if place else ''}{first['msg']}.") from err


def _moment(written: str, where: str) -> datetime:
    try:
        moment = datetime.fromisoformat(written)
        if moment.tzinfo is not None and written_time(moment) == written:
            return moment
    except (ValueError, OverflowError):
        pass
    raise ArchiveError(f"{where}: created_at is {written[:40]!r}, not a time as the log writes it.")


def _is_sha256(text: str) -> bool:
    return len(text) == 64 and not set(text) - set("0123456789abcdef")
