"""Tenants: one row per namespace."""

from typing import Any

from sqlalchemy import delete, exists, func, or_, select

from sless import clock
from sless.domain.audit import Note
from sless.domain.model import Kind, Tenant
from sless.errors import Code, SlessError
from sless.store import audit, codec
from sless.store.engine import Database
from sless.store.tables import tenants, triggers, workloads


class TenantStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def ensure(self, namespace: str, sub: str) -> Tenant:
        """Keeps the first subject seen for a namespace, so that an operator who acts for a tenant does not take it over."""
        with self._db.write() as conn:
            values = {"namespace": namespace, "sub": sub, "limits": codec.encode({}), "created_at": clock.now()}
            if conn.execute(self._db.insert(tenants).on_conflict_do_nothing(), values).rowcount == 1:
                audit.note(conn, Note(namespace=namespace, kind="namespace", name=namespace, verb="create"))
            return _tenant_of(conn.execute(select(tenants).where(tenants.c.namespace == namespace)).one())

    def find(self, namespace: str) -> Tenant | None:
        with self._db.read() as conn:
            row = conn.execute(select(tenants).where(tenants.c.namespace == namespace)).one_or_none()
            return _tenant_of(row) if row else None

    def list(self, limit: int | None = None, after: str | None = None) -> list[Tenant]:
        """By namespace."""
        query = select(tenants).order_by(tenants.c.namespace).limit(limit)
        if after is not None:
            query = query.where(tenants.c.namespace > after)
        with self._db.read() as conn:
            return [_tenant_of(row) for row in conn.execute(query)]

    def delete(self, namespace: str) -> None:
        """Raises CONFLICT while the namespace holds anything, including what is being deleted. Does nothing for an unknown one."""
        full = SlessError(Code.CONFLICT, f'namespace "{namespace}" is not empty')
        with self._db.write(gone=full) as conn:
            holds = or_(
                exists().where(workloads.c.namespace == namespace),
                exists().where(triggers.c.namespace == namespace),
            )
            if conn.execute(select(holds)).scalar_one():
                raise full
            conn.execute(delete(tenants).where(tenants.c.namespace == namespace))

    def counts(self, namespace: str) -> dict[str, int]:
        """`functions`, `services`, `jobs`, `triggers`; without what is being deleted."""
        with self._db.read() as conn:
            by_kind = (
                select(workloads.c.kind, func.count())
                .where(workloads.c.namespace == namespace, workloads.c.deleted_at.is_(None))
                .group_by(workloads.c.kind)
            )
            found = {row[0]: row[1] for row in conn.execute(by_kind)}
            count = select(func.count()).select_from(triggers)
            total = conn.execute(count.where(triggers.c.namespace == namespace)).scalar_one()
        return {f"{kind}s": found.get(kind, 0) for kind in Kind} | {"triggers": total}


def _tenant_of(row: Any) -> Tenant:
    return Tenant(namespace=row.namespace, sub=row.sub, limits=codec.decode(row.limits), created_at=row.created_at)
