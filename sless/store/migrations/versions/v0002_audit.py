"""The audit trail."""

import sqlalchemy as sa
from alembic import op

from sless.store.migrations.v0001_history import KEY

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("sub", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("request_id", KEY, nullable=False),
        sa.Column("action", KEY, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("changes", KEY, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_namespace_id", "audit", ["namespace", "id"])
