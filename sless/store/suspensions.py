"""Suspension by an operator. The row of each workload also holds the reason of its tenant's suspension, so that readers of workloads
(routes, instances, runs, firings, listeners) need no other row."""

from sqlalchemy import Connection, select, update

from sless import clock
from sless.domain.audit import Note, value_change
from sless.errors import NotFound
from sless.store import audit, revision
from sless.store.engine import Database
from sless.store.tables import tenants, workloads
from sless.store.workloads import lock, note_of


class SuspensionStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def set_tenant(self, namespace: str, reason: str | None) -> None:
        """`reason` None resumes. Raises NOT_FOUND."""
        with self._db.write() as conn:
            before = _lock_reason(conn, namespace)
            values = {"suspended": reason, "suspended_at": clock.now() if reason is not None else None}
            conn.execute(update(tenants).where(tenants.c.namespace == namespace).values(values))
            conn.execute(update(workloads).where(workloads.c.namespace == namespace).values(tenant_suspended=reason))
            verb = "resume" if reason is None else "suspend"
            change = value_change("suspended", before, reason)
            audit.note(conn, Note(namespace=namespace, kind="namespace", name=namespace, verb=verb, changes=(change,)))
            revision.bump(conn)

    def set_workload(self, workload_id: str, reason: str | None) -> None:
        """`reason` None resumes, unless its tenant is suspended too. Raises NOT_FOUND."""
        with self._db.write() as conn:
            workload = lock(conn, workload_id)
            own = select(workloads.c.suspended).where(workloads.c.id == workload_id)
            change = value_change("suspended", conn.execute(own).scalar_one(), reason)
            conn.execute(update(workloads).where(workloads.c.id == workload_id).values(suspended=reason))
            audit.note(conn, note_of(workload, "resume" if reason is None else "suspend", change))
            revision.bump(conn)

    def find_tenant_reason(self, namespace: str) -> str | None:
        with self._db.read() as conn:
            return conn.execute(select(tenants.c.suspended).where(tenants.c.namespace == namespace)).scalar_one_or_none()


def _lock_reason(conn: Connection, namespace: str) -> str | None:
    row = conn.execute(select(tenants.c.suspended).where(tenants.c.namespace == namespace).with_for_update()).one_or_none()
    if row is None:
        raise NotFound("namespace", namespace)
    reason: str | None = row[0]
    return reason
