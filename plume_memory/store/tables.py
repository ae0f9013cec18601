"""The tables, as SQLAlchemy sees them. The schema is made by `migrations/` alone (triggers live there too).

A test holds these models equal to what the migrations build.
"""

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

IS_UNDO = text("kind <> 'update'")
"""Rollbacks, forgets and erasures. A query must say it in these words, or no database uses the partial index."""
IS_ERASURE = text("kind = 'erase'")
"""Erasures alone; the same holds of its words."""


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC time with microseconds, the same on every database.

    SQLite has no time type: SQLAlchemy writes 'YYYY-MM-DD HH:MM:SS.ffffff', whose order as text is the
    order in time, and reads it back naive. PostgreSQL keeps microseconds and answers in the session's zone.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Store UTC."""
        if value is None:
            return None
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return aware UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Every table of this package."""


class MemoryRow(Base):
    """One memory. `head_*` moves in the transaction that appends a version, so a cut tail is noticed."""

    __tablename__ = "memories"
    __table_args__ = (
        UniqueConstraint("name", name="uq_memories_name"),
        CheckConstraint("head_number >= 0", name="ck_memories_head_number"),
        Index("ix_memories_public_id", "public_id", unique=True),
        Index("ix_memories_tenant", "tenant", "tenant_name", unique=True),
    )

    # SQLite numbers only a column declared INTEGER by itself.
    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime())
    head_number: Mapped[int] = mapped_column(BigInteger())
    head_hash: Mapped[str] = mapped_column(String(64))
    origin_name: Mapped[str | None] = mapped_column(String(200))
    """For a fork: the memory it was copied from."""
    origin_version: Mapped[int | None] = mapped_column(BigInteger())
    # Of the next three the defaults are SQLite's price for a new column that is never NULL: nothing is written by them.
    public_id: Mapped[str] = mapped_column(String(30), server_default=text("''"))
    """What it is called from outside: in paths, logs and metrics. Made with the row, never changed."""
    tenant: Mapped[str] = mapped_column(String(64), server_default=text("'default'"))
    """Whose it is, among the tenants of a server."""
    tenant_name: Mapped[str] = mapped_column(String(200), server_default=text("''"))
    """What its tenant calls it: unique among the tenant's, where `name` is unique in the database."""


class VersionRow(Base):
    """One version. Immutable: triggers refuse DELETE, REPLACE and every UPDATE but one.

    The one: an update's text loses exactly what a version of kind `erase`, written before, says; its metadata and
    key go, `erased_by` is set to that version's number, and nothing else changes.
    """

    __tablename__ = "versions"
    __table_args__ = (
        UniqueConstraint("memory_id", "idempotency_key", name="uq_versions_idempotency_key"),
        CheckConstraint("number >= 1", name="ck_versions_number"),
        CheckConstraint(
            "(kind = 'update' AND restores IS NULL AND forgets IS NULL) OR "
            "(kind = 'rollback' AND restores IS NOT NULL AND restores >= 1 AND restores < number "
            "AND forgets IS NULL) OR "
            "((kind = 'forget' OR kind = 'erase') AND forgets IS NOT NULL AND forgets >= 1 AND forgets < number "
            "AND restores IS NULL)",
            name="ck_versions_kind",
        ),
        CheckConstraint(
            "(span_start IS NULL AND span_end IS NULL) OR ((kind = 'forget' OR kind = 'erase') AND "
            "span_start IS NOT NULL AND span_end IS NOT NULL AND span_start >= 0 AND span_end > span_start)",
            name="ck_versions_span",
        ),
        CheckConstraint("erased_by IS NULL OR (kind = 'update' AND erased_by > number)", name="ck_versions_erased_by"),
        Index("ix_versions_created_at", "memory_id", "created_at", "number"),
        # A history asks for the rollbacks and forgets alone: without this it would read every text's page.
        Index(
            "ix_versions_undos",
            "memory_id",
            "number",
            "kind",  # asked for and in the condition: with it SQLite reads the index alone
            "restores",
            "forgets",
            "span_start",
            "span_end",
            sqlite_where=IS_UNDO,
            postgresql_where=IS_UNDO,
        ),
        # Asked for by every read of an older version: what was kept of it may hold what was erased since.
        Index("ix_versions_erasures", "memory_id", "number", sqlite_where=IS_ERASURE, postgresql_where=IS_ERASURE),
    )

    memory_id: Mapped[int] = mapped_column(
        BigInteger(), ForeignKey("memories.id", name="fk_versions_memory_id"), primary_key=True
    )
    number: Mapped[int] = mapped_column(BigInteger(), primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(String(16))
    text: Mapped[str] = mapped_column(Text())
    text_sha256: Mapped[str] = mapped_column(String(64))
    restores: Mapped[int | None] = mapped_column(BigInteger())
    forgets: Mapped[int | None] = mapped_column(BigInteger())
    metadata_json: Mapped[str] = mapped_column(Text())
    """Canonical JSON; text on every database, because the hash is over these very characters."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime())
    idempotency_key: Mapped[str | None] = mapped_column(String(200))
    parent_hash: Mapped[str] = mapped_column(String(64))
    chain_hash: Mapped[str] = mapped_column(String(64))
    span_start: Mapped[int | None] = mapped_column(BigInteger())
    """For a forget or an erasure of a part: first character, in the text as the log held it then."""
    span_end: Mapped[int | None] = mapped_column(BigInteger())
    """One past the last."""
    erased_by: Mapped[int | None] = mapped_column(BigInteger())
    """For an update that was erased, whole or in part: the (last) version of kind erase that did it."""


class DerivationRow(Base):
    """What was derived, and the artifact that holds it. May be deleted at any time."""

    __tablename__ = "derivations"

    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(String(64))
    sha256: Mapped[str] = mapped_column(String(64))
    size: Mapped[int] = mapped_column(BigInteger())
    created_at: Mapped[datetime] = mapped_column(UtcDateTime())


class SourceRow(Base):
    """Which memory an artifact was derived from. Written before the artifact, so that an erasure finds every one."""

    __tablename__ = "derivation_sources"
    __table_args__ = (Index("ix_derivation_sources_key", "key"),)

    memory_id: Mapped[int] = mapped_column(
        BigInteger(), ForeignKey("memories.id", name="fk_derivation_sources_memory_id"), primary_key=True
    )
    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)


class UnfinishedErasureRow(Base):
    """An erasure that is in the log, while artifacts or freed pages may still hold what was erased."""

    __tablename__ = "unfinished_erasures"

    memory_id: Mapped[int] = mapped_column(
        BigInteger(), ForeignKey("memories.id", name="fk_unfinished_erasures_memory_id"), primary_key=True
    )
    number: Mapped[int] = mapped_column(BigInteger(), primary_key=True, autoincrement=False)


class TenantRow(Base):
    """One who has memories of his own on a server, and keys to them."""

    __tablename__ = "tenants"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime())


class KeyRow(Base):
    """A key to a server. Of its secret the sha256 alone is kept."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(8), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64))
    """Of the whole key, as it is sent."""
    tenant: Mapped[str] = mapped_column(String(64), ForeignKey("tenants.name", name="fk_api_keys_tenant"))
    scopes: Mapped[str] = mapped_column(String(200))
    """Separated by blanks, sorted."""
    memory: Mapped[str | None] = mapped_column(String(30))
    """The public id of the one memory it opens; NULL for all of the tenant's."""
    writes: Mapped[bool] = mapped_column(Boolean())
    """Whether what a user says in a chat is written where the call does not say."""
    label: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime())
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
    """To the minute."""
