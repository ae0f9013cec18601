"""Memories, versions, derivations, and the triggers that keep versions immutable.

Revision: 0001
Follows: nothing
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# REPLACE deletes the old row without firing the DELETE trigger (unless recursive_triggers is on), so an
# INSERT that would replace is refused before it starts.
SQLITE_TRIGGERS = (
    """CREATE TRIGGER versions_no_update BEFORE UPDATE ON versions
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: UPDATE refused'); END""",
    """CREATE TRIGGER versions_no_delete BEFORE DELETE ON versions
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: DELETE refused'); END""",
    """CREATE TRIGGER versions_no_replace BEFORE INSERT ON versions
    WHEN EXISTS (SELECT 1 FROM versions WHERE memory_id = NEW.memory_id AND number = NEW.number)
      OR EXISTS (SELECT 1 FROM versions
                 WHERE memory_id = NEW.memory_id AND idempotency_key = NEW.idempotency_key)
    BEGIN SELECT RAISE(ABORT, 'versions are immutable: the version or its idempotency key exists'); END""",
)
POSTGRESQL_TRIGGERS = (
    """CREATE FUNCTION plume_versions_immutable() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'versions are immutable: % refused', TG_OP; END $$""",
    """CREATE TRIGGER versions_no_change BEFORE UPDATE OR DELETE ON versions
    FOR EACH ROW EXECUTE FUNCTION plume_versions_immutable()""",
    """CREATE TRIGGER versions_no_truncate BEFORE TRUNCATE ON versions
    FOR EACH STATEMENT EXECUTE FUNCTION plume_versions_immutable()""",
)


def upgrade() -> None:
    op.create_table(
        "memories",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("head_number", sa.BigInteger(), nullable=False),
        sa.Column("head_hash", sa.String(64), nullable=False),
        sa.Column("origin_name", sa.String(200)),
        sa.Column("origin_version", sa.BigInteger()),
        sa.UniqueConstraint("name", name="uq_memories_name"),
        sa.CheckConstraint("head_number >= 0", name="ck_memories_head_number"),
    )
    _create_versions()
    op.create_table(
        "derivations",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in SQLITE_TRIGGERS if is_sqlite else POSTGRESQL_TRIGGERS:
        op.execute(statement)


def _create_versions() -> None:
    op.create_table(
        "versions",
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
        sa.PrimaryKeyConstraint("memory_id", "number"),
        sa.ForeignKeyConstraint(["memory_id"], ["memories.id"], name="fk_versions_memory_id"),
        sa.UniqueConstraint("memory_id", "idempotency_key", name="uq_versions_idempotency_key"),
        sa.CheckConstraint("number >= 1", name="ck_versions_number"),
        sa.CheckConstraint(
            "(kind = 'update' AND restores IS NULL) OR (kind = 'rollback' AND restores IS NOT NULL AND "
            "restores >= 1 AND restores < number)",
            name="ck_versions_kind",
        ),
    )
    op.create_index("ix_versions_created_at", "versions", ["memory_id", "created_at", "number"])
    op.create_index(
        "ix_versions_rollbacks",
        "versions",
        ["memory_id", "number", "restores"],
        sqlite_where=sa.text("kind = 'rollback'"),
        postgresql_where=sa.text("kind = 'rollback'"),
    )


def downgrade() -> None:
    """Refuse: going back would delete every memory."""
    raise NotImplementedError("The first schema has no predecessor; delete the database to go back.")
