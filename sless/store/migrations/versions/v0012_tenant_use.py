"""Use by tenants on each replica of the server."""

import sqlalchemy as sa
from alembic import op

from sless.store.migrations.v0001_history import KEY

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tenant_use",
        sa.Column("replica", KEY, nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("replica", "namespace", "at", name="pk_tenant_use"),
    )
