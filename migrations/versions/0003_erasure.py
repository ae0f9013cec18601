"""Erasure: a fourth kind of version, and the one change that a written version may undergo.

A row's text may lose exactly what a version of kind `erase` says, which must be there already; its metadata and its
idempotency key go with it. Spans, for forgets and erasures of a part. No hash of an existing row changes.

Two tables beside it: which memory an artifact was derived from, and which erasures have yet to be finished.

SQLite builds the table of versions anew, as in 0002; the file needs room for both.

Revision: 0003
Follows: 0002
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from plume_memory.errors import SchemaError

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

KINDS_0002 = (
    "(kind = 'update' AND restores IS NULL AND forgets IS NULL) OR "
    "(kind = 'rollback' AND restores IS NOT NULL AND restores >= 1 AND restores < number "
    "AND forgets IS NULL) OR "
    "(kind = 'forget' AND forgets IS NOT NULL AND forgets >= 1 AND forgets < number "
    "AND restores IS NULL)"
)
# Not IN: PostgreSQL words that another way after a dump and a restore.
KINDS_0003 = KINDS_0002.replace("kind = 'forget'", "(kind = 'forget' OR kind = 'erase')")
SPAN = (
    "(span_start IS NULL AND span_end IS NULL) OR ((kind = 'forget' OR kind = 'erase') AND "
    "span_start IS NOT NULL AND span_end IS NOT NULL AND span_start >= 0 AND span_end > span_start)"
)
ERASED_BY = "erased_by IS NULL OR (kind = 'update' AND erased_by > number)"
COLUMNS_0002 = (
    "memory_id",
    "number",
    "kind",
    "text",
    "text_sha256",
    "restores",
    "metadata_json",
    "created_at",
    "idempotency_key",
    "parent_hash",
    "chain_hash",
    "forgets",
)
_KEPT = (
    "memory_id",
    "number",
    "kind",
    "text_sha256",
    "restores",
    "forgets",
    "span_start",
    "span_end",
    "created_at",
    "parent_hash",
    "chain_hash",
)
# What both databases ask of an UPDATE; {same} compares OLD and NEW, NULL equal to NULL.
_IS_ERASURE = """OLD.kind = 'update' AND {same}
    AND NEW.metadata_json = '{{}}' AND NEW.idempotency_key IS NULL
    AND NEW.erased_by IS NOT NULL AND (OLD.erased_by IS NULL OR NEW.erased_by > OLD.erased_by)
    AND EXISTS (SELECT 1 FROM versions AS eraser
                WHERE eraser.memory_id = OLD.memory_id AND eraser.number = NEW.erased_by
                  AND eraser.kind = 'erase' AND eraser.forgets = OLD.number
                  AND NEW.text = CASE WHEN eraser.span_start IS NULL THEN ''
                      ELSE substr(OLD.text, 1, {start}) || substr(OLD.text, {end} + 1) END)"""
_SQLITE_ERASURE = _IS_ERASURE.format(
    same=" AND ".join(f"NEW.{column} IS OLD.{column}" for column in _KEPT),
    start="eraser.span_start",
    end="eraser.span_end",
)
_POSTGRESQL_ERASURE = _IS_ERASURE.format(
    same=" AND ".join(f"NEW.{column} IS NOT DISTINCT FROM OLD.{column}" for column in _KEPT),
    start="eraser.span_start::integer",
    end="eraser.span_end::integer",
)
NO_UPDATE_0002 = """CREATE TRIGGER versions_no_update BEFORE UPDATE ON versions
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: UPDATE refused'); END"""
NO_UPDATE_0003 = f"""CREATE TRIGGER versions_no_update BEFORE UPDATE ON versions
    WHEN coalesce(NOT ({_SQLITE_ERASURE}), 1)
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: UPDATE refused'); END"""
# Those of 0001, word for word: a trigger goes with its table.
SQLITE_TRIGGERS = (
    """CREATE TRIGGER versions_no_delete BEFORE DELETE ON versions
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: DELETE refused'); END""",
    """CREATE TRIGGER versions_no_replace BEFORE INSERT ON versions
    WHEN EXISTS (SELECT 1 FROM versions WHERE memory_id = NEW.memory_id AND number = NEW.number)
      OR EXISTS (SELECT 1 FROM versions
                 WHERE memory_id = NEW.memory_id AND idempotency_key = NEW.idempotency_key)
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: the version or its idempotency key exists'); END""",
)
FUNCTION_0002 = """CREATE OR REPLACE FUNCTION plume_versions_immutable() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'versions are immutable: % refused', TG_OP; END $$"""
FUNCTION_0003 = f"""CREATE OR REPLACE FUNCTION plume_versions_immutable() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF {_POSTGRESQL_ERASURE} THEN RETURN NEW; END IF;
    END IF;
    RAISE EXCEPTION 'versions are immutable: % refused', TG_OP;
    END $$"""
WRITTEN_BY_USERS = {"text": "text", "metadata_json": "text", "idempotency_key": "varchar(200)"}
UNDOS_0002 = ["memory_id", "number", "kind", "restores", "forgets"]


def upgrade() -> None:
    columns = [sa.Column(name, sa.BigInteger()) for name in ("span_start", "span_end", "erased_by")]
    if op.get_bind().dialect.name == "sqlite":
        checks = {"ck_versions_kind": KINDS_0003, "ck_versions_span": SPAN, "ck_versions_erased_by": ERASED_BY}
        _rebuild(checks, columns, NO_UPDATE_0003)
    else:
        op.drop_index("ix_versions_undos", "versions")
        for column in columns:
            op.add_column("versions", column)
        op.drop_constraint("ck_versions_kind", "versions", type_="check")
        op.create_check_constraint("ck_versions_kind", "versions", KINDS_0003)
        op.create_check_constraint("ck_versions_span", "versions", SPAN)
        op.create_check_constraint("ck_versions_erased_by", "versions", ERASED_BY)
        op.execute(FUNCTION_0003)
        _sample_texts(0)
        _drop_samples()
    _create_partial_index("ix_versions_undos", [*UNDOS_0002, "span_start", "span_end"], "kind <> 'update'")
    _create_partial_index("ix_versions_erasures", ["memory_id", "number"], "kind = 'erase'")
    op.create_table(
        "derivation_sources",
        sa.Column("memory_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("memory_id", "key", "sha256"),
        sa.ForeignKeyConstraint(["memory_id"], ["memories.id"], name="fk_derivation_sources_memory_id"),
    )
    op.create_index("ix_derivation_sources_key", "derivation_sources", ["key"])
    op.create_table(
        "unfinished_erasures",
        sa.Column("memory_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("memory_id", "number"),
        sa.ForeignKeyConstraint(["memory_id"], ["memories.id"], name="fk_unfinished_erasures_memory_id"),
    )


def downgrade() -> None:
    """Remove columns and tables.

    Raises:
        SchemaError: If there is an erasure or a forget of a part: the older schema has no place for them.
    """
    query = "SELECT count(*) FROM versions WHERE kind = 'erase' OR span_start IS NOT NULL"
    count = op.get_bind().execute(sa.text(query)).scalar_one()
    if count:
        raise SchemaError(
            f"This database holds {count} erasures or forgets of a part of a text, which schema 0002 cannot: stay at "
            "0003, or restore a copy from before the first of them."
        )
    op.drop_table("unfinished_erasures")
    op.drop_table("derivation_sources")
    if op.get_bind().dialect.name == "sqlite":
        _rebuild({"ck_versions_kind": KINDS_0002}, [], NO_UPDATE_0002)
    else:
        op.drop_index("ix_versions_erasures", "versions")
        op.drop_index("ix_versions_undos", "versions")
        op.execute(FUNCTION_0002)
        _sample_texts(-1)
        op.drop_constraint("ck_versions_erased_by", "versions", type_="check")
        op.drop_constraint("ck_versions_span", "versions", type_="check")
        op.drop_constraint("ck_versions_kind", "versions", type_="check")
        op.create_check_constraint("ck_versions_kind", "versions", KINDS_0002)
        for name in ("erased_by", "span_end", "span_start"):
            op.drop_column("versions", name)
    _create_partial_index("ix_versions_undos", UNDOS_0002, "kind <> 'update'")


def _sample_texts(target: int) -> None:
    """Tell PostgreSQL how many values its planner keeps of what users wrote: none, or an erasure would not reach them.

    -1 is the server's default.
    """
    for column in WRITTEN_BY_USERS:
        op.execute(f"ALTER TABLE versions ALTER COLUMN {column} SET STATISTICS {target}")


def _drop_samples() -> None:
    """Drop what PostgreSQL sampled before: it does when a column gets a type, be it its own, and rewrites no row."""
    for column, its_own in WRITTEN_BY_USERS.items():
        op.execute(f"ALTER TABLE versions ALTER COLUMN {column} TYPE {its_own}")


def _create_partial_index(name: str, columns: list[str], where: str) -> None:
    op.create_index(name, "versions", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _rebuild(checks: dict[str, str], further_columns: Sequence[sa.Column[int]], no_update: str) -> None:
    """Make SQLite's table of versions anew: all but the partial indexes, which the caller makes."""
    for name in ("versions_no_update", "versions_no_delete", "versions_no_replace"):
        op.execute(f"DROP TRIGGER {name}")
    _create_versions("versions_rebuilt", checks, further_columns)
    columns = ", ".join(COLUMNS_0002)
    op.execute(f"INSERT INTO versions_rebuilt ({columns}) SELECT {columns} FROM versions ORDER BY rowid")
    op.drop_table("versions")
    op.rename_table("versions_rebuilt", "versions")
    op.create_index("ix_versions_created_at", "versions", ["memory_id", "created_at", "number"])
    for statement in (no_update, *SQLITE_TRIGGERS):
        op.execute(statement)


def _create_versions(name: str, checks: dict[str, str], further_columns: Sequence[sa.Column[int]]) -> None:
    op.create_table(
        name,
        sa.Column("memory_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("text_sha256", sa.String(64), nullable=False),
        sa.Column("restores", sa.BigInteger()),
        sa.Column("metadata_json", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("idempotency_key", sa.String(200)),
        sa.Column("parent_hash", sa.String(64), nullable=False),
        sa.Column("chain_hash", sa.String(64), nullable=False),
        sa.Column("forgets", sa.BigInteger()),
        *further_columns,
        sa.PrimaryKeyConstraint("memory_id", "number"),
        sa.ForeignKeyConstraint(["memory_id"], ["memories.id"], name="fk_versions_memory_id"),
        sa.UniqueConstraint("memory_id", "idempotency_key", name="uq_versions_idempotency_key"),
        sa.CheckConstraint("number >= 1", name="ck_versions_number"),
        *(sa.CheckConstraint(condition, name=constraint) for constraint, condition in checks.items()),
    )
