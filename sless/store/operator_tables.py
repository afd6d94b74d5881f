"""Tables for operators. They have no foreign keys, because rows outlive the tenants and workloads that they name."""

from sqlalchemy import BigInteger, Column, Float, Index, Integer, PrimaryKeyConstraint, Table

from sless.store.types import KeyText, UserText, UtcDateTime, delivery_columns, metadata

audit = Table(
    "audit",
    metadata,
    # Cursor of the list: grows in the order of the changes.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at", UtcDateTime, nullable=False),
    Column("namespace", KeyText, nullable=False),
    Column("sub", UserText, nullable=False),
    Column("address", UserText, nullable=False),
    Column("request_id", KeyText, nullable=False),
    Column("action", KeyText, nullable=False),
    Column("kind", KeyText, nullable=False),
    Column("name", KeyText, nullable=False),
    Column("changes", KeyText, nullable=False),
    Index("ix_audit_namespace_id", "namespace", "id"),
    Index("ix_audit_at", "at"),
    sqlite_autoincrement=True,
)

revoked_tokens = Table(
    "revoked_tokens",
    metadata,
    Column("token_id", KeyText, primary_key=True),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("revoked_at", UtcDateTime, nullable=False),
    Column("sub", UserText, nullable=False),
    Column("reason", UserText, nullable=False),
)

code_verdicts = Table(
    "code_verdicts",
    metadata,
    # Verdicts of a language model on code, by content, model and prompt version.
    Column("sha256", KeyText, nullable=False),
    Column("prompt_key", KeyText, nullable=False),
    Column("opinion", KeyText, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("sha256", "prompt_key"),
    Index("ix_code_verdicts_at", "at"),
)

allowed_code = Table(
    "allowed_code",
    metadata,
    Column("sha256", KeyText, primary_key=True),
    Column("reason", UserText, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

meters = Table(
    "meters",
    metadata,
    # Usage that `call_stats` does not count, per tenant and UTC day.
    Column("namespace", KeyText, nullable=False),
    Column("day", KeyText, nullable=False),
    Column("build_ms", Float, nullable=False),
    Column("stored_bytes", BigInteger, nullable=False),
    PrimaryKeyConstraint("namespace", "day"),
)

notices = Table(
    "notices",
    metadata,
    # Notices to tenants with a notify_url.
    *delivery_columns("id"),
    Column("event", KeyText, nullable=False),
    Column("body", UserText, nullable=False),
    Index("ix_notices_status_namespace_not_before", "status", "namespace", "not_before"),
    Index("ix_notices_created_at", "created_at"),
)

reconcile_errors = Table(
    "reconcile_errors",
    metadata,
    # One row per loop and workload; "": a whole tick.
    Column("loop", KeyText, nullable=False),
    Column("workload_id", KeyText, nullable=False),
    Column("message", UserText, nullable=False),
    Column("count", Integer, nullable=False),
    Column("first_at", UtcDateTime, nullable=False),
    Column("last_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("loop", "workload_id"),
)

standing_instances = Table(
    "standing_instances",
    metadata,
    Column("endpoint_id", KeyText, primary_key=True),
    Column("memory_mb", Integer, nullable=False),
    # Its time up to here is in `instance_uptime`.
    Column("counted_until", UtcDateTime, nullable=False),
)
