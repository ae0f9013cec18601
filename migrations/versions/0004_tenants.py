"""What a server needs: an id of every memory for its paths, whose it is, and keys.

Rows that are there become the default tenant's, by the names they have. No version changes.

Revision: 0004
Follows: 0003
"""

import secrets
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from plume_memory.errors import SchemaError

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
TENANTS = sa.table("tenants", sa.column("name", sa.String), sa.column("created_at", sa.DateTime(timezone=True)))


def upgrade() -> None:
    # SQLite adds no column that is never NULL without a default.
    op.add_column("memories", sa.Column("public_id", sa.String(30), nullable=False, server_default=sa.text("''")))
    op.add_column("memories", sa.Column("tenant", sa.String(64), nullable=False, server_default=sa.text("'default'")))
    op.add_column("memories", sa.Column("tenant_name", sa.String(200), nullable=False, server_default=sa.text("''")))
    _name_the_rows()
    op.create_index("ix_memories_public_id", "memories", ["public_id"], unique=True)
    op.create_index("ix_memories_tenant", "memories", ["tenant", "tenant_name"], unique=True)
    op.create_table(
        "tenants",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    now = datetime.now(UTC)
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    op.bulk_insert(TENANTS, [{"name": "default", "created_at": now.replace(tzinfo=None) if is_sqlite else now}])
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(8), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("scopes", sa.String(200), nullable=False),
        sa.Column("memory", sa.String(30)),
        sa.Column("writes", sa.Boolean(), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_api_keys_tenant"),
    )


def downgrade() -> None:
    """Remove columns and tables.

    Raises:
        SchemaError: If a memory is another tenant's: the older schema would give it to everybody.
    """
    query = "SELECT count(*) FROM memories WHERE tenant <> 'default'"
    count = op.get_bind().execute(sa.text(query)).scalar_one()
    if count:
        raise SchemaError(
            f"This database holds {count} memories of tenants, which schema 0003 does not tell apart: stay at 0004."
        )
    op.drop_table("api_keys")
    op.drop_table("tenants")
    op.drop_index("ix_memories_tenant", "memories")
    op.drop_index("ix_memories_public_id", "memories")
    for name in ("tenant_name", "tenant", "public_id"):
        op.drop_column("memories", name)


def _name_the_rows() -> None:
    connection = op.get_bind()
    ids = list(connection.execute(sa.text("SELECT id FROM memories")).scalars())
    rows = [{"row": each, "public": "mem_" + "".join(secrets.choice(LETTERS) for _ in range(26))} for each in ids]
    if rows:
        named = "UPDATE memories SET public_id = :public, tenant_name = name WHERE id = :row"
        connection.execute(sa.text(named), rows)
