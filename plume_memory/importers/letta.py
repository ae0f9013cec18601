"""Imports a Letta agent file (`.af`): core memory blocks and archival passages, and messages if asked for.

Reads both layouts that Letta's servers export. The first is one agent: `{"agent_type", "name", "core_memory":
[{"label", "value", …}], "messages": […], …}`. The second holds many: `{"agents": [{"name", "block_ids", "messages",
…}], "blocks": [{"id", "label", "value", …}], …}`. Passages are read where there are any: `"passages": [{"text", …}]`.
Loads no model; knows no Letta.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from plume_memory.defaults import DEFAULT_URL
from plume_memory.errors import InvalidInput
from plume_memory.importers.mem0 import LeftOut
from plume_memory.memory import ParametricMemory
from plume_memory.pool import MemoryPool
from plume_memory.records import Version
from plume_memory.store.chain import sha256_of
from plume_memory.store.checks import check_name, check_text
from plume_memory.store.entries import erased_keys

_SPOKEN = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class LettaImport:
    """What an import did."""

    written: int
    """Updates appended."""
    unchanged: int
    """Texts that an earlier import had brought already, those that were erased since among them."""
    replaced: int
    """Older texts of a block that the memory forgot for a newer one."""
    memories: tuple[str, ...]
    """Names of the memories the file speaks of, sorted."""
    left_out: tuple[LeftOut, ...]
    """What of the file was not imported, in its order."""


def import_letta(
    path: str | Path, *, url: str = DEFAULT_URL, memory: str | None = None, messages: bool = False
) -> LettaImport:
    """Append an agent file's memory to the memories of a database; run twice, it writes nothing twice.

    The whole file is checked before anything is written. Of each agent come its passages, its messages, then its
    blocks, as they stand in the file: the blocks are what is true now. A block is known by its agent and label: when
    its value has changed since an earlier import, the new one is appended and the older one then forgotten. A value
    that an earlier import brought is not appended again, so what the memory has forgotten or erased stays so,
    and a block that returns to an older value is not noticed. Where a text comes from is kept in the version's
    metadata, under "letta". Factors are derived by the next answer.

    Args:
        path: the agent file, UTF-8.
        url: SQLAlchemy URL of the memories' database.
        memory: name of the one memory for everything; by default one per agent, by its name.
        messages: import what user and assistant said as well, each message an update.

    Raises:
        InvalidInput: If the file cannot be read, is not JSON, or has none of the layouts: says what was found.
        IdempotencyConflict: If a text was erased while it was imported; what was appended stays.
        StoreUnavailable: If the database cannot be written; what was appended stays, and a repeated import goes on
            from there.
    """
    if memory is not None:
        check_name(memory)
    source = Path(path).expanduser()
    entries: list[_Entry] = []
    left_out: list[LeftOut] = []
    for found in _found(source, _parsed(source), messages):
        if isinstance(found, LeftOut):
            left_out.append(found)
        else:
            entries.append(found)
    for entry in entries:
        _check(entry, memory)
    entries = list(_counted(entries))
    counts = _Counts()
    names = sorted({memory or entry.agent for entry in entries})
    with MemoryPool(url) as pool:
        for name in names:
            _append(pool.memory(name), [entry for entry in entries if (memory or entry.agent) == name], counts)
    return LettaImport(counts.written, counts.unchanged, counts.replaced, tuple(names), tuple(left_out))


@dataclass(frozen=True, slots=True)
class _Entry:
    where: str
    agent: str
    kind: str
    """block, passage or message."""
    label: str
    """Of a block; the role of a message; empty for a passage."""
    text: str
    earlier: int = 0
    """Of a message: how many before it say the same. Whoever moved away and back said the first thing twice."""

    @property
    def key(self) -> str:
        """Idempotency key: the same for the same text of the same place. Hashes, as labels may be of any length."""
        again = [self.earlier] if self.earlier else []
        place = sha256_of(json.dumps([self.agent, self.kind, self.label, *again]))
        return f"letta:{place[:32]}#{sha256_of(self.text)[:32]}"

    @property
    def metadata(self) -> dict[str, Any]:
        return {"letta": {"agent": self.agent, "kind": self.kind, "label": self.label}}


@dataclass(slots=True)
class _Counts:
    written: int = 0
    unchanged: int = 0
    replaced: int = 0


def _append(memory: ParametricMemory, entries: list[_Entry], counts: _Counts) -> None:
    log = memory.history()
    known, erased = {version.idempotency_key for version in log}, erased_keys(log)
    for entry in entries:
        if entry.key in known or sha256_of(entry.key) in erased:
            counts.unchanged += 1
        else:
            memory.update(entry.text, idempotency_key=entry.key, metadata=entry.metadata, derive=False)
            known.add(entry.key)
            counts.written += 1
        if entry.kind != "block":
            continue
        # Last, so that an import that stops in between leaves a text too many, never one too few.
        for older in _older_values(memory, entry):
            with suppress(InvalidInput):  # it no longer holds: another import was faster
                memory.forget(older.number, reason="changed in Letta")
                counts.replaced += 1


def _counted(entries: Iterable[_Entry]) -> Iterator[_Entry]:
    """Number the messages that say the same."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for entry in entries:
        said = (entry.agent, entry.label, entry.text)
        yield replace(entry, earlier=seen[said]) if entry.kind == "message" else entry
        seen[said] += entry.kind == "message"


def _older_values(memory: ParametricMemory, entry: _Entry) -> list[Version]:
    """Return the held values of a block but the newest, when the newest is the entry's own."""
    held = {transition.version for transition in memory.text_at().transitions}
    values = [v for v in memory.history() if v.number in held and v.metadata.get("letta") == entry.metadata["letta"]]
    return values[:-1] if values and values[-1].idempotency_key == entry.key else []


def _check(entry: _Entry, memory: str | None) -> None:
    try:
        check_name(memory or entry.agent, what="An agent's name")
        check_text(entry.text, what="A text")
    except InvalidInput as err:
        raise InvalidInput(f"{entry.where}: {err}") from err


def _found(path: Path, whole: Any, messages: bool) -> Iterator[_Entry | LeftOut]:
    """Yield what every agent of the file knows."""
    if isinstance(whole, dict) and isinstance(whole.get("core_memory"), list):
        yield from _of_agent(path.name, whole, _blocks(whole["core_memory"], f"{path.name}, core_memory"), messages)
        return
    if isinstance(whole, dict) and isinstance(whole.get("agents"), list) and isinstance(whole.get("blocks"), list):
        blocks = _blocks(whole["blocks"], f"{path.name}, blocks")
        by_id = {_text(block, "id", where): (where, block) for where, block in blocks}
        for number, agent in enumerate(whole["agents"], start=1):
            where = f"{path.name}, agent {number}"
            ids = _fields(agent, where).get("block_ids") or []
            listed = ids if isinstance(ids, list) else [ids]
            missing = [each for each in listed if not isinstance(each, str) or each not in by_id]
            if missing:
                raise InvalidInput(f"{where}: block_ids names {missing[0]!r}, which is not among the file's blocks.")
            yield from _of_agent(where, agent, [by_id[each] for each in listed], messages)
        return
    shown = (
        f"an object with {', '.join(sorted(whole)[:8]) or 'nothing'}"
        if isinstance(whole, dict)
        else type(whole).__name__
    )
    raise InvalidInput(
        f"{path.name} is no Letta agent file: it must be an object with the list `core_memory`, or with the lists "
        f"`agents` and `blocks`; got {shown}."
    )


def _of_agent(
    where: str, agent: dict[str, Any], blocks: list[tuple[str, dict[str, Any]]], messages: bool
) -> Iterator[_Entry | LeftOut]:
    name = agent.get("name")
    if not isinstance(name, str):
        raise InvalidInput(f"{where}: an agent's `name` must be a text; got {type(name).__name__}.")
    for number, passage in enumerate(_list(agent, "passages", where), start=1):
        own = f"{where}, passage {number}"
        yield _entry(own, name, "passage", "", _text(_fields(passage, own), "text", own))
    said = _list(agent, "messages", where)
    if said and not messages:
        yield LeftOut(where, f"{name}: {len(said)} messages, which are no memory; import them with messages=True")
    for number, message in enumerate(said if messages else [], start=1):
        own = f"{where}, message {number}"
        role, text = _fields(message, own).get("role"), _content(message, own)
        if role in _SPOKEN:
            yield _entry(own, name, "message", role, text)
        else:
            yield LeftOut(own, f"{name}: a message of role {role!r}")
    for own, block in blocks:
        yield _entry(own, name, "block", _text(block, "label", own), _text(block, "value", own))


def _entry(where: str, agent: str, kind: str, label: str, text: str) -> _Entry | LeftOut:
    if not text.strip():
        return LeftOut(where, f"{agent}: the {kind}{f' {label!r}' if label else ''} is empty")
    return _Entry(where, agent, kind, label, text)


def _blocks(listed: list[Any], where: str) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{where} {n}", _fields(block, f"{where} {n}")) for n, block in enumerate(listed, start=1)]


def _content(message: dict[str, Any], where: str) -> str:
    """Return what a message says: a text, or its parts of type text."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise InvalidInput(f"{where}: `content` must be a text or a list of parts; got {type(content).__name__}.")
    parts = [_fields(part, where) for part in content]
    return "\n".join(_text(part, "text", where) for part in parts if part.get("type") == "text")


def _list(agent: dict[str, Any], name: str, where: str) -> list[Any]:
    found = agent.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise InvalidInput(f"{where}: `{name}` must be a list; got {type(found).__name__}.")
    return found


def _text(fields: dict[str, Any], name: str, where: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise InvalidInput(f"{where}: `{name}` must be a text; got {type(found).__name__}. Is this a Letta agent file?")
    return found


def _fields(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise InvalidInput(f"{where}: must be an object; got {type(found).__name__}.")
    return found


def _parsed(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refused)
    except (OSError, UnicodeDecodeError) as err:
        raise InvalidInput(f"Cannot read {path}: {err}") from err
    except ValueError as err:
        raise InvalidInput(f"{path.name} is not JSON: {err}") from err
    except RecursionError as err:
        raise InvalidInput(f"{path.name} is nested too deeply.") from err


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number.")
