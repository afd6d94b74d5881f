"""Tenants: one row per namespace."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, exists, func, or_, select, update

from sless import clock
from sless.domain.audit import Note, value_change
from sless.domain.limits import LimitName
from sless.domain.model import CallStatus, Kind, Tenant
from sless.errors import Code, SlessError
from sless.store import audit, codec, revision
from sless.store.engine import Database
from sless.store.tables import build_counts, endpoints, runs, tenants, triggers, versions, workloads


class TenantStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def ensure(self, namespace: str, sub: str) -> Tenant:
        """Keeps the first subject seen for a namespace, so that an operator who acts for a tenant (`sub` "") does not take it over."""
        with self._db.write() as conn:
            return self._ensure(conn, namespace, sub)

    def set_limits(self, namespace: str, limits: Mapping[str, int]) -> Tenant:
        """Replaces the limits of a namespace, which is created if necessary. The routes, which carry them, count as changed."""
        with self._db.write() as conn:
            before = self._ensure(conn, namespace, "").limits
            conn.execute(update(tenants).where(tenants.c.namespace == namespace).values(limits=codec.encode(dict(limits))))
            names = sorted(name for name in {*before, *limits} if before.get(name) != limits.get(name))
            changes = tuple(value_change(name, before.get(name), limits.get(name)) for name in names)
            audit.note(conn, Note(namespace=namespace, kind="limits", name=namespace, verb="update", changes=changes))
            revision.bump(conn)
            return _tenant_of(conn.execute(select(tenants).where(tenants.c.namespace == namespace)).one())

    def _ensure(self, conn: Connection, namespace: str, sub: str) -> Tenant:
        values = {"namespace": namespace, "sub": sub, "limits": codec.encode({}), "created_at": clock.now()}
        if conn.execute(self._db.insert(tenants).on_conflict_do_nothing(), values).rowcount == 1:
            audit.note(conn, Note(namespace=namespace, kind="namespace", name=namespace, verb="create"))
        if sub:
            conn.execute(update(tenants).where(tenants.c.namespace == namespace, tenants.c.sub == "").values(sub=sub))
        return _tenant_of(conn.execute(select(tenants).where(tenants.c.namespace == namespace)).one())

    def find(self, namespace: str) -> Tenant | None:
        with self._db.read() as conn:
            row = conn.execute(select(tenants).where(tenants.c.namespace == namespace)).one_or_none()
            return _tenant_of(row) if row else None

    def list(self, limit: int | None = None, after: str | None = None, suspended: bool | None = None) -> list[Tenant]:
        """By namespace. `suspended` filters: True only suspended tenants, False only the others, None all."""
        query = select(tenants).order_by(tenants.c.namespace).limit(limit)
        if after is not None:
            query = query.where(tenants.c.namespace > after)
        if suspended is not None:
            query = query.where(tenants.c.suspended.is_not(None) if suspended else tenants.c.suspended.is_(None))
        with self._db.read() as conn:
            return [_tenant_of(row) for row in conn.execute(query)]

    def set_limits_of_all(self) -> dict[str, dict[str, int]]:
        """Limits that operators have set, by namespace; tenants with defaults only are left out."""
        with self._db.read() as conn:
            return set_limits(conn)

    def delete(self, namespace: str) -> None:
        """Raises CONFLICT while the namespace holds anything, even if it is being deleted. Ignores unknown namespaces."""
        full = SlessError(Code.CONFLICT, f'namespace "{namespace}" is not empty')
        with self._db.write(gone=full) as conn:
            holds = or_(
                exists().where(workloads.c.namespace == namespace),
                exists().where(triggers.c.namespace == namespace),
            )
            if conn.execute(select(holds)).scalar_one():
                raise full
            # Else a suspended tenant could escape its suspension by deleting its namespace.
            conn.execute(delete(tenants).where(tenants.c.namespace == namespace, tenants.c.suspended.is_(None)))

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

    def used(self, namespace: str) -> dict[str, int]:
        """Usage that counts towards limits: `counts`, and the other `domain.limits` that can be read from the database."""
        counted = {
            LimitName.CODE_BYTES: select(func.sum(_stored(namespace).c.size_bytes)),
            LimitName.BUILDS_PER_HOUR: select(func.sum(build_counts.c.count)).where(
                build_counts.c.namespace == namespace, build_counts.c.hour == hour_of(clock.now())
            ),
            LimitName.RUNS_AT_ONCE: select(func.count()).where(runs.c.namespace == namespace, runs.c.status == CallStatus.RUNNING),
            LimitName.INSTANCES: select(func.count())
            .select_from(endpoints)
            .join(workloads, workloads.c.id == endpoints.c.workload_id)
            .where(workloads.c.namespace == namespace, endpoints.c.draining.is_(False)),
            LimitName.ASYNC_PER_TENANT: select(func.count()).where(runs.c.namespace == namespace, runs.c.status == CallStatus.QUEUED),
            LimitName.ASYNC_BYTES: select(func.sum(runs.c.size_bytes)).where(
                runs.c.namespace == namespace, runs.c.status == CallStatus.QUEUED
            ),
        }
        with self._db.read() as conn:
            found = {str(name): int(conn.execute(query).scalar_one() or 0) for name, query in counted.items()}
        return self.counts(namespace) | found

    def code_bytes(self, namespace: str) -> int:
        """Size of the stored code of all versions; code that several versions share counts once."""
        with self._db.read() as conn:
            return int(conn.execute(select(func.sum(_stored(namespace).c.size_bytes))).scalar_one() or 0)

    def count_build(self, namespace: str, most: int) -> bool:
        """Counts a build in this hour; False if `most` have already been counted. Deleting the result does not undo the count."""
        hour = hour_of(clock.now())
        this_hour = (build_counts.c.namespace == namespace, build_counts.c.hour == hour)
        with self._db.write() as conn:
            conn.execute(delete(build_counts).where(build_counts.c.namespace == namespace, build_counts.c.hour < hour))
            values = {"namespace": namespace, "hour": hour, "count": 0}
            conn.execute(self._db.insert(build_counts).on_conflict_do_nothing(), values)
            counted = update(build_counts).where(*this_hour, build_counts.c.count < most).values(count=build_counts.c.count + 1)
            return conn.execute(counted).rowcount == 1


def set_limits(conn: Connection) -> dict[str, dict[str, int]]:
    """Limits that differ from the defaults, by namespace."""
    query = select(tenants.c.namespace, tenants.c.limits).where(tenants.c.limits != codec.encode({}))
    return {namespace: codec.decode(text) for namespace, text in conn.execute(query)}


def hour_of(moment: datetime) -> datetime:
    """The start of the hour."""
    return moment.replace(minute=0, second=0, microsecond=0)


def _stored(namespace: str) -> Any:
    of_tenant = select(versions.c.code_key, versions.c.size_bytes).join(workloads, workloads.c.id == versions.c.workload_id)
    return of_tenant.where(workloads.c.namespace == namespace).distinct().subquery()


def _tenant_of(row: Any) -> Tenant:
    return Tenant(
        namespace=row.namespace,
        sub=row.sub,
        limits=codec.decode(row.limits),
        created_at=row.created_at,
        suspended=row.suspended,
        suspended_at=row.suspended_at,
    )
