"""Store the generation that a workload's observed message is about."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workloads", sa.Column("observed_wanted", sa.Integer(), nullable=False, server_default="0"))
