"""Store the subject that created a version."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("versions", sa.Column("created_by", sa.Text()))
