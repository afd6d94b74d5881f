"""Reports over many tenants for operators: counts, usage, failing builds, queues."""

from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, Table, exists, func, select

from sless.domain.callback import CallbackStatus
from sless.domain.model import CallStatus, Kind, VersionState
from sless.domain.operators import FailingBuild, QueueDepth, TimePlace
from sless.store.engine import Database
from sless.store.operator_tables import notices
from sless.store.queries import in_batches, is_after
from sless.store.tables import call_stats, callbacks, runs, triggers, versions, workloads

CallTotals = tuple[int, int, float]
"""Calls, errors, GB-seconds."""


class TenantReportStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def counts_of(self, namespaces: Collection[str]) -> dict[str, dict[str, int]]:
        """Counts by namespace, as in `TenantStore.counts`."""
        found = {name: {f"{kind}s": 0 for kind in Kind} | {"triggers": 0} for name in namespaces}
        with self._db.read() as conn:
            for batch in in_batches(namespaces):
                columns = workloads.c
                query = select(columns.namespace, columns.kind, func.count()).where(
                    columns.namespace.in_(batch), columns.deleted_at.is_(None)
                )
                for namespace, kind, count in conn.execute(query.group_by(columns.namespace, columns.kind)):
                    found[namespace][f"{kind}s"] = count
                of_triggers = select(triggers.c.namespace, func.count()).where(triggers.c.namespace.in_(batch))
                for namespace, count in conn.execute(of_triggers.group_by(triggers.c.namespace)):
                    found[namespace]["triggers"] = count
        return found

    def calls_of(self, namespaces: Collection[str], since: datetime) -> dict[str, CallTotals]:
        """Calls by namespace, from the UTC day of `since` on; only namespaces with calls."""
        columns, found = call_stats.c, dict[str, CallTotals]()
        day = since.astimezone(UTC).date().isoformat()
        with self._db.read() as conn:
            for batch in in_batches(namespaces):
                query = select(columns.namespace, func.sum(columns.calls), func.sum(columns.errors), func.sum(columns.gb_ms))
                query = query.where(columns.namespace.in_(batch), columns.day >= day).group_by(columns.namespace)
                found.update((row[0], (int(row[1]), int(row[2]), float(row[3]) / 1000)) for row in conn.execute(query))
        return found

    def failing_builds(self, limit: int | None, after: TimePlace | None = None) -> list[FailingBuild]:
        """The newest failure first."""
        newer, version, owner = versions.alias("newer"), versions.c, workloads.c
        failed_at = func.coalesce(version.ended_at, version.created_at)
        is_newest = ~exists().where(newer.c.workload_id == version.workload_id, newer.c.number > version.number)
        query = (
            select(
                owner.namespace, owner.kind, owner.name, owner.active_version.label("active"), version.number.label("version"),
                version.message, version.id.label("version_id"), failed_at.label("failed_at"),
            )
            .join(workloads, owner.id == version.workload_id)
            .where(version.state == VersionState.FAILED, owner.deleted_at.is_(None), is_newest, is_after(after, failed_at, version.id))
        )  # fmt: skip
        with self._db.read() as conn:
            rows = conn.execute(query.order_by(failed_at.desc(), version.id).limit(limit)).mappings().all()
        return [FailingBuild(**{**row, "kind": Kind(row["kind"])}) for row in rows]

    def queues(self) -> list[QueueDepth]:
        """Depths of the stored queues, which all replicas of the server share."""
        with self._db.read() as conn:
            return [
                _depth(conn, "builds", versions, versions.c.created_at, VersionState.QUEUED),
                _depth(conn, "runs", runs, runs.c.not_before, CallStatus.QUEUED),
                _depth(conn, "callbacks", callbacks, callbacks.c.not_before, CallbackStatus.PENDING),
                _depth(conn, "notices", notices, notices.c.not_before, CallbackStatus.PENDING),
            ]


def _depth(conn: Connection, queue: str, table: Table, due: ColumnElement[datetime], status: str) -> QueueDepth:
    """`table` has `status` or, for versions, `state`."""
    state = table.c.state if "state" in table.c else table.c.status
    waiting, due_at = conn.execute(select(func.count(), func.min(due)).where(state == status)).one()
    return QueueDepth(queue=queue, waiting=waiting, due_at=due_at)
