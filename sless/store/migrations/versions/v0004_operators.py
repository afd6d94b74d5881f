"""For operators: revoked tokens, suspensions, code checks."""

import sqlalchemy as sa
from alembic import op

from sless.store.migrations.v0001_history import KEY

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "revoked_tokens",
        sa.Column("token_id", KEY, nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sub", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("token_id", name="pk_revoked_tokens"),
    )
    op.add_column("tenants", sa.Column("suspended", sa.Text()))
    op.add_column("tenants", sa.Column("suspended_at", sa.DateTime(timezone=True)))
    op.add_column("workloads", sa.Column("suspended", sa.Text()))
    op.add_column("workloads", sa.Column("tenant_suspended", sa.Text()))
    _create_code_checks()


def _create_code_checks() -> None:
    op.create_table(
        "code_verdicts",
        sa.Column("sha256", KEY, nullable=False),
        sa.Column("prompt_key", KEY, nullable=False),
        sa.Column("opinion", KEY, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("sha256", "prompt_key", name="pk_code_verdicts"),
    )
    op.create_index("ix_code_verdicts_at", "code_verdicts", ["at"])
    op.create_table(
        "allowed_code",
        sa.Column("sha256", KEY, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_allowed_code"),
    )
    op.add_column("versions", sa.Column("warnings", KEY))
