"""The tables in SQLAlchemy Core. `migrations/` creates them; a test compares the two.

Ids are random text. Enumerations are stored as their text. JSON is stored as text (never queried inside, and jsonb refuses \\u0000).
Columns of `SecretText` are encrypted.
History (invocations, log_lines, call_stats) has no foreign keys: it is written later in batches, also for deleted workloads.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)

from sless.store.demand_tables import demand as demand
from sless.store.demand_tables import tenant_use as tenant_use
from sless.store.operator_tables import allowed_code as allowed_code
from sless.store.operator_tables import audit as audit
from sless.store.operator_tables import code_verdicts as code_verdicts
from sless.store.operator_tables import meters as meters
from sless.store.operator_tables import notices as notices
from sless.store.operator_tables import revoked_tokens as revoked_tokens
from sless.store.run_tables import attempts as attempts
from sless.store.run_tables import callbacks as callbacks
from sless.store.run_tables import runs as runs
from sless.store.types import KeyText, SecretText, UserText, UtcDateTime, unique_where
from sless.store.types import metadata as metadata

tenants = Table(
    "tenants",
    metadata,
    Column("namespace", KeyText, primary_key=True),
    Column("sub", UserText, nullable=False),
    Column("limits", KeyText, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    # Secrets that sign the callbacks of the namespace, newest first; created on first use.
    Column("callback_keys", SecretText),
    # The operator's reason; null: not suspended.
    Column("suspended", UserText),
    Column("suspended_at", UtcDateTime),
    # URL that receives notices of failures; null: none are sent.
    Column("notify_url", SecretText),
)

build_counts = Table(
    "build_counts",
    metadata,
    # Builds that a tenant requested per hour. No foreign key, because builds of deleted workloads count, too.
    Column("namespace", KeyText, nullable=False),
    Column("hour", UtcDateTime, nullable=False),
    Column("count", Integer, nullable=False),
    PrimaryKeyConstraint("namespace", "hour"),
)

workloads = Table(
    "workloads",
    metadata,
    Column("id", KeyText, primary_key=True),
    Column("namespace", KeyText, ForeignKey("tenants.namespace"), nullable=False),
    Column("kind", KeyText, nullable=False),
    # `callable` for functions and services, which share their names, `job` for jobs.
    Column("scope", KeyText, nullable=False),
    Column("name", KeyText, nullable=False),
    Column("spec", KeyText, nullable=False),
    Column("secrets", SecretText, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("active_version", Integer),
    Column("observed_generation", Integer, nullable=False, server_default="0"),
    Column("observed_version", Integer),
    Column("observed_ready", Integer, nullable=False, server_default="0"),
    Column("observed_message", UserText, nullable=False, server_default=""),
    Column("observed_failing", Boolean, nullable=False, server_default=text("false")),
    Column("observed_wanted", Integer, nullable=False, server_default="0"),
    Column("observed_at", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("deleted_at", UtcDateTime),
    # Reasons for suspending the workload itself, and its tenant.
    Column("suspended", UserText),
    Column("tenant_suspended", UserText),
    # A name is free again once its owner is being deleted; old and new have different ids, so they cannot be confused.
    unique_where("uq_workloads_name", ("namespace", "scope", "name"), "deleted_at IS NULL"),
    Index("ix_workloads_namespace_scope_name", "namespace", "scope", "name"),
)

versions = Table(
    "versions",
    metadata,
    Column("id", KeyText, primary_key=True),
    Column("workload_id", KeyText, ForeignKey("workloads.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("sha256", KeyText, nullable=False),
    Column("code_hash", UserText),
    Column("runtime", KeyText, nullable=False),
    Column("entrypoint", UserText, nullable=False),
    Column("state", KeyText, nullable=False),
    Column("message", UserText, nullable=False, server_default=""),
    Column("code_key", KeyText, nullable=False),
    Column("artifact", KeyText, nullable=False, server_default=""),
    Column("size_bytes", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("auto_activate", Boolean, nullable=False, server_default=text("true")),
    Column("build_env", SecretText, nullable=False),
    Column("claimed_by", KeyText),
    Column("created_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    # Warnings of the code checks as a JSON list; null: none.
    Column("warnings", KeyText),
    # Subject of the token; null: unknown.
    Column("created_by", UserText),
    UniqueConstraint("workload_id", "number"),
    Index("ix_versions_state_created_at", "state", "created_at"),
    Index("ix_versions_code_key", "code_key"),
)

build_logs = Table(
    "build_logs",
    metadata,
    Column("version_id", KeyText, ForeignKey("versions.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("text", UserText, nullable=False),
    PrimaryKeyConstraint("version_id", "seq"),
)

discards = Table(
    "discards",
    metadata,
    # Artifacts of removed versions (images, for example) that still have to be deleted.
    Column("artifact", KeyText, primary_key=True),
)

triggers = Table(
    "triggers",
    metadata,
    Column("id", KeyText, primary_key=True),
    Column("namespace", KeyText, ForeignKey("tenants.namespace"), nullable=False),
    Column("name", KeyText, nullable=False),
    Column("type", KeyText, nullable=False),
    Column("function_ref", KeyText, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("spec", KeyText, nullable=False),
    Column("secrets", SecretText, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("last_schedule_time", UtcDateTime),
    Column("last_status", KeyText),
    Column("observed_message", UserText, nullable=False, server_default=""),
    Column("observed_active", Boolean, nullable=False, server_default=text("false")),
    Column("scheduled_since", UtcDateTime),
    Column("warm", Boolean, nullable=False, server_default=text("false")),
    Index("uq_triggers_name", "namespace", "name", unique=True),
    unique_where("uq_triggers_http_function_ref", ("namespace", "function_ref"), "type = 'http'"),
    Index("ix_triggers_namespace_function_ref", "namespace", "function_ref"),
)

endpoints = Table(
    "endpoints",
    metadata,
    Column("id", KeyText, primary_key=True),
    Column("workload_id", KeyText, ForeignKey("workloads.id", ondelete="CASCADE"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("address", KeyText, nullable=False),
    Column("draining", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index("ix_endpoints_workload_id", "workload_id"),
)

invocations = Table(
    "invocations",
    metadata,
    Column("id", KeyText, primary_key=True),
    Column("request_id", KeyText, nullable=False),
    Column("namespace", KeyText, nullable=False),
    Column("workload_id", KeyText, nullable=False),
    Column("kind", KeyText, nullable=False),
    Column("name", KeyText, nullable=False),
    Column("version", Integer),
    Column("trigger", KeyText, nullable=False),
    Column("method", UserText, nullable=False),
    Column("path", UserText, nullable=False),
    Column("status", KeyText, nullable=False),
    Column("http_status", Integer),
    Column("duration_ms", Float),
    Column("cold", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("error", UserText),
    Column("request_bytes", BigInteger, nullable=False),
    Column("response_bytes", BigInteger, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("result", UserText),
    Index("ix_invocations_workload_id_started_at", "workload_id", "started_at"),
    Index("ix_invocations_workload_id_request_id", "workload_id", "request_id"),
)

log_lines = Table(
    "log_lines",
    metadata,
    # The cursor of followed logs: grows in the order in which lines become visible.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("source_id", KeyText, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("workload_id", KeyText, nullable=False),
    Column("invocation_id", KeyText, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("stream", KeyText, nullable=False),
    Column("text", UserText, nullable=False),
    UniqueConstraint("source_id", "seq"),
    Index("ix_log_lines_workload_id_id", "workload_id", "id"),
    Index("ix_log_lines_invocation_id", "invocation_id", "workload_id", "id"),
    Index("ix_log_lines_at", "at"),
    sqlite_autoincrement=True,
)

call_stats = Table(
    "call_stats",
    metadata,
    Column("workload_id", KeyText, nullable=False),
    Column("version", Integer, nullable=False),
    Column("minute", UtcDateTime, nullable=False),
    # The server process that counted. Each adds to its own rows only, so none waits for another.
    Column("writer", KeyText, nullable=False),
    Column("namespace", KeyText, nullable=False),
    Column("kind", KeyText, nullable=False),
    Column("name", KeyText, nullable=False),
    # UTC date of `minute` as text, so that usage per day is one grouped query on both databases.
    Column("day", KeyText, nullable=False),
    Column("calls", BigInteger, nullable=False),
    Column("errors", BigInteger, nullable=False),
    Column("gb_ms", Float, nullable=False),
    Column("duration_ms", Float, nullable=False),
    Column("histogram", KeyText, nullable=False),
    # The part of gb_ms from one-off runs; other calls used instances, whose uptime is counted instead.
    Column("run_gb_ms", Float, nullable=False, server_default="0"),
    Column("sent_bytes", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("workload_id", "version", "minute", "writer"),
    Index("ix_call_stats_workload_id_minute", "workload_id", "minute"),
    Index("ix_call_stats_namespace_day", "namespace", "day"),
    Index("ix_call_stats_minute", "minute"),
)

instance_uptime = Table(
    "instance_uptime",
    metadata,
    # Memory × lifetime of instances, whether called or not. Written by the leader.
    Column("workload_id", KeyText, nullable=False),
    Column("day", KeyText, nullable=False),
    Column("namespace", KeyText, nullable=False),
    Column("kind", KeyText, nullable=False),
    Column("name", KeyText, nullable=False),
    Column("gb_ms", Float, nullable=False),
    PrimaryKeyConstraint("workload_id", "day"),
    Index("ix_instance_uptime_namespace_day", "namespace", "day"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", KeyText, primary_key=True),
    Column("holder", KeyText, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)

revisions = Table(
    "revisions",
    metadata,
    Column("name", KeyText, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

meta = Table(
    "meta",
    metadata,
    Column("key", KeyText, primary_key=True),
    Column("value", KeyText, nullable=False),
)
