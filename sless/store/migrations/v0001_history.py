"""History tables of the first schema: runs, attempts, callbacks, invocations, log lines, statistics."""

import sqlalchemy as sa
from alembic import op

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Sorts alike on both databases, whatever the server's locale."""


def create() -> None:
    _create_runs()
    _create_attempts()
    _create_callbacks()
    _create_invocations()
    _create_log_lines()
    _create_call_stats()


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", KEY, nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("workload_id", KEY, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("trigger", KEY, nullable=False),
        sa.Column("request_id", KEY, nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("status", KEY, nullable=False),
        sa.Column("job_run_id", sa.BigInteger()),
        sa.Column("trigger_id", KEY),
        sa.Column("due_at", sa.DateTime(timezone=True)),
        sa.Column("version", sa.Integer()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claimed_by", KEY),
        sa.Column("result", sa.Text()),
        sa.Column("message", sa.Text(), nullable=False, server_default=""),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("http_status", sa.Integer()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("callback_url", sa.Text()),
        sa.Column("attempts_before", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("request", sa.Text()),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("quarantined", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.ForeignKeyConstraint(["workload_id"], ["workloads.id"], name="fk_runs_workload_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("trigger_id", "due_at", name="uq_runs_trigger_id_due_at"),
        sa.UniqueConstraint("workload_id", "job_run_id", name="uq_runs_workload_id_job_run_id"),
    )
    op.create_index("ix_runs_ended_at", "runs", ["ended_at"])
    op.create_index("ix_runs_status_namespace", "runs", ["status", "namespace", "workload_id", "size_bytes"])
    op.create_index("ix_runs_status_not_before", "runs", ["status", "not_before"])
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


def _create_invocations() -> None:
    op.create_table(
        "invocations",
        sa.Column("id", KEY, nullable=False),
        sa.Column("request_id", KEY, nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("workload_id", KEY, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("version", sa.Integer()),
        sa.Column("trigger", KEY, nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("status", KEY, nullable=False),
        sa.Column("http_status", sa.Integer()),
        sa.Column("duration_ms", sa.Float()),
        sa.Column("cold", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("request_bytes", sa.BigInteger(), nullable=False),
        sa.Column("response_bytes", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("result", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_invocations"),
    )
    op.create_index("ix_invocations_workload_id_request_id", "invocations", ["workload_id", "request_id"])
    op.create_index("ix_invocations_workload_id_started_at", "invocations", ["workload_id", "started_at"])


def _create_log_lines() -> None:
    op.create_table(
        "log_lines",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("source_id", KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("workload_id", KEY, nullable=False),
        sa.Column("invocation_id", KEY, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stream", KEY, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_log_lines"),
        sa.UniqueConstraint("source_id", "seq", name="uq_log_lines_source_id_seq"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_log_lines_at", "log_lines", ["at"])
    op.create_index("ix_log_lines_invocation_id", "log_lines", ["invocation_id", "workload_id", "id"])
    op.create_index("ix_log_lines_workload_id_id", "log_lines", ["workload_id", "id"])


def _create_call_stats() -> None:
    op.create_table(
        "call_stats",
        sa.Column("workload_id", KEY, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("minute", sa.DateTime(timezone=True), nullable=False),
        sa.Column("writer", KEY, nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("day", KEY, nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("gb_ms", sa.Float(), nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.Column("histogram", KEY, nullable=False),
        sa.PrimaryKeyConstraint("workload_id", "version", "minute", "writer", name="pk_call_stats"),
    )
    op.create_index("ix_call_stats_minute", "call_stats", ["minute"])
    op.create_index("ix_call_stats_namespace_day", "call_stats", ["namespace", "day"])
    op.create_index("ix_call_stats_workload_id_minute", "call_stats", ["workload_id", "minute"])
