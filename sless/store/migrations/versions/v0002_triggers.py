"""Triggers and what outlives a request: attempts, callbacks, and what they need of the other tables."""

import sqlalchemy as sa
from alembic import op

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _extend_tenants() -> None:
    op.add_column("tenants", sa.Column("callback_keys", KEY))


def _extend_triggers() -> None:
    op.add_column("triggers", sa.Column("scheduled_since", sa.DateTime(timezone=True)))
    # What comes next follows from the schedule and the clock: it is worked out whenever it is shown.
    op.drop_column("triggers", "next_schedule_time")
    op.add_column("triggers", sa.Column("warm", sa.Boolean(), nullable=False, server_default=sa.text("false")))
    _let_go_of_deleted_triggers()
    # Cron triggers did not fire until now: they have missed nothing.
    op.execute("UPDATE triggers SET scheduled_since = CURRENT_TIMESTAMP")
    op.execute("INSERT INTO revisions (name, value) VALUES ('triggers', 1)")


def _let_go_of_deleted_triggers() -> None:
    """Nothing of a trigger has to end before its row can go: there is no time between."""
    op.drop_index("uq_triggers_http_function_ref", "triggers")
    op.drop_index("uq_triggers_name", "triggers")
    op.execute("DELETE FROM triggers WHERE deleted_at IS NOT NULL")
    op.drop_column("triggers", "deleted_at")
    where = sa.text("type = 'http'")
    columns = ["namespace", "function_ref"]
    op.create_index("uq_triggers_http_function_ref", "triggers", columns, unique=True, sqlite_where=where, postgresql_where=where)
    op.create_index("uq_triggers_name", "triggers", ["namespace", "name"], unique=True)


def _extend_runs() -> None:
    op.add_column("runs", sa.Column("callback_url", sa.Text()))
    op.add_column("runs", sa.Column("attempts_before", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("request", sa.Text()))
    op.add_column("runs", sa.Column("quarantined", sa.Boolean(), nullable=False, server_default=sa.text("false")))
    op.create_index("ix_runs_status_workload_id_not_before", "runs", ["status", "workload_id", "not_before"])


def _create_attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("run_id", KEY, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer()),
        sa.Column("status", KEY, nullable=False),
        sa.Column("http_status", sa.Integer()),
        sa.Column("error", sa.Text()),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_attempts_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_attempts"),
    )


def _create_callbacks() -> None:
    op.create_table(
        "callbacks",
        sa.Column("run_id", KEY, nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("status", KEY, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("http_status", sa.Integer()),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_callbacks_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name="pk_callbacks"),
    )
    op.create_index("ix_callbacks_status_namespace_not_before", "callbacks", ["status", "namespace", "not_before"])


def _create_discards() -> None:
    op.create_table("discards", sa.Column("artifact", KEY, nullable=False), sa.PrimaryKeyConstraint("artifact", name="pk_discards"))


def upgrade() -> None:
    _extend_tenants()
    _extend_triggers()
    _extend_runs()
    _create_attempts()
    _create_callbacks()
    _create_discards()
