"""The first schema. Types are plain SQLAlchemy's, so that later changes of the code leave this file alone."""

import sqlalchemy as sa
from alembic import op

# Sorts alike on both databases, whatever the locale of the server.
KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _create_tenants() -> None:
    op.create_table(
        "tenants",
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("sub", sa.Text(), nullable=False),
        sa.Column("limits", KEY, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("namespace", name="pk_tenants"),
    )


def _create_workloads() -> None:
    op.create_table(
        "workloads",
        sa.Column("id", KEY, nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("scope", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("spec", KEY, nullable=False),
        sa.Column("secrets", KEY, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("active_version", sa.Integer()),
        sa.Column("observed_generation", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("observed_version", sa.Integer()),
        sa.Column("observed_ready", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("observed_message", sa.Text(), nullable=False, server_default=""),
        sa.Column("observed_failing", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column("observed_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["namespace"], ["tenants.namespace"], name="fk_workloads_namespace"),
        sa.PrimaryKeyConstraint("id", name="pk_workloads"),
    )
    op.create_index("ix_workloads_namespace_scope_name", "workloads", ["namespace", "scope", "name"])
    where = sa.text("deleted_at IS NULL")
    columns = ["namespace", "scope", "name"]
    op.create_index("uq_workloads_name", "workloads", columns, unique=True, sqlite_where=where, postgresql_where=where)


def _create_versions() -> None:
    op.create_table(
        "versions",
        sa.Column("id", KEY, nullable=False),
        sa.Column("workload_id", KEY, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("sha256", KEY, nullable=False),
        sa.Column("code_hash", sa.Text()),
        sa.Column("runtime", KEY, nullable=False),
        sa.Column("entrypoint", sa.Text(), nullable=False),
        sa.Column("state", KEY, nullable=False),
        sa.Column("message", sa.Text(), nullable=False, server_default=""),
        sa.Column("code_key", KEY, nullable=False),
        sa.Column("artifact", KEY, nullable=False, server_default=""),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("auto_activate", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        sa.Column("build_env", KEY, nullable=False),
        sa.Column("claimed_by", KEY),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["workload_id"], ["workloads.id"], name="fk_versions_workload_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_versions"),
        sa.UniqueConstraint("workload_id", "number", name="uq_versions_workload_id_number"),
    )
    op.create_index("ix_versions_code_key", "versions", ["code_key"])
    op.create_index("ix_versions_state_created_at", "versions", ["state", "created_at"])


def _create_build_logs() -> None:
    op.create_table(
        "build_logs",
        sa.Column("version_id", KEY, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["versions.id"], name="fk_build_logs_version_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("version_id", "seq", name="pk_build_logs"),
    )


def _create_triggers() -> None:
    op.create_table(
        "triggers",
        sa.Column("id", KEY, nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("type", KEY, nullable=False),
        sa.Column("function_ref", KEY, nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("spec", KEY, nullable=False),
        sa.Column("secrets", KEY, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_schedule_time", sa.DateTime(timezone=True)),
        sa.Column("next_schedule_time", sa.DateTime(timezone=True)),
        sa.Column("last_status", KEY),
        sa.Column("observed_message", sa.Text(), nullable=False, server_default=""),
        sa.Column("deleted_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["namespace"], ["tenants.namespace"], name="fk_triggers_namespace"),
        sa.PrimaryKeyConstraint("id", name="pk_triggers"),
    )
    op.create_index("ix_triggers_namespace_function_ref", "triggers", ["namespace", "function_ref"])
    where = sa.text("type = 'http' AND deleted_at IS NULL")
    columns = ["namespace", "function_ref"]
    op.create_index("uq_triggers_http_function_ref", "triggers", columns, unique=True, sqlite_where=where, postgresql_where=where)
    where = sa.text("deleted_at IS NULL")
    columns = ["namespace", "name"]
    op.create_index("uq_triggers_name", "triggers", columns, unique=True, sqlite_where=where, postgresql_where=where)


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
        sa.ForeignKeyConstraint(["workload_id"], ["workloads.id"], name="fk_runs_workload_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("trigger_id", "due_at", name="uq_runs_trigger_id_due_at"),
        sa.UniqueConstraint("workload_id", "job_run_id", name="uq_runs_workload_id_job_run_id"),
    )
    op.create_index("ix_runs_ended_at", "runs", ["ended_at"])
    op.create_index("ix_runs_status_not_before", "runs", ["status", "not_before"])


def _create_endpoints() -> None:
    op.create_table(
        "endpoints",
        sa.Column("id", KEY, nullable=False),
        sa.Column("workload_id", KEY, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("address", KEY, nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["workload_id"], ["workloads.id"], name="fk_endpoints_workload_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_endpoints"),
    )
    op.create_index("ix_endpoints_workload_id", "endpoints", ["workload_id"])


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


def _create_leases() -> None:
    op.create_table(
        "leases",
        sa.Column("name", KEY, nullable=False),
        sa.Column("holder", KEY, nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )


def _create_revisions() -> None:
    op.create_table(
        "revisions",
        sa.Column("name", KEY, nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_revisions"),
    )


def _create_meta() -> None:
    op.create_table(
        "meta",
        sa.Column("key", KEY, nullable=False),
        sa.Column("value", KEY, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )


def upgrade() -> None:
    _create_tenants()
    _create_workloads()
    _create_versions()
    _create_build_logs()
    _create_triggers()
    _create_runs()
    _create_endpoints()
    _create_invocations()
    _create_log_lines()
    _create_call_stats()
    _create_leases()
    _create_revisions()
    _create_meta()
    op.execute("INSERT INTO revisions (name, value) VALUES ('routes', 1)")
