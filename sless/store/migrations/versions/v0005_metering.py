"""Usage for billing."""

import sqlalchemy as sa
from alembic import op

from sless.store.migrations.v0001_history import KEY

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "meters",
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("day", KEY, nullable=False),
        sa.Column("build_ms", sa.Float(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "day", name="pk_meters"),
    )
    op.add_column("call_stats", sa.Column("run_gb_ms", sa.Float(), nullable=False, server_default="0"))
    op.add_column("call_stats", sa.Column("sent_bytes", sa.BigInteger(), nullable=False, server_default="0"))
