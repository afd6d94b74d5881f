"""`call_stats`: counts per workload, version and minute. Each server process has its own rows; readers add them up."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, and_, bindparam, case, func, select, tuple_, update

from sless.domain.model import Kind
from sless.domain.statistics import LATENCY_BOUNDS_MS, CallStats, DayUsage
from sless.store import codec
from sless.store.engine import Database
from sless.store.queries import in_batches
from sless.store.tables import call_stats

_BUCKETS = len(LATENCY_BOUNDS_MS) + 1
_SUMMED = ("calls", "errors", "gb_ms", "run_gb_ms", "sent_bytes", "duration_ms", "histogram")
_KEY = ("workload_id", "version", "minute")

StatsKey = tuple[str, int, datetime]


class StatsStore:
    """`writer` names this process in its rows."""

    def __init__(self, database: Database, writer: str) -> None:
        self._db = database
        self._writer = writer

    def add(self, conn: Connection, stats: Iterable[CallStats]) -> None:
        """Adds to the rows in the caller's transaction: creates missing rows empty, then locks, reads and writes all of them."""
        added = _by_key(stats)
        if not added:
            return
        # In a fixed order, so that two threads that add to the same rows cannot deadlock.
        items = [added[key] for key in sorted(added)]
        conn.execute(self._db.insert(call_stats).on_conflict_do_nothing(), [_row_of(_empty(item), self._writer) for item in items])
        sums = [_row_of(_sum(item, known), self._writer) for item, known in zip(items, self._locked(conn, items), strict=True)]
        own = and_(*(call_stats.c[name] == bindparam(f"b_{name}") for name in (*_KEY, "writer")))
        values: dict[str, Any] = {name: bindparam(f"v_{name}") for name in _SUMMED}
        conn.execute(
            update(call_stats).where(own).values(values),
            [{f"b_{name}": row[name] for name in (*_KEY, "writer")} | {f"v_{name}": row[name] for name in values} for row in sums],
        )

    def read(self, workload_id: str, since: datetime, until: datetime) -> list[CallStats]:
        """Per minute and version, `since` ≤ minute < `until`, oldest first."""
        query = select(call_stats).where(call_stats.c.workload_id == workload_id, call_stats.c.minute >= since, call_stats.c.minute < until)
        with self._db.read() as conn:
            found = _by_key(_stats_of(row) for row in conn.execute(query).mappings())
        return sorted(found.values(), key=lambda item: (item.minute, item.version))

    def slots(self, workload_ids: Iterable[str], since: datetime, slot: timedelta, number: int) -> dict[str, list[tuple[int, int]]]:
        """(calls, errors) of each of `number` slots from `since` on, by workload; workloads without a row are left out. The database adds
        up, as a busy workload has a row per minute, version and server."""
        columns = call_stats.c
        index = case(*((columns.minute < since + slot * (at + 1), at) for at in range(number - 1)), else_=number - 1).label("slot")
        found: dict[str, list[tuple[int, int]]] = {}
        with self._db.read() as conn:
            for batch in in_batches(workload_ids):
                within = and_(columns.workload_id.in_(batch), columns.minute >= since, columns.minute < since + slot * number)
                rows = select(columns.workload_id, index, columns.calls, columns.errors).where(within).subquery()
                sums = select(rows.c.workload_id, rows.c.slot, func.sum(rows.c.calls), func.sum(rows.c.errors))
                for key, at, calls, errors in conn.execute(sums.group_by(rows.c.workload_id, rows.c.slot)):
                    found.setdefault(key, [(0, 0)] * number)[at] = (int(calls), int(errors))
        return found

    def usage(self, namespace: str, since: datetime) -> list[DayUsage]:
        """Per UTC day from the day of `since` on, oldest first; days without a call are left out."""
        columns = call_stats.c
        query = (
            select(columns.day, func.sum(columns.calls), func.sum(columns.errors), func.sum(columns.gb_ms))
            .where(columns.namespace == namespace, columns.day >= _day_of(since))
            .group_by(columns.day)
            .order_by(columns.day)
        )
        with self._db.read() as conn:
            return [
                DayUsage(day=day, invocations=int(calls), errors=int(errors), gb_seconds=float(gb_ms) / 1000)
                for day, calls, errors, gb_ms in conn.execute(query)
            ]

    def _locked(self, conn: Connection, items: list[CallStats]) -> list[CallStats]:
        found: dict[StatsKey, CallStats] = {}
        step = 200
        for start in range(0, len(items), step):
            keys = [_stats_key_of(item) for item in items[start : start + step]]
            own = and_(tuple_(*(call_stats.c[name] for name in _KEY)).in_(keys), call_stats.c.writer == self._writer)
            query = select(call_stats).where(own).order_by(*(call_stats.c[name] for name in _KEY)).with_for_update()
            found.update((_stats_key_of(item), item) for item in map(_stats_of, conn.execute(query).mappings()))
        return [found[_stats_key_of(item)] for item in items]


def bucket_of(duration_ms: float) -> int:
    """Index into a histogram."""
    return next((index for index, bound in enumerate(LATENCY_BOUNDS_MS) if duration_ms <= bound), len(LATENCY_BOUNDS_MS))


def minute_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def _day_of(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


def _by_key(stats: Iterable[CallStats]) -> dict[StatsKey, CallStats]:
    found: dict[StatsKey, CallStats] = {}
    for item in stats:
        item = replace(item, minute=minute_of(item.minute))
        key = _stats_key_of(item)
        found[key] = _sum(found[key], item) if key in found else item
    return found


def _stats_key_of(item: CallStats) -> StatsKey:
    return (item.workload_id, item.version, item.minute)


def _empty(item: CallStats) -> CallStats:
    return replace(item, calls=0, errors=0, gb_ms=0.0, run_gb_ms=0.0, sent_bytes=0, duration_ms=0.0, histogram=(0,) * _BUCKETS)


def _sum(one: CallStats, other: CallStats) -> CallStats:
    return replace(
        one,
        calls=one.calls + other.calls,
        errors=one.errors + other.errors,
        gb_ms=one.gb_ms + other.gb_ms,
        run_gb_ms=one.run_gb_ms + other.run_gb_ms,
        sent_bytes=one.sent_bytes + other.sent_bytes,
        duration_ms=one.duration_ms + other.duration_ms,
        histogram=tuple(map(sum, zip(one.histogram, other.histogram, strict=True))),
    )


def _row_of(item: CallStats, writer: str) -> dict[str, Any]:
    return {
        "workload_id": item.workload_id,
        "version": item.version,
        "minute": item.minute,
        "writer": writer,
        "namespace": item.namespace,
        "kind": item.kind.value,
        "name": item.name,
        "day": _day_of(item.minute),
        "calls": item.calls,
        "errors": item.errors,
        "gb_ms": item.gb_ms,
        "run_gb_ms": item.run_gb_ms,
        "sent_bytes": item.sent_bytes,
        "duration_ms": item.duration_ms,
        "histogram": codec.encode(item.histogram),
    }


def _stats_of(row: RowMapping) -> CallStats:
    return CallStats(
        namespace=row["namespace"],
        workload_id=row["workload_id"],
        kind=Kind(row["kind"]),
        name=row["name"],
        version=row["version"],
        minute=row["minute"],
        calls=row["calls"],
        errors=row["errors"],
        gb_ms=row["gb_ms"],
        run_gb_ms=row["run_gb_ms"],
        sent_bytes=row["sent_bytes"],
        duration_ms=row["duration_ms"],
        histogram=tuple(codec.decode(row["histogram"])),
    )
