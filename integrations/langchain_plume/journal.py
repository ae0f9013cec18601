"""The journal of a PlumeStore: every item exactly, and which version of which memory holds its text.

Knows SQL; knows no memory and no LangGraph. Its tables lie in a plume database beside the log's, so that one
file (or one PostgreSQL database) is the whole store. They are no part of the log's schema: they have a
version of their own in `plume_store_schema`, and `plume db upgrade` leaves them alone.

A text goes through these states; `PlumeStore.settle` takes the steps, each of which may be repeated:

    wanted, no version   to be written to its memory           (a put)
    wanted, a version    held by that version
    unwanted             to be forgotten by its memory         (a delete, or another text under the same key)
    no row               forgotten

A text that is put again is the same text, unless its memory no longer holds that version (`Write.lost`): then it
becomes another text, to be written anew.

An item and the state of its text change in one transaction, so a crash at any point leaves either the old
item or the new one, and a list of what the memory has yet to be told.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from plume_memory.errors import SchemaError
from plume_memory.forks import Lock
from plume_memory.store.checks import check_name
from plume_memory.store.database import Database
from plume_memory.store.log import utc_now
from plume_memory.store.purge import compact, secure_deletes
from plume_memory.store.tables import UtcDateTime

Namespace = tuple[str, ...]

SCHEMA_VERSION = 1
"""Of the tables below. A change to them raises it, and `Journal._migrate` learns the step."""

# First half of the PostgreSQL advisory lock under which one store's writers queue; SQLite has one writer.
_ADVISORY = 0x706C756D

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite numbers only a column declared INTEGER


class _Base(DeclarativeBase):
    """Every table of the journal."""


class _SchemaRow(_Base):
    __tablename__ = "plume_store_schema"

    version: Mapped[int] = mapped_column(sa.Integer(), primary_key=True, autoincrement=False)


class _ItemRow(_Base):
    """One item as it stands. `namespace` is a JSON array without spaces: no label can look like two."""

    __tablename__ = "plume_store_items"
    __table_args__ = (sa.UniqueConstraint("store", "namespace", "key", name="uq_plume_store_items_key"),)

    id: Mapped[int] = mapped_column(_ID, primary_key=True)
    store: Mapped[str] = mapped_column(sa.String(200))
    namespace: Mapped[str] = mapped_column(sa.Text())
    key: Mapped[str] = mapped_column(sa.Text())
    value_json: Mapped[str] = mapped_column(sa.Text())
    created_at: Mapped[datetime] = mapped_column(UtcDateTime())
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime())


class _TextRow(_Base):
    """One text that a memory was or is to be told; at most one per item is wanted."""

    __tablename__ = "plume_store_texts"
    __table_args__ = (sa.Index("ix_plume_store_texts_key", "store", "namespace", "key"),)

    id: Mapped[int] = mapped_column(_ID, primary_key=True)
    store: Mapped[str] = mapped_column(sa.String(200))
    namespace: Mapped[str] = mapped_column(sa.Text())
    key: Mapped[str] = mapped_column(sa.Text())
    memory: Mapped[str] = mapped_column(sa.String(200))
    text: Mapped[str] = mapped_column(sa.Text())
    token: Mapped[str] = mapped_column(sa.String(32))
    version: Mapped[int | None] = mapped_column(sa.BigInteger())
    wanted: Mapped[bool] = mapped_column(sa.Boolean())


@dataclass(frozen=True, slots=True)
class Write:
    """What becomes of one item."""

    namespace: Namespace
    key: str
    value: dict[str, Any] | None
    """JSON; None deletes the item."""
    memory: str | None = None
    """Name of the memory that is told the text; None where there is no text."""
    text: str | None = None
    """What the memory is told; None keeps the item in the journal alone."""
    lost: int | None = None
    """The version that held this very text of this item until its memory was made to forget it."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """One item as it stands."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    memory: str | None
    """Name of the memory that is told its text; None for an item of the journal alone."""
    version: int | None
    """The version that holds its text; None too while the memory has yet to be told."""


@dataclass(frozen=True, slots=True)
class PendingText:
    """One text whose memory has yet to be told something."""

    id: int
    namespace: Namespace
    key: str
    memory: str
    text: str
    token: str
    """Unique in all journals, so that the idempotency keys made of it are."""
    wanted: bool
    """Whether it is to be held, else forgotten."""
    version: int | None
    """The version that holds it; None while no one has noted that it was told."""


class Journal:
    """The items of one store. Threads and processes may share one.

    Args:
        url: SQLAlchemy URL of a plume database, which may be the memories' own; opened when first used.
        store: Name of the store: one database has room for many.
        clock: The time of a write; aware.

    Raises:
        InvalidInput: If the URL or the name cannot be used.
    """

    def __init__(self, url: str, store: str, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._store = check_name(store, what="A store's name")
        self._database = Database(url)
        self._clock = clock
        self._checking = Lock()
        self._is_checked = False

    @contextmanager
    def read(self) -> Iterator["Reader"]:
        """Yield a reader of one snapshot.

        Raises:
            SchemaError: If the tables, or the database, belong to another release.
            StoreUnavailable: If the database cannot be opened.
        """
        self._check_schema()
        with self._database.read() as connection:
            yield Reader(connection, self._store)

    def apply(self, writes: Sequence[Write]) -> None:
        """Make all of the changes or none; a key must not come twice.

        Raises:
            SchemaError: If the tables, or the database, belong to another release.
            StoreUnavailable: If nothing was written.
        """
        with self._write() as connection:
            for write in writes:
                self._write_item(connection, write)
                self._write_text(connection, write)

    def pending(self) -> list[PendingText]:
        """Return what the memories have yet to be told, oldest first."""
        fields = [getattr(_TextRow, field) for field in PendingText.__dataclass_fields__]
        query = sa.select(*fields).where(
            _TextRow.store == self._store, sa.or_(_TextRow.version.is_(None), _TextRow.wanted.is_(False))
        )
        self._check_schema()
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(_TextRow.id)).mappings().all()
        return [PendingText(**{**row, "namespace": _parsed(row["namespace"])}) for row in rows]

    def written(self, text: PendingText, version: int) -> None:
        """Note the version that holds a text; no matter if the text has been forgotten meanwhile."""
        with self._write() as connection:
            connection.execute(sa.update(_TextRow).where(_TextRow.id == text.id).values(version=version))

    def forgotten(self, text: PendingText) -> None:
        """Drop a text that its memory no longer holds."""
        with self._write() as connection:
            connection.execute(sa.delete(_TextRow).where(_TextRow.id == text.id))

    def erased(self, namespace: Namespace, key: str) -> None:
        """Delete an item whose texts are erased, and the bytes of it.

        Raises:
            StoreUnavailable: If they stay in the file, as another connection reads on: repeat the call.
        """
        with self._write() as connection:
            secure_deletes(connection)
            for table in (_ItemRow, _TextRow):
                connection.execute(sa.delete(table).where(_at(table, self._store, namespace, key)))
        compact(self._database)

    def close(self) -> None:
        """Close every connection; later use raises MemoryClosed. Closing twice is allowed."""
        self._database.close()

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        self._check_schema()
        with self._database.write() as connection:
            if connection.dialect.name == "postgresql":
                own = sa.func.hashtext(self._store)
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY, own)))
            yield connection

    def _write_item(self, connection: sa.Connection, write: Write) -> None:
        here = _at(_ItemRow, self._store, write.namespace, write.key)
        if write.value is None:
            connection.execute(sa.delete(_ItemRow).where(here))
            return
        now, value_json = self._clock(), json.dumps(write.value)
        changed = sa.update(_ItemRow).where(here).values(value_json=value_json, updated_at=now)
        if connection.execute(changed).rowcount == 0:
            values = {"store": self._store, "namespace": _written(write.namespace), "key": write.key}
            times = {"created_at": now, "updated_at": now}
            connection.execute(sa.insert(_ItemRow).values(value_json=value_json, **values, **times))

    def _write_text(self, connection: sa.Connection, write: Write) -> None:
        here = sa.and_(_at(_TextRow, self._store, write.namespace, write.key), _TextRow.wanted.is_(True))
        now = connection.execute(sa.select(_TextRow.text, _TextRow.memory, _TextRow.version).where(here)).first()
        if (
            now is not None
            and (now.text, now.memory) == (write.text, write.memory)
            and (write.lost is None or now.version != write.lost)  # another process has had it told again meanwhile
        ):
            return  # the memory is told already, or about to be: writing it again would say nothing new
        connection.execute(sa.update(_TextRow).where(here).values(wanted=False))
        if write.text is not None:
            row = {"store": self._store, "namespace": _written(write.namespace), "key": write.key}
            told = {"memory": write.memory, "text": write.text, "token": uuid.uuid4().hex}
            connection.execute(sa.insert(_TextRow).values(**row, **told, version=None, wanted=True))

    def _check_schema(self) -> None:
        with self._checking:
            if self._is_checked:
                return
            with self._database.read() as connection:
                found = _schema_of(connection)
            if found is None:
                found = self._migrate()
            if found != SCHEMA_VERSION:
                raise SchemaError(
                    f"The tables plume_store_* in {self._database.url} are of version {found}, this package works "
                    f"with {SCHEMA_VERSION}: they were written by a newer plume-memory; upgrade the package."
                )
            self._is_checked = True

    def _migrate(self) -> int:
        """Create the tables, unless another process has while this one waited for the lock."""
        with self._database.write() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY, 0)))
            found = _schema_of(connection)
            if found is not None:
                return found
            _Base.metadata.create_all(connection, checkfirst=False)
            connection.execute(sa.insert(_SchemaRow).values(version=SCHEMA_VERSION))
        return SCHEMA_VERSION


_ITEMS = sa.select(
    _ItemRow.namespace,
    _ItemRow.key,
    _ItemRow.value_json,
    _ItemRow.created_at,
    _ItemRow.updated_at,
    _TextRow.memory,
    _TextRow.version,
).join_from(
    _ItemRow,
    _TextRow,
    sa.and_(
        _TextRow.store == _ItemRow.store,
        _TextRow.namespace == _ItemRow.namespace,
        _TextRow.key == _ItemRow.key,
        _TextRow.wanted.is_(True),
    ),
    isouter=True,
)


class Reader:
    """The items of one store on one snapshot of the database. Made by `Journal.read`."""

    def __init__(self, connection: sa.Connection, store: str) -> None:
        self._connection = connection
        self._store = store

    def item(self, namespace: Namespace, key: str) -> StoredItem | None:
        """Return one item; None where there is none."""
        query = _ITEMS.where(_at(_ItemRow, self._store, namespace, key))
        row = self._connection.execute(query).mappings().first()
        return None if row is None else _to_item(row)

    def version_of(self, write: Write) -> int | None:
        """Return the version made of a write's text, if the item has that text now and its memory was told."""
        here = sa.and_(_at(_TextRow, self._store, write.namespace, write.key), _TextRow.wanted.is_(True))
        same = sa.and_(here, _TextRow.text == write.text, _TextRow.memory == write.memory)
        return self._connection.execute(sa.select(_TextRow.version).where(same)).scalar()

    def versions_of(self, namespace: Namespace, key: str, memory: str) -> set[int]:
        """Return the versions of a memory that hold, or held until they are forgotten, a text of an item."""
        here = sa.and_(_at(_TextRow, self._store, namespace, key), _TextRow.memory == memory)
        found = self._connection.execute(sa.select(_TextRow.version).where(here)).scalars()
        return {version for version in found if version is not None}

    def items(self, prefix: Namespace) -> list[StoredItem]:
        """Return the items of a namespace and of those below it, in the order they were created."""
        query = _ITEMS.where(_ItemRow.store == self._store).order_by(_ItemRow.id)
        if prefix:
            whole = _written(prefix)
            opening = f"{whole[:-1]},"  # not LIKE: SQLite's takes a for A
            below = sa.func.substr(_ItemRow.namespace, 1, len(opening)) == opening
            query = query.where(sa.or_(_ItemRow.namespace == whole, below))
        return [_to_item(row) for row in self._connection.execute(query).mappings()]

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces that have an item, sorted."""
        query = sa.select(_ItemRow.namespace).where(_ItemRow.store == self._store).distinct()
        return sorted(_parsed(found) for found in self._connection.execute(query).scalars())


def _to_item(row: sa.RowMapping) -> StoredItem:
    own = {**row, "namespace": _parsed(row["namespace"]), "value": json.loads(row["value_json"])}
    del own["value_json"]
    return StoredItem(**own)


def _at(table: type[_ItemRow] | type[_TextRow], store: str, namespace: Namespace, key: str) -> sa.ColumnElement[bool]:
    return sa.and_(table.store == store, table.namespace == _written(namespace), table.key == key)


def _written(namespace: Namespace) -> str:
    return json.dumps(list(namespace), separators=(",", ":"))


def _parsed(namespace: str) -> Namespace:
    return tuple(json.loads(namespace))


def _schema_of(connection: sa.Connection) -> int | None:
    """Return the version of the journal's tables; None where there are none."""
    if not sa.inspect(connection).has_table(_SchemaRow.__tablename__):
        return None
    return connection.execute(sa.select(_SchemaRow.version)).scalar_one()
