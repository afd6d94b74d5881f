"""Load per replica of the server; uptime of instances."""

import sqlalchemy as sa
from alembic import op

from sless.store.migrations.v0001_history import KEY

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "demand",
        sa.Column("workload_id", KEY, nullable=False),
        sa.Column("replica", KEY, nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("in_flight", sa.Integer(), nullable=False),
        sa.Column("called_at", sa.DateTime(timezone=True)),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("workload_id", "replica", name="pk_demand"),
    )
    op.create_table(
        "instance_uptime",
        sa.Column("workload_id", KEY, nullable=False),
        sa.Column("day", KEY, nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("gb_ms", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("workload_id", "day", name="pk_instance_uptime"),
    )
    op.create_index("ix_instance_uptime_namespace_day", "instance_uptime", ["namespace", "day"])
