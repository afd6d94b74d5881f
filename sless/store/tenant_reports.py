"""Counts and usage of many tenants at once, for operators."""

from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy import func, select

from sless.domain.model import Kind
from sless.store.engine import Database
from sless.store.queries import in_batches
from sless.store.tables import call_stats, triggers, workloads

CallTotals = tuple[int, int, float]
"""Calls, errors, GB-seconds."""


class TenantReportStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def counts_of(self, namespaces: Collection[str]) -> dict[str, dict[str, int]]:
        """By namespace, as `TenantStore.counts`."""
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
        """By namespace, from the UTC day of `since` on; only those with calls."""
        columns, found = call_stats.c, dict[str, CallTotals]()
        day = since.astimezone(UTC).date().isoformat()
        with self._db.read() as conn:
            for batch in in_batches(namespaces):
                query = select(columns.namespace, func.sum(columns.calls), func.sum(columns.errors), func.sum(columns.gb_ms))
                query = query.where(columns.namespace.in_(batch), columns.day >= day).group_by(columns.namespace)
                found.update((row[0], (int(row[1]), int(row[2]), float(row[3]) / 1000)) for row in conn.execute(query))
        return found
