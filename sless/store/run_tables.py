"""Tables of runs, their attempts and callbacks. `tables` holds the others and the conventions."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, PrimaryKeyConstraint, Table, UniqueConstraint, text

from sless.store.types import KeyText, SecretText, UserText, UtcDateTime, delivery_columns, metadata

runs = Table(
    "runs",
    metadata,
    Column("id", KeyText, primary_key=True),
    Column("namespace", KeyText, nullable=False),
    Column("workload_id", KeyText, ForeignKey("workloads.id", ondelete="CASCADE"), nullable=False),
    Column("kind", KeyText, nullable=False),
    Column("name", KeyText, nullable=False),
    Column("trigger", KeyText, nullable=False),
    Column("request_id", KeyText, nullable=False),
    Column("event", UserText, nullable=False),
    Column("status", KeyText, nullable=False),
    Column("job_run_id", BigInteger),
    Column("trigger_id", KeyText),
    Column("due_at", UtcDateTime),
    Column("version", Integer),
    Column("attempts", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("not_before", UtcDateTime, nullable=False),
    Column("claimed_by", KeyText),
    Column("result", UserText),
    Column("message", UserText, nullable=False, server_default=""),
    Column("exit_code", Integer),
    Column("http_status", Integer),
    Column("created_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("callback_url", SecretText),
    # Attempts before the last manual retry: numbers continue, and the retry gets `max_attempts` more.
    Column("attempts_before", Integer, nullable=False, server_default="0"),
    # Head and body of a call over /fn as JSON (`domain.request`), from which the event is made.
    Column("request", UserText),
    # Quarantined: an instance ended during this call. Such calls of a workload are retried one at a time.
    Column("size_bytes", BigInteger, nullable=False, server_default="0"),
    Column("quarantined", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("workload_id", "job_run_id"),
    UniqueConstraint("trigger_id", "due_at"),
    Index("ix_runs_status_not_before", "status", "not_before"),
    # One seek per workload with queued runs keeps the choice fair and fast, however long one queue is.
    Index("ix_runs_status_workload_id_not_before", "status", "workload_id", "not_before"),
    # Covers the query for the limits of the queue.
    Index("ix_runs_status_namespace", "status", "namespace", "workload_id", "size_bytes"),
    Index("ix_runs_ended_at", "ended_at"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("run_id", KeyText, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("version", Integer),
    Column("status", KeyText, nullable=False),
    Column("http_status", Integer),
    Column("error", UserText),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    PrimaryKeyConstraint("run_id", "number"),
)

callbacks = Table(
    "callbacks",
    metadata,
    # At most one per run; a retried run gets a new one for its new result.
    *delivery_columns("run_id", ForeignKey("runs.id", ondelete="CASCADE")),
    # As for runs: one seek per namespace with pending callbacks.
    Index("ix_callbacks_status_namespace_not_before", "status", "namespace", "not_before"),
)
