"""The rows of memories: found, created, and asked whether they have a version. Knows no version's content."""

import re
import secrets
from datetime import UTC, datetime
from typing import NamedTuple

import sqlalchemy as sa

from plume_memory.defaults import DEFAULT_TENANT
from plume_memory.errors import InvalidInput, MemoryNotFound, VersionNotFound
from plume_memory.store.chain import NO_PARENT
from plume_memory.store.tables import MemoryRow

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_ID = re.compile(f"mem_[{_LETTERS}]{{26}}")


def new_id() -> str:
    """Return a public id: `mem_` and 26 letters and digits, 130 random bits."""
    return "mem_" + "".join(secrets.choice(_LETTERS) for _ in range(26))


def is_id(text: str) -> bool:
    """Tell whether a text has the form of a public id."""
    return _ID.fullmatch(text) is not None


class Listing(NamedTuple):
    """What a memory is called from outside, and whose it is."""

    id: str
    """`new_id`."""
    tenant: str
    name: str
    """Unique among the tenant's."""


class Origin(NamedTuple):
    """Where a fork was copied from."""

    memory: str
    version: int
    """The last version that was copied; 0 for a fork of an empty memory."""


class FoundMemory(NamedTuple):
    """A memory's row, as a transaction saw it."""

    id: int
    name: str
    head_number: int
    head_hash: str
    origin_name: str | None
    origin_version: int | None


def find_memory(connection: sa.Connection, name: str, *, lock: bool = False) -> FoundMemory | None:
    """Return the memory's row, locked until the end of the transaction if asked; None if there is none."""
    query = sa.select(*(getattr(MemoryRow, field) for field in FoundMemory._fields))
    query = query.where(MemoryRow.name == name)
    row = connection.execute(query.with_for_update() if lock else query).first()
    return None if row is None else FoundMemory(*row)


def get_memory(connection: sa.Connection, name: str) -> FoundMemory:
    """Return the memory's row.

    Raises:
        MemoryNotFound: If there is none.
    """
    found = find_memory(connection, name)
    if found is None:
        raise not_found(name)
    return found


def insert_memory(
    connection: sa.Connection,
    name: str,
    created_at: datetime,
    *,
    head_number: int = 0,
    head_hash: str = NO_PARENT,
    origin: Origin | None = None,
    listing: Listing | None = None,
) -> FoundMemory:
    """Create a memory's row; one of the same name makes it a `sqlalchemy.exc.IntegrityError`.

    Without a listing it gets a new id, and is the default tenant's by the same name.
    """
    listing = listing or Listing(new_id(), DEFAULT_TENANT, name)
    origin_name, origin_version = origin or (None, None)
    values = {
        "name": name,
        "created_at": created_at.astimezone(UTC),
        "head_number": head_number,
        "head_hash": head_hash,
        "origin_name": origin_name,
        "origin_version": origin_version,
        "public_id": listing.id,
        "tenant": listing.tenant,
        "tenant_name": listing.name,
    }
    result = connection.execute(sa.insert(MemoryRow).values(values).returning(MemoryRow.id))
    return FoundMemory(result.scalar_one(), name, head_number, head_hash, origin_name, origin_version)


def check_number(found: FoundMemory, number: int) -> None:
    """Refuse a number that is not one of the memory's versions.

    Raises:
        InvalidInput: If it is no int.
        VersionNotFound: If there is no such version.
    """
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidInput(f"A version's number is an int, got {number!r}.")
    if not 1 <= number <= found.head_number:
        has = f"has versions 1 to {found.head_number}" if found.head_number else "is empty"
        raise VersionNotFound(f"Memory {found.name!r} has no version {number}: it {has}.")


def not_found(name: str) -> MemoryNotFound:
    """Return the error for a name that no memory has."""
    return MemoryNotFound(f"There is no memory named {name!r} in this database.")
