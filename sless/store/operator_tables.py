"""Tables for the people who run sless. No foreign keys: they outlive the tenants and workloads that they name."""

from sqlalchemy import BigInteger, Column, Index, Integer, Table

from sless.store.types import KeyText, UserText, UtcDateTime, metadata

audit = Table(
    "audit",
    metadata,
    # Grows in the order of the changes: the cursor of the list.
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
