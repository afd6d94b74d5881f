"""Tables through which the replicas of the server exchange numbers. `tables` holds the others and the conventions."""

from sqlalchemy import Column, Integer, PrimaryKeyConstraint, Table

from sless.store.types import KeyText, UtcDateTime, metadata

demand = Table(
    "demand",
    metadata,
    # Load on one replica of the server; the leader adds up rows that are at most a few seconds old.
    Column("workload_id", KeyText, nullable=False),
    Column("replica", KeyText, nullable=False),
    Column("waiting", Integer, nullable=False),
    Column("in_flight", Integer, nullable=False),
    Column("called_at", UtcDateTime),
    Column("at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("workload_id", "replica"),
)

tenant_use = Table(
    "tenant_use",
    metadata,
    # Use by a tenant on one replica since the replica's previous row; rows count for a few seconds.
    Column("replica", KeyText, nullable=False),
    Column("namespace", KeyText, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("memory_mb", Integer, nullable=False),
    PrimaryKeyConstraint("replica", "namespace", "at"),
)
