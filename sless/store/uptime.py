"""Uptime of instances, per workload and UTC day, billed separately from calls."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import func, select

from sless.domain.statistics import Uptime
from sless.store.engine import Database
from sless.store.tables import instance_uptime


class UptimeStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, uptimes: Iterable[Uptime], at: datetime) -> None:
        """Adds to the row of the day of `at`."""
        rows = [
            {
                "workload_id": item.workload_id, "day": at.date().isoformat(), "namespace": item.namespace, "kind": item.kind.value,
                "name": item.name, "gb_ms": item.gb_ms,
            }
            for item in uptimes
        ]  # fmt: skip
        if not rows:
            return
        with self._db.write() as conn:
            for row in sorted(rows, key=lambda row: str(row["workload_id"])):
                added = self._db.insert(instance_uptime).values(row)
                total = instance_uptime.c.gb_ms + added.excluded.gb_ms
                conn.execute(added.on_conflict_do_update(index_elements=["workload_id", "day"], set_={"gb_ms": total}))

    def by_day(self, namespace: str, since: datetime) -> dict[str, float]:
        """GB-seconds per UTC day, from the day of `since` on."""
        columns = instance_uptime.c
        query = (
            select(columns.day, func.sum(columns.gb_ms))
            .where(columns.namespace == namespace, columns.day >= since.date().isoformat())
            .group_by(columns.day)
        )
        with self._db.read() as conn:
            return {day: float(gb_ms) / 1000 for day, gb_ms in conn.execute(query)}
