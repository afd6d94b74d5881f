"""Store the time until which each running instance has been counted."""

import sqlalchemy as sa
from alembic import op

from sless.store.migrations.v0001_history import KEY

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "standing_instances",
        sa.Column("endpoint_id", KEY, nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("counted_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("endpoint_id", name="pk_standing_instances"),
    )
