"""Load of each workload on each replica of the server, which the leader adds up, and use by tenants, which all replicas read.

A row that has not been renewed lately is ignored, so a killed replica needs no clean-up. On PostgreSQL, the time is that of the database.
"""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import RowMapping, and_, delete, insert, or_, select

from sless.domain.demand import NO_LOAD, Load, RunsUse, TenantUse, total_of
from sless.store import signals
from sless.store.engine import Database
from sless.store.lease import ReadTime, database_time
from sless.store.tables import demand, tenant_use

_KEPT_SEC = 60.0


class DemandStore:
    def __init__(self, database: Database, read_time: ReadTime | None = None) -> None:
        self._db = database
        self._read_time = read_time or database_time

    def report(self, replica: str, loads: Mapping[str, Load]) -> None:
        """Replaces the rows of this replica, and wakes the leader if calls wait."""
        with self._db.write() as conn:
            now = self._read_time(conn)
            conn.execute(delete(demand).where(demand.c.replica == replica))
            rows = [_row_of(replica, workload_id, load, now) for workload_id, load in loads.items()]
            if rows:
                conn.execute(insert(demand), rows)
            if any(load.waiting for load in loads.values()):
                signals.send(conn, signals.DEMAND)

    def report_use(self, replica: str, uses: Mapping[str, TenantUse], age_sec: float) -> None:
        """Adds rows for these namespaces. Removes rows of this replica that are older than twice `age_sec`, and old ones of any replica."""
        with self._db.write() as conn:
            now = self._read_time(conn)
            mine = and_(tenant_use.c.replica == replica, tenant_use.c.at < now - timedelta(seconds=2 * age_sec))
            conn.execute(delete(tenant_use).where(or_(mine, tenant_use.c.at < now - timedelta(seconds=_KEPT_SEC))))
            rows = [
                {"replica": replica, "namespace": namespace, "at": now, "calls": use.calls, **asdict(use.one_off)}
                for namespace, use in uses.items()
            ]
            if rows:
                conn.execute(insert(tenant_use), rows)

    def use_of_others(self, replica: str, age_sec: float) -> dict[tuple[str, str, datetime], TenantUse]:
        """The rows of all other replicas that are at most this old, oldest first, by replica, namespace and time."""
        with self._db.read() as conn:
            since = self._read_time(conn) - timedelta(seconds=age_sec)
            query = select(tenant_use).where(tenant_use.c.replica != replica, tenant_use.c.at >= since).order_by(tenant_use.c.at)
            return {
                (row["replica"], row["namespace"], row["at"]): TenantUse(
                    calls=row["calls"], one_off=RunsUse(runs=row["runs"], memory_mb=row["memory_mb"])
                )
                for row in conn.execute(query).mappings()
            }

    def of_others(self, replica: str, age_sec: float) -> dict[str, Load]:
        """Sums over all other replicas by workload id, from rows up to this age."""
        with self._db.read() as conn:
            now = self._read_time(conn)
            rows = conn.execute(select(demand).where(demand.c.replica != replica)).mappings().all()
        since = now - timedelta(seconds=age_sec)
        if any(row["at"] < now - timedelta(seconds=_KEPT_SEC) for row in rows):
            with self._db.write() as conn:
                conn.execute(delete(demand).where(demand.c.at < now - timedelta(seconds=_KEPT_SEC)))
        return total_of({row["workload_id"]: _load_of(row, now)} for row in rows if row["at"] >= since)


def _row_of(replica: str, workload_id: str, load: Load, now: datetime) -> dict[str, object]:
    return {
        "workload_id": workload_id, "replica": replica, "waiting": load.waiting, "in_flight": load.in_flight, "at": now,
        "called_at": None if load.idle_sec == NO_LOAD.idle_sec else now - timedelta(seconds=load.idle_sec),
    }  # fmt: skip


def _load_of(row: RowMapping, now: datetime) -> Load:
    called_at = row["called_at"]
    idle_sec = NO_LOAD.idle_sec if called_at is None else (now - called_at).total_seconds()
    return Load(waiting=row["waiting"], in_flight=row["in_flight"], idle_sec=max(0.0, idle_sec))
