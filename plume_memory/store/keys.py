"""Keys to a server: made, found, listed, revoked. Knows nothing of HTTP.

A key is `plk_<8>_<32>`: an id to find it by, and 190 random bits. Those are too many to try, so a plain sha256 of the
whole is kept: a slow hash would cost every request what nobody could gain.
"""

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.defaults import SCOPES
from plume_memory.errors import InvalidInput, KeyNotFound, StoreUnavailable
from plume_memory.store.checks import check_name
from plume_memory.store.database import Database
from plume_memory.store.directory import Directory
from plume_memory.store.tables import KeyRow, TenantRow

_LETTERS = string.ascii_lowercase + string.digits
_SECRET = string.ascii_letters + string.digits
_KEY = re.compile("plk_([a-z0-9]{8})_[A-Za-z0-9]{32}")
_TENANT = re.compile("[a-z0-9][a-z0-9._-]{0,63}")
_USED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Key:
    """A key, without its secret."""

    id: str
    tenant: str
    scopes: frozenset[str]
    memory: str | None
    """The public id of the one memory it opens; None for all of the tenant's."""
    writes: bool
    """Whether what a user says in a chat is written where the call does not say."""
    label: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """To the minute."""

    def is_valid(self, now: datetime) -> bool:
        """Tell whether it opens anything."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A new key. What it says is shown once, and kept nowhere."""

    key: Key
    secret: str
    """What is sent: `Authorization: Bearer …`."""


class Keys:
    """The keys of one database.

    Args:
        database: where they are.
        clock: the time; aware.
    """

    def __init__(self, database: Database, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock

    def create(
        self,
        *,
        tenant: str,
        scopes: Collection[str],
        memory: str | None = None,
        writes: bool = False,
        label: str = "",
        expires_in: timedelta | None = None,
    ) -> MadeKey:
        """Make a key, and its tenant where there is none of that name.

        Args:
            tenant: 1 to 64 lower-case letters, digits, dots, hyphens and underscores.
            scopes: of `SCOPES`.
            memory: the id or name of the one memory that it opens.
            writes: what a user says in a chat is written where the call does not say.
            label: for who lists keys.
            expires_in: from now; never by default.

        Raises:
            InvalidInput: a bad tenant, scope, label or time.
            MemoryNotFound: the tenant has no such memory.
        """
        if not _TENANT.fullmatch(tenant):
            raise InvalidInput(
                f"A tenant is 1 to 64 lower-case letters, digits, dots, hyphens and underscores; got {tenant!r}."
            )
        if not scopes or (unknown := sorted(set(scopes) - set(SCOPES))):
            found = "none" if not scopes else ", ".join(unknown)
            raise InvalidInput(f"A key has at least one scope of {', '.join(SCOPES)}; got {found}.")
        if label:
            check_name(label, what="A key's label")
        if expires_in is not None and expires_in <= timedelta(0):
            raise InvalidInput(f"A key expires in the future; got {expires_in}.")
        bound = None if memory is None else Directory(self._database).get(tenant, memory).id
        number = "".join(secrets.choice(_LETTERS) for _ in range(8))
        secret = f"plk_{number}_" + "".join(secrets.choice(_SECRET) for _ in range(32))
        now = self._clock()
        values = {
            "id": number,
            "sha256": _sha256(secret),
            "tenant": tenant,
            "scopes": " ".join(sorted(set(scopes))),
            "memory": bound,
            "writes": writes,
            "label": label,
            "created_at": now,
            "expires_at": None if expires_in is None else now + expires_in,
        }
        self._ensure_tenant(tenant, now)
        self._database.transact(lambda connection: connection.execute(sa.insert(KeyRow).values(values)))
        return MadeKey(self.get(number), secret)

    def authenticate(self, secret: str) -> Key | None:
        """Return the key of what was sent; None if there is none, or it is revoked or expired."""
        named = _KEY.fullmatch(secret)
        if named is None:
            return None
        with self._database.read() as connection:
            row = connection.execute(sa.select(*_COLUMNS, KeyRow.sha256).where(KeyRow.id == named.group(1))).first()
        if row is None or not hmac.compare_digest(row.sha256, _sha256(secret)):
            return None
        key, now = _key(row), self._clock()
        if not key.is_valid(now):
            return None
        if key.last_used_at is None or now - key.last_used_at >= _USED_EVERY:
            used = sa.update(KeyRow).where(KeyRow.id == key.id).values(last_used_at=now)
            with suppress(StoreUnavailable):  # busy, or read-only: when it was used is worth no refused request
                self._database.transact(lambda connection: connection.execute(used))
        return key

    def is_valid(self, number: str) -> bool:
        """Tell whether a key that was authenticated still opens anything."""
        with self._database.read() as connection:
            row = connection.execute(sa.select(*_COLUMNS).where(KeyRow.id == number)).first()
        return row is not None and _key(row).is_valid(self._clock())

    def any_made(self) -> bool:
        """Tell whether a key was ever made: from then on nobody comes in without one, though all be revoked."""
        with self._database.read() as connection:
            return connection.execute(sa.select(KeyRow.id).limit(1)).first() is not None

    def get(self, number: str) -> Key:
        """Return a key by its id.

        Raises:
            KeyNotFound: there is none.
        """
        with self._database.read() as connection:
            row = connection.execute(sa.select(*_COLUMNS).where(KeyRow.id == number)).first()
        if row is None:
            raise KeyNotFound(f"There is no key of id {number[:40]!r}; `plume keys list` lists them.")
        return _key(row)

    def all(self) -> list[Key]:
        """Return every key, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(*_COLUMNS).order_by(KeyRow.created_at, KeyRow.id))
            return [_key(row) for row in rows]

    def revoke(self, number: str) -> Key:
        """Make a key open nothing any more; twice is allowed.

        Raises:
            KeyNotFound: there is none of that id.
        """
        found = self.get(number)
        if found.revoked_at is None:
            revoked = sa.update(KeyRow).where(KeyRow.id == number).values(revoked_at=self._clock())
            self._database.transact(lambda connection: connection.execute(revoked))
        return self.get(number)

    def _ensure_tenant(self, tenant: str, now: datetime) -> None:
        with self._database.read() as connection:
            if connection.execute(sa.select(TenantRow.name).where(TenantRow.name == tenant)).first() is not None:
                return
        made = sa.insert(TenantRow).values(name=tenant, created_at=now)
        try:
            self._database.transact(lambda connection: connection.execute(made))
        except exc.IntegrityError:  # another process was faster
            return


_COLUMNS = (
    KeyRow.id,
    KeyRow.tenant,
    KeyRow.scopes,
    KeyRow.memory,
    KeyRow.writes,
    KeyRow.label,
    KeyRow.created_at,
    KeyRow.expires_at,
    KeyRow.revoked_at,
    KeyRow.last_used_at,
)


def _key(row: Any) -> Key:
    return Key(
        id=row.id,
        tenant=row.tenant,
        scopes=frozenset(row.scopes.split()),
        memory=row.memory,
        writes=row.writes,
        label=row.label,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
