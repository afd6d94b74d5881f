"""Uptime of instances, per workload and UTC day, billed separately from calls.

`standing_instances` holds the time until which each instance has been counted. A server that takes over after a crash or an outage
continues from there, so the time that an instance ran unobserved counts, and no time counts twice. An instance that ended in the meantime
counts until it was last observed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, func, select, update

from sless.domain.uptime import MB_PER_GB, Sighting, days_between
from sless.store.engine import Database
from sless.store.operator_tables import standing_instances
from sless.store.queries import in_batches
from sless.store.tables import instance_uptime


class UptimeStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def count(self, sightings: Collection[Sighting], running: Collection[str]) -> None:
        """Adds the time of each instance since it was last counted. `running` are the ids of running instances; the others end here."""
        known, columns = standing_instances, standing_instances.c
        with self._db.write() as conn:
            # Another server has ended one that was counted before and has no row; if it is running after all, count it from now on.
            rows = [
                {"endpoint_id": one.endpoint_id, "memory_mb": one.memory_mb, "counted_until": one.since or one.until}
                for one in sorted(sightings, key=lambda one: one.endpoint_id)
                if one.since is not None or one.endpoint_id in running
            ]
            if rows:
                conn.execute(self._db.insert(known).on_conflict_do_nothing(), rows)
            # Lock rows in a fixed order, so that two servers that both consider themselves the leader count one after the other.
            counted = {row.endpoint_id: row for row in conn.execute(select(known).order_by(columns.endpoint_id).with_for_update())}
            times = [(one, counted[one.endpoint_id]) for one in sightings if one.endpoint_id in counted]
            self._add(conn, [(one, row.memory_mb, row.counted_until) for one, row in times])
            if moved := [{"id": one.endpoint_id, "at": one.until} for one, row in times if one.until > row.counted_until]:
                conn.execute(update(known).where(columns.endpoint_id == bindparam("id")).values(counted_until=bindparam("at")), moved)
            for batch in in_batches(counted.keys() - set(running)):
                conn.execute(delete(known).where(columns.endpoint_id.in_(batch)))

    def _add(self, conn: Connection, times: Iterable[tuple[Sighting, int, datetime]]) -> None:
        """`times`: memory in MB, and the time until which the instance has been counted."""
        sums: dict[tuple[str, str], float] = defaultdict(float)
        owners = {}
        for one, memory_mb, since in times:
            owners[one.workload_id] = {"namespace": one.namespace, "kind": one.kind.value, "name": one.name}
            for day, passed_ms in days_between(since, one.until):
                sums[one.workload_id, day] += memory_mb / MB_PER_GB * passed_ms
        rows = [{"workload_id": key[0], "day": key[1], "gb_ms": gb_ms, **owners[key[0]]} for key, gb_ms in sorted(sums.items())]
        if rows:
            insert = self._db.insert(instance_uptime)
            total = instance_uptime.c.gb_ms + insert.excluded.gb_ms
            conn.execute(insert.on_conflict_do_update(index_elements=["workload_id", "day"], set_={"gb_ms": total}), rows)

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
