"""Notices to tenants."""

import sqlalchemy as sa
from alembic import op

from sless.store.migrations.v0001_history import KEY

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "notices",
        sa.Column("id", KEY, nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("event", KEY, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("status", KEY, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("http_status", sa.Integer()),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
    )
    op.create_index("ix_notices_created_at", "notices", ["created_at"])
    op.create_index("ix_notices_status_namespace_not_before", "notices", ["status", "namespace", "not_before"])
    op.add_column("tenants", sa.Column("notify_url", sa.Text()))
