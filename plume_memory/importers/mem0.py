"""Imports a mem0 export: each of its memories becomes an update, in the order they were last changed.

Reads what mem0's `Memory.get_all()` and `search()` return, written to a file as JSON: `{"results": [...]}`, a
bare list, or one memory per line (JSONL). Each is `{"id", "memory", "user_id", "created_at", "updated_at",
"metadata", …}`. Loads no model; knows no mem0.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from json import JSONDecodeError
from pathlib import Path
from typing import Any, NoReturn

from plume_memory.defaults import DEFAULT_URL
from plume_memory.errors import InvalidInput
from plume_memory.memory import ParametricMemory
from plume_memory.pool import MemoryPool
from plume_memory.records import Version
from plume_memory.store.chain import canonical_json, sha256_of
from plume_memory.store.checks import MAX_NAME, check_name, check_text
from plume_memory.store.entries import erased_keys

_LONGEST_ID = MAX_NAME // 2
"""An idempotency key holds the id, and a time or a hash."""
_UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something of the file that was not imported."""

    where: str
    """`line 3` of JSONL, `entry 3` of a list; counted from 1."""
    reason: str


@dataclass(frozen=True, slots=True)
class Mem0Import:
    """What an import did."""

    written: int
    """Updates appended."""
    unchanged: int
    """Entries that an earlier import, or an earlier line, had brought already, in this state or a later one; those that
    were erased since among them."""
    replaced: int
    """Older texts of an entry that the memory forgot for a newer one."""
    memories: tuple[str, ...]
    """Names of the memories the file speaks of, sorted."""
    left_out: tuple[LeftOut, ...]
    """In the order of the file."""


def import_mem0(path: str | Path, *, url: str = DEFAULT_URL, memory: str | None = None) -> Mem0Import:
    """Append a mem0 export to the memories of a database, oldest first; run twice, it writes nothing twice.

    The whole file is checked before anything is written. Its order is that of the entries' last changes
    (`updated_at`, else `created_at`); entries without a time come first, as they stand; times without a zone
    are UTC. An entry is known by its id and the time of its last change, without a time by its id and text:
    when mem0 has changed its text since an earlier import, the new one is appended and the older one then
    forgotten. What the memory has forgotten or erased since stays so. Not noticed: what mem0 deleted, and an entry
    without a time that returns to a text it had before. All fields but the text and the score are kept in the
    version's metadata, under "mem0". Factors are derived by the next answer.

    Args:
        path: The export, UTF-8.
        url: SQLAlchemy URL of the memories' database.
        memory: Name of the one memory for everything; by default one per `user_id`.

    Raises:
        InvalidInput: If the file cannot be read, is not JSON, an entry is malformed, or two of one id and one
            time have different texts: names the line, or the entry's number.
        IdempotencyConflict: If the memory has another text for an entry's id and time, or it was erased while it was
            imported; what was appended stays.
        StoreUnavailable: If the database cannot be written; what was appended stays, and a repeated
            import goes on from there.
    """
    if memory is not None:
        check_name(memory)
    entries: list[_Entry] = []
    left_out: list[LeftOut] = []
    for where, found in _entries(Path(path).expanduser()):
        checked = _checked(found, where, memory)
        if isinstance(checked, LeftOut):
            left_out.append(checked)
        else:
            entries.append(checked)
    _check_one_text_each(entries)
    entries.sort(key=lambda entry: entry.changed_at)  # stable: equal times stay as they stand
    counts = _Counts()
    names = sorted({entry.owner for entry in entries})
    with MemoryPool(url) as pool:
        for name in names:
            _append(pool.memory(name), [entry for entry in entries if entry.owner == name], counts)
    return Mem0Import(counts.written, counts.unchanged, counts.replaced, tuple(names), tuple(left_out))


@dataclass(frozen=True, slots=True)
class _Entry:
    where: str
    id: str
    owner: str
    text: str
    changed_at: datetime
    key: str
    """Idempotency key: the same for the same state of the same mem0 memory."""
    metadata: dict[str, Any]


@dataclass(slots=True)
class _Counts:
    written: int = 0
    unchanged: int = 0
    replaced: int = 0


def _append(memory: ParametricMemory, entries: list[_Entry], counts: _Counts) -> None:
    versions = memory.history()
    log, erased = {version.idempotency_key: version for version in versions}, erased_keys(versions)
    holds = {transition.version for transition in memory.text_at().transitions}
    held: dict[str | None, list[Version]] = {}
    for version in log.values():
        if version.number in holds:
            held.setdefault(_mem0_id(version), []).append(version)
    for entry in entries:
        known, states = log.get(entry.key), held.setdefault(entry.id, [])
        is_known = (known is not None and known.text == entry.text) or sha256_of(entry.key) in erased
        if is_known or (states and (states[-1].text == entry.text or entry.changed_at < _changed_at(states[-1]))):
            counts.unchanged += 1
        else:
            version = memory.update(entry.text, idempotency_key=entry.key, metadata=entry.metadata, derive=False)
            log[entry.key] = version
            states.append(version)
            counts.written += 1
        # Last, so that an import that stops in between leaves a text too many, never one too few: the next
        # import comes by here again.
        for older in states[:-1]:
            with suppress(InvalidInput):  # it no longer holds: another import was faster
                memory.forget(older.number, reason="changed in mem0")
                counts.replaced += 1
        del states[:-1]


def _check_one_text_each(entries: Iterable[_Entry]) -> None:
    """Refuse two texts for one state of an entry: nothing says which of them is the newer."""
    first: dict[tuple[str, str, datetime], _Entry] = {}
    for entry in entries:
        other = first.setdefault((entry.owner, entry.id, entry.changed_at), entry)
        if other.text != entry.text:
            raise InvalidInput(
                f"{entry.where}: {entry.id!r} has another text in {other.where}, and the same time: remove one of them."
            )


def _mem0_id(version: Version) -> str | None:
    own = version.metadata.get("mem0")
    return own.get("id") if isinstance(own, dict) else None


def _changed_at(version: Version) -> datetime:
    return _changed(version.metadata["mem0"], f"version {version.number}") or _UNKNOWN_TIME


def _checked(found: Any, where: str, memory: str | None) -> _Entry | LeftOut:
    if not isinstance(found, dict):
        raise InvalidInput(f"{where}: a memory is an object with id and memory; got {type(found).__name__}.")
    mem0_id, text, owner = found.get("id"), found.get("memory"), memory or found.get("user_id")
    if not isinstance(mem0_id, str) or not 0 < len(mem0_id) <= _LONGEST_ID:
        raise InvalidInput(f"{where}: `id` must be a text of 1 to {_LONGEST_ID} characters; got {mem0_id!r}.")
    if not isinstance(text, str):
        raise InvalidInput(f"{where}: `memory` must be a text; got {type(text).__name__}. Is this a mem0 export?")
    if not text.strip():
        return LeftOut(where, f"{mem0_id}: its text is empty")
    if owner is None:
        return LeftOut(where, f"{mem0_id}: it has no user_id; import it with memory=...")
    changed_at = _changed(found, where)
    metadata = {"mem0": {name: value for name, value in found.items() if name not in ("memory", "score")}}
    try:
        check_name(owner, what="user_id")
        check_text(text, what="memory")
        # Without a time the text alone tells a state of the entry from another.
        key = f"mem0:{mem0_id}" + (f"@{changed_at.isoformat()}" if changed_at else f"#{sha256_of(text)[:16]}")
        check_name(key, what="id")
        canonical_json(metadata)
    except InvalidInput as err:
        raise InvalidInput(f"{where}: {err}") from err
    return _Entry(where, mem0_id, owner, text, changed_at or _UNKNOWN_TIME, key=key, metadata=metadata)


def _changed(found: dict[str, Any], where: str) -> datetime | None:
    """Return the time of the last change, in UTC; None for an entry without one."""
    created_at, updated_at = (_moment(found, name, where) for name in ("created_at", "updated_at"))
    return updated_at or created_at


def _moment(found: dict[str, Any], name: str, where: str) -> datetime | None:
    written = found.get(name)
    if written is None:
        return None
    try:
        moment = datetime.fromisoformat(written)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (TypeError, ValueError, OverflowError) as err:
        raise InvalidInput(f"{where}: `{name}` must be an ISO 8601 time; got {written!r}.") from err


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield where each entry stands, and the entry."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as err:
        raise InvalidInput(f"Cannot read {path}: {err}") from err
    lines = text.split("\n")  # not splitlines: JSON may hold U+2028 as it is
    if _is_jsonl(path, lines):
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield f"{path.name}, line {number}", _parsed(line, path, first_line=number)
        return
    whole = _parsed(text, path, first_line=1)
    listed = whole.get("results") if isinstance(whole, dict) else whole
    if not isinstance(listed, list):
        raise InvalidInput(
            f"{path.name} is no mem0 export: it must hold a list, an object with the list `results`, or one object "
            f"per line; got {type(whole).__name__}."
        )
    yield from ((f"{path.name}, entry {number}", entry) for number, entry in enumerate(listed, start=1))


def _is_jsonl(path: Path, lines: list[str]) -> bool:
    """Tell one memory per line from one document: by the file's name, else by a first line that is a whole memory."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return True
    try:
        first = json.loads(next((line for line in lines if line.strip()), ""))
    except (ValueError, RecursionError):  # said by `_parsed`, which names the line
        return False
    return isinstance(first, dict) and "memory" in first


def _parsed(text: str, path: Path, *, first_line: int) -> Any:
    try:
        return json.loads(text, parse_constant=_refused)
    except JSONDecodeError as err:
        raise InvalidInput(f"{path.name}, line {first_line + err.lineno - 1}: not JSON: {err.msg}.") from err
    except ValueError as err:
        raise InvalidInput(f"{path.name}, line {first_line}: {err}") from err
    except RecursionError as err:
        raise InvalidInput(f"{path.name}, line {first_line}: nested too deeply.") from err


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number.")
