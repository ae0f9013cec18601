"""Which memory a request is about: every way to name one, in one place.

First comes the key that is bound to a memory; then the header, the body, the model's id, and a mapped header of keys
that may act for others. Two that disagree are refused, and nothing falls into a memory that all would share.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from plume_memory.errors import MemoryNotFound
from plume_memory.server.auth import Caller
from plume_memory.server.problems import Refused, invalid
from plume_memory.server.settings import MAX_NUMBER, ServerSettings
from plume_memory.store.directory import Directory, ListedMemory
from plume_memory.store.memories import is_id

MODEL = "plume"
"""The model id that says: the memory is named elsewhere. `plume@NAME` and `plume@NAME:VERSION` name it."""
MEMORY_HEADER, VERSION_HEADER = "x-plume-memory", "x-plume-version"

_WITH_VERSION = re.compile(r"(?s)(.+):(\d{1,19})")


@dataclass(frozen=True, slots=True)
class Source:
    """One place of a request that names a memory, a version, or both."""

    place: str
    """For errors."""
    memory: str | None
    """Name or id."""
    version: int | None = None
    may_create: bool = False
    """A new person at a front end has no memory yet: the first thing written makes one."""


@dataclass(frozen=True, slots=True)
class Addressed:
    """The memory of a request."""

    memory: ListedMemory | None
    """None where `new_name` says what is to be made before anything is written."""
    version: int | None
    """None: the newest."""
    new_name: str | None = None


def sources_of(
    caller: Caller,
    settings: ServerSettings,
    headers: Mapping[str, str],
    *,
    memory: str | None = None,
    version: int | None = None,
    model: str | None = None,
) -> list[Source]:
    """Return what a request names, in the order that counts.

    Args:
        caller: whose key may be bound, or act for others.
        settings: which headers are mapped.
        headers: in lower case.
        memory: the body's `plume.memory`.
        version: the body's `plume.version`.
        model: the body's `model`.

    Raises:
        Refused: 400, a header that is no text or no number.
    """
    found: list[Source] = []
    if caller.memory is not None:
        found.append(Source("the key", caller.memory))
    in_header = headers.get(MEMORY_HEADER)
    found.append(Source(MEMORY_HEADER, _text(MEMORY_HEADER, in_header), _number(headers.get(VERSION_HEADER))))
    found.append(Source("plume in the body", memory, version))
    if model is not None and model.startswith(f"{MODEL}@"):
        found.append(_from_model(model))
    if caller.may("act-as"):
        mapped = [(name, value) for name in settings.mapped_headers if (value := headers.get(name))]
        found += [Source(name, _text(name, value), may_create=True) for name, value in mapped]
    return [one for one in found if one.memory is not None or one.version is not None]


def addressed(directory: Directory, caller: Caller, sources: list[Source]) -> Addressed | None:
    """Return the memory that a request is about; None where it names none.

    Raises:
        MemoryNotFound: it names one that this caller cannot: there is none, or it is not his.
        Refused: 400 `memory-conflict`, two places disagree.
    """
    versions = {one.version: one.place for one in sources if one.version is not None}
    if len(versions) > 1:
        raise _conflict(list(versions.values()), "versions")
    version = next(iter(versions), None)
    naming = [one for one in sources if one.memory is not None]
    if not naming:
        if version is not None:
            raise invalid(f"{next(iter(versions.values()))} names a version, and nothing names its memory.")
        return None
    found: dict[str, str] = {}
    memory: ListedMemory | None = None
    new_name: str | None = None
    for one in naming:
        called = one.memory or ""
        listed = directory.find(caller.tenant, called)
        if listed is None and not one.may_create:
            raise _not_found(called)
        if caller.memory is not None and (listed is None or listed.id != caller.memory):
            raise _not_found(called)
        if listed is None:
            new_name = called
        memory = memory or listed
        found.setdefault(listed.id if listed else called, one.place)
    if len(found) > 1:
        raise _conflict(list(found.values()), "memories")
    return Addressed(memory, version, new_name if memory is None else None)


def addressed_by_id(directory: Directory, caller: Caller, number: str) -> ListedMemory:
    """Return the memory of a path.

    Raises:
        MemoryNotFound: there is none of that id, or it is not this caller's.
    """
    found = directory.find(caller.tenant, number) if is_id(number) else None
    if found is None or caller.memory not in (None, found.id):
        raise _not_found(number)
    return found


def _from_model(model: str) -> Source:
    name = model.removeprefix(f"{MODEL}@")
    with_version = _WITH_VERSION.fullmatch(name)
    if with_version is None:
        return Source("the model's id", name)
    return Source("the model's id", with_version.group(1), _number(with_version.group(2)))


def _text(name: str, value: str | None) -> str | None:
    """A header's words: HTTP knows bytes, which are read as UTF-8."""
    if value is None:
        return None
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError as err:
        raise invalid(f"The header {name} is not UTF-8; name the memory in the body instead.", param=name) from err


def _number(value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdecimal() or not value.isascii() or len(value) > 19 or int(value) > MAX_NUMBER:
        raise invalid(f"A version is a number; got {value[:40]!r}.", param=VERSION_HEADER)
    return int(value)


def _not_found(called: str) -> MemoryNotFound:
    return MemoryNotFound(f"There is no memory {called[:200]!r}: check its id or name, or create it.")


def _conflict(places: list[str], what: str) -> Refused:
    return invalid(
        f"{places[0]} and {places[1]} name two {what}: name one, or the same in both.", code="memory-conflict"
    )
