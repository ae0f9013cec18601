"""Forgetting: a third kind of version, which names the update whose text no longer holds.

No row is changed, so every hash stays. SQLite cannot alter a check constraint: there the table is built anew
beside the old one and takes its name, in the migration's one transaction; the file needs room for both.

Close what uses the database first: an older release that still has it open would read a forget as an update
without a text.

Revision: 0002
Follows: 0001
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from plume_memory.errors import SchemaError

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KINDS_0001 = (
    "(kind = 'update' AND restores IS NULL) OR (kind = 'rollback' AND restores IS NOT NULL AND "
    "restores >= 1 AND restores < number)"
)
KINDS_0002 = (
    "(kind = 'update' AND restores IS NULL AND forgets IS NULL) OR "
    "(kind = 'rollback' AND restores IS NOT NULL AND restores >= 1 AND restores < number "
    "AND forgets IS NULL) OR "
    "(kind = 'forget' AND forgets IS NOT NULL AND forgets >= 1 AND forgets < number "
    "AND restores IS NULL)"
)
COLUMNS_0001 = (
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
)
# Those of 0001, word for word: a trigger goes with its table.
SQLITE_TRIGGERS = {
    "versions_no_update": """CREATE TRIGGER versions_no_update BEFORE UPDATE ON versions
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: UPDATE refused'); END""",
    "versions_no_delete": """CREATE TRIGGER versions_no_delete BEFORE DELETE ON versions
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: DELETE refused'); END""",
    "versions_no_replace": """CREATE TRIGGER versions_no_replace BEFORE INSERT ON versions
    WHEN EXISTS (SELECT 1 FROM versions WHERE memory_id = NEW.memory_id AND number = NEW.number)
      OR EXISTS (SELECT 1 FROM versions
                 WHERE memory_id = NEW.memory_id AND idempotency_key = NEW.idempotency_key)
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: the version or its idempotency key exists'); END""",
}


def upgrade() -> None:
    forgets = sa.Column("forgets", sa.BigInteger())
    if op.get_bind().dialect.name == "sqlite":
        _rebuild(KINDS_0002, [forgets])
    else:
        op.drop_index("ix_versions_rollbacks", "versions")
        op.add_column("versions", forgets)
        _replace_kinds(KINDS_0002)
    _create_partial_index(
        "ix_versions_undos", ["memory_id", "number", "kind", "restores", "forgets"], "kind <> 'update'"
    )


def downgrade() -> None:
    """Remove the column.

    Raises:
        SchemaError: If there is a forget: the older schema has no place for it, and it may not be lost.
    """
    count = op.get_bind().execute(sa.text("SELECT count(*) FROM versions WHERE kind = 'forget'")).scalar_one()
    if count:
        raise SchemaError(
            f"This database holds {count} versions of kind 'forget', which schema 0001 cannot: stay at 0002, or "
            "restore a copy from before the first of them."
        )
    if op.get_bind().dialect.name == "sqlite":
        _rebuild(KINDS_0001, [])
    else:
        op.drop_index("ix_versions_undos", "versions")
        _replace_kinds(KINDS_0001)  # before the column goes: it refuses a forget that was written meanwhile
        op.drop_column("versions", "forgets")
    _create_partial_index("ix_versions_rollbacks", ["memory_id", "number", "restores"], "kind = 'rollback'")


def _replace_kinds(condition: str) -> None:
    op.drop_constraint("ck_versions_kind", "versions", type_="check")
    op.create_check_constraint("ck_versions_kind", "versions", condition)


def _create_partial_index(name: str, columns: list[str], where: str) -> None:
    op.create_index(name, "versions", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _rebuild(kinds: str, further_columns: Sequence[sa.Column[int]]) -> None:
    """Make SQLite's table of versions anew: all but the partial index, which the caller makes."""
    for name in SQLITE_TRIGGERS:
        op.execute(f"DROP TRIGGER {name}")
    _create_versions("versions_rebuilt", kinds, further_columns)
    columns = ", ".join(COLUMNS_0001)
    op.execute(f"INSERT INTO versions_rebuilt ({columns}) SELECT {columns} FROM versions ORDER BY rowid")
    op.drop_table("versions")
    op.rename_table("versions_rebuilt", "versions")
    op.create_index("ix_versions_created_at", "versions", ["memory_id", "created_at", "number"])
    for statement in SQLITE_TRIGGERS.values():
        op.execute(statement)


def _create_versions(name: str, kinds: str, further_columns: Sequence[sa.Column[int]]) -> None:
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
        *further_columns,
        sa.PrimaryKeyConstraint("memory_id", "number"),
        sa.ForeignKeyConstraint(["memory_id"], ["memories.id"], name="fk_versions_memory_id"),
        sa.UniqueConstraint("memory_id", "idempotency_key", name="uq_versions_idempotency_key"),
        sa.CheckConstraint("number >= 1", name="ck_versions_number"),
        sa.CheckConstraint(kinds, name="ck_versions_kind"),
    )
