"""Which memories a tenant has. The one place where a tenant is told from another.

Whoever acts for a tenant goes from an id or a name to a memory through here: what is another tenant's is not found, as
if it did not exist. A memory's name in the log is unique in the whole database; the default tenant's are called there
as here, another tenant's by their ids.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.defaults import DEFAULT_TENANT
from plume_memory.errors import InvalidInput, MemoryExists, MemoryNotFound
from plume_memory.store.checks import check_name
from plume_memory.store.database import Database
from plume_memory.store.memories import Listing, insert_memory, is_id, new_id
from plume_memory.store.tables import MemoryRow


@dataclass(frozen=True, slots=True)
class ListedMemory:
    """A memory as its tenant sees it."""

    id: str
    """Public."""
    tenant: str
    name: str
    """What the tenant calls it."""
    log_name: str
    """What the log calls it: `MemoryPool.memory` takes this."""
    created_at: datetime
    head_number: int
    head_hash: str
    origin: str | None
    """The log's name of the memory it was forked from."""
    origin_version: int | None


class Directory:
    """The memories of one database, by tenant.

    Args:
        database: where they are.
        clock: the time of what is made; aware.
    """

    def __init__(self, database: Database, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock

    def listing(self, tenant: str, name: str) -> Listing:
        """Return what a new memory of a tenant is to be called.

        Raises:
            InvalidInput: a bad name, or one of the form of an id: it could be another memory's.
        """
        check_name(name)
        if is_id(name):
            raise InvalidInput(f"{name!r} has the form of a memory's id; choose a name that has not.")
        return Listing(new_id(), tenant, name)

    def create(self, tenant: str, name: str) -> ListedMemory:
        """Make an empty memory.

        Raises:
            InvalidInput: see `listing`.
            MemoryExists: the tenant has one of that name.
        """
        listing = self.listing(tenant, name)
        now = self._clock()
        try:
            self._database.transact(
                lambda connection: insert_memory(connection, log_name(listing), now, listing=listing)
            )
        except exc.IntegrityError as err:
            raise MemoryExists(f"A memory named {name!r} exists already; choose another name.") from err
        return self.get(tenant, listing.id)

    def find(self, tenant: str, called: str) -> ListedMemory | None:
        """Return a tenant's memory by its id or its name; None if the tenant has none."""
        column = MemoryRow.public_id if is_id(called) else MemoryRow.tenant_name
        with self._database.read() as connection:
            row = connection.execute(_of(tenant).where(column == called)).first()
        return None if row is None else ListedMemory(*row)

    def get(self, tenant: str, called: str) -> ListedMemory:
        """Return a tenant's memory by its id or its name.

        Raises:
            MemoryNotFound: the tenant has none; another tenant may.
        """
        found = self.find(tenant, called)
        if found is None:
            raise MemoryNotFound(f"There is no memory {called[:200]!r}: check its id or name, or create it.")
        return found

    def page(self, tenant: str, *, limit: int, after: str | None = None) -> list[ListedMemory]:
        """Return a tenant's memories in the order of their making, at most `limit`, behind the one of id `after`.

        Raises:
            MemoryNotFound: the tenant has no memory of that id.
        """
        query = _of(tenant).order_by(MemoryRow.id).limit(limit)
        with self._database.read() as connection:
            if after is not None:
                here = sa.select(MemoryRow.id).where(MemoryRow.tenant == tenant, MemoryRow.public_id == after)
                number = connection.execute(here).scalar()
                if number is None:
                    raise MemoryNotFound(f"There is no memory {after[:200]!r} to go on behind.")
                query = query.where(MemoryRow.id > number)
            return [ListedMemory(*row) for row in connection.execute(query)]

    def by_log_names(self, tenant: str, names: Collection[str]) -> dict[str, ListedMemory]:
        """Return those of some memories that are a tenant's, by the log's names."""
        with self._database.read() as connection:
            rows = connection.execute(_of(tenant).where(MemoryRow.name.in_(list(names))))
            return {row.name: ListedMemory(*row) for row in rows}


def log_name(listing: Listing) -> str:
    """Return what the log calls a memory of that listing."""
    return listing.name if listing.tenant == DEFAULT_TENANT else listing.id


def _of(tenant: str) -> Any:
    """The rows of one tenant: every query of this module begins here."""
    return sa.select(
        MemoryRow.public_id,
        MemoryRow.tenant,
        MemoryRow.tenant_name,
        MemoryRow.name,
        MemoryRow.created_at,
        MemoryRow.head_number,
        MemoryRow.head_hash,
        MemoryRow.origin_name,
        MemoryRow.origin_version,
    ).where(MemoryRow.tenant == tenant)
