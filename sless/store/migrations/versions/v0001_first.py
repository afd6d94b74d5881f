"""The first schema. Types are plain SQLAlchemy ones, so that later code changes cannot alter this file."""

import sqlalchemy as sa
from alembic import op

from sless.store.migrations import v0001_history
from sless.store.migrations.v0001_history import KEY

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
        sa.Column("callback_keys", KEY),
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
        sa.Column("last_status", KEY),
        sa.Column("observed_message", sa.Text(), nullable=False, server_default=""),
        sa.Column("observed_active", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column("scheduled_since", sa.DateTime(timezone=True)),
        sa.Column("warm", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.ForeignKeyConstraint(["namespace"], ["tenants.namespace"], name="fk_triggers_namespace"),
        sa.PrimaryKeyConstraint("id", name="pk_triggers"),
    )
    op.create_index("ix_triggers_namespace_function_ref", "triggers", ["namespace", "function_ref"])
    where = sa.text("type = 'http'")
    columns = ["namespace", "function_ref"]
    op.create_index("uq_triggers_http_function_ref", "triggers", columns, unique=True, sqlite_where=where, postgresql_where=where)
    op.create_index("uq_triggers_name", "triggers", ["namespace", "name"], unique=True)


def _create_discards() -> None:
    op.create_table("discards", sa.Column("artifact", KEY, nullable=False), sa.PrimaryKeyConstraint("artifact", name="pk_discards"))


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
    v0001_history.create()
    _create_discards()
    _create_endpoints()
    _create_leases()
    _create_revisions()
    _create_meta()
    op.execute("INSERT INTO revisions (name, value) VALUES ('routes', 1), ('triggers', 1)")
