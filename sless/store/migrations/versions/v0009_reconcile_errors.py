"""Errors of the control loops, for operators."""

import sqlalchemy as sa
from alembic import op

from sless.store.migrations.v0001_history import KEY

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "reconcile_errors",
        sa.Column("loop", KEY, nullable=False),
        sa.Column("workload_id", KEY, nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("loop", "workload_id", name="pk_reconcile_errors"),
    )
