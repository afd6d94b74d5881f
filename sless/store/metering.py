"""Usage of tenants per UTC day, for billing. Sums are written in the transaction of the event that they count, and never derived from rows
that the clean-up deletes.

`call_stats` counts calls, GB-seconds and bytes sent; `instance_uptime` the uptime of instances; `meters` build seconds and the maximum of
bytes stored.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, func, select

from sless import clock
from sless.domain.metering import UsageRow
from sless.store.engine import Database
from sless.store.operator_tables import meters
from sless.store.tables import call_stats, instance_uptime, versions, workloads


def count_build(database: Database, conn: Connection, namespace: str, started_at: datetime | None, ended_at: datetime) -> None:
    """Call this in the transaction that ends a build. Its seconds count for the day on which it ends."""
    if started_at is None:
        return
    ms = max(0.0, (ended_at - started_at) / timedelta(milliseconds=1))
    insert = database.insert(meters)
    added = {"build_ms": meters.c.build_ms + insert.excluded.build_ms}
    values = {"namespace": namespace, "day": day_of(ended_at), "build_ms": ms, "stored_bytes": 0}
    conn.execute(insert.on_conflict_do_update(index_elements=["namespace", "day"], set_=added), values)


class MeteringStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def note_stored(self) -> None:
        """Records how many bytes of code each tenant stores now; the row of a day keeps the maximum."""
        code = select(workloads.c.namespace, versions.c.code_key, versions.c.size_bytes).join(
            workloads, workloads.c.id == versions.c.workload_id
        )
        stored = code.distinct().subquery()
        with self._db.read() as conn:
            found = conn.execute(select(stored.c.namespace, func.sum(stored.c.size_bytes)).group_by(stored.c.namespace)).all()
        if not found:
            return
        insert, day = self._db.insert(meters), day_of(clock.now())
        highest = func.max if self._db.is_sqlite else func.greatest
        kept = {"stored_bytes": highest(meters.c.stored_bytes, insert.excluded.stored_bytes)}
        rows = [{"namespace": namespace, "day": day, "build_ms": 0.0, "stored_bytes": int(size)} for namespace, size in sorted(found)]
        with self._db.write() as conn:
            conn.execute(insert.on_conflict_do_update(index_elements=["namespace", "day"], set_=kept), rows)

    def usage(self, first: date, last: date, namespace: str | None = None) -> list[UsageRow]:
        """Usage from `first` to `last`, both included, sorted by namespace and day; days without usage are left out."""
        stats, extra, up = call_stats.c, meters.c, instance_uptime.c
        queries: list[tuple[Any, Select[Any]]] = [
            (stats, select(
                stats.namespace, stats.day, func.sum(stats.calls).label("calls"), func.sum(stats.errors).label("errors"),
                func.sum(stats.gb_ms).label("gb_ms"), func.sum(stats.run_gb_ms).label("run_gb_ms"),
                func.sum(stats.sent_bytes).label("sent_bytes"),
            ).group_by(stats.namespace, stats.day)),
            (extra, select(extra.namespace, extra.day, extra.build_ms, extra.stored_bytes)),
            (up, select(up.namespace, up.day, func.sum(up.gb_ms).label("instance_gb_ms")).group_by(up.namespace, up.day)),
        ]  # fmt: skip
        found: dict[tuple[str, str], dict[str, Any]] = {}
        with self._db.read() as conn:
            for columns, query in queries:
                for row in conn.execute(_within(query, columns, first, last, namespace)).mappings():
                    found.setdefault((row["namespace"], row["day"]), {}).update(row)
        return [_row_of(found[key]) for key in sorted(found)]


def day_of(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


def _within(query: Select[Any], columns: Any, first: date, last: date, namespace: str | None) -> Select[Any]:
    query = query.where(columns.day >= first.isoformat(), columns.day <= last.isoformat())
    return query if namespace is None else query.where(columns.namespace == namespace)


def _row_of(sums: Mapping[str, Any]) -> UsageRow:
    """`sums` has the columns of the tables with use on that day. Rows of earlier versions have no `run_gb_ms` and `sent_bytes`."""

    def seconds(name: str) -> float:
        return float(sums.get(name) or 0) / 1000

    return UsageRow(
        namespace=sums["namespace"],
        day=sums["day"],
        calls=int(sums.get("calls", 0)),
        errors=int(sums.get("errors", 0)),
        gb_seconds=seconds("gb_ms"),
        run_gb_seconds=seconds("run_gb_ms"),
        instance_gb_seconds=seconds("instance_gb_ms"),
        build_seconds=seconds("build_ms"),
        stored_bytes=int(sums.get("stored_bytes", 0)),
        sent_bytes=int(sums.get("sent_bytes") or 0),
    )
