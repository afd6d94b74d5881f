"""Clean-up of history in steps small enough that writers of calls hardly wait.

Gone are: invocations older than `history_days` or beyond the newest `per_function` of their workload, with their log lines and their ended
runs (but the newest run of a job, whose phase stands on it); log lines outside of calls by the same two limits; statistics older than
`stats_days`. What is queued or running stays, however old.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, delete, func, or_, select

from sless import clock
from sless.domain.lifecycle import ENDED_CALL_STATUSES
from sless.store.engine import Database
from sless.store.tables import call_stats, invocations, log_lines, runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    history_days: int
    per_function: int
    stats_days: int
    batch: int


class Cleaner:
    def __init__(self, database: Database) -> None:
        self._db = database

    def step(self, limits: Limits) -> int:
        """Rows deleted; 0 when nothing is left to delete."""
        now = clock.now()
        oldest = now - timedelta(days=limits.history_days)
        return (
            self._drop_invocations(_ended(invocations.c.started_at < oldest), limits.batch)
            or self._drop_beyond_cap(limits)
            or self._drop(log_lines, log_lines.c.at < oldest, limits.batch)
            or self._drop_unattached_lines(limits)
            or self._drop(runs, and_(runs.c.ended_at < oldest, _replaceable_run()), limits.batch)
            or self._drop_stats(now - timedelta(days=limits.stats_days), limits.batch)
        )

    def _drop_invocations(self, where: ColumnElement[bool], batch: int) -> int:
        with self._db.write() as conn:
            ids = list(conn.execute(select(invocations.c.id).where(where).limit(batch)).scalars())
            if not ids:
                return 0
            removed = conn.execute(delete(invocations).where(invocations.c.id.in_(ids))).rowcount
            removed += conn.execute(delete(log_lines).where(log_lines.c.invocation_id.in_(ids))).rowcount
            removed += conn.execute(delete(runs).where(runs.c.id.in_(ids), _replaceable_run())).rowcount
            return removed

    def _drop_beyond_cap(self, limits: Limits) -> int:
        columns = invocations.c
        for workload_id, place in self._beyond(invocations, columns.started_at, limits.per_function):
            beyond = and_(columns.workload_id == workload_id, columns.started_at < place)
            removed = self._drop_invocations(_ended(beyond), limits.batch)
            if removed:
                return removed
        return 0

    def _drop_unattached_lines(self, limits: Limits) -> int:
        columns = log_lines.c
        outside = columns.invocation_id == ""
        for workload_id, place in self._beyond(log_lines, columns.id, limits.per_function, outside):
            removed = self._drop(log_lines, and_(columns.workload_id == workload_id, outside, columns.id < place), limits.batch)
            if removed:
                return removed
        return 0

    def _beyond(self, table: Table, order: ColumnElement[Any], keep: int, *where: ColumnElement[bool]) -> list[tuple[str, Any]]:
        """(workload id, place of the oldest row that is kept) of each workload with more than `keep` rows. Read-only: blocks nobody."""
        found: list[tuple[str, Any]] = []
        with self._db.read() as conn:
            for workload_id in _workload_ids(conn, table):
                rows = select(order).where(table.c.workload_id == workload_id, *where)
                place = conn.execute(rows.order_by(order.desc()).offset(keep - 1).limit(1)).scalar()
                if place is not None:
                    found.append((workload_id, place))
        return found

    def _drop(self, table: Table, where: ColumnElement[bool], batch: int) -> int:
        some = select(table.c.id).where(where).limit(batch)
        with self._db.write() as conn:
            return conn.execute(delete(table).where(table.c.id.in_(some))).rowcount

    def _drop_stats(self, oldest: datetime, batch: int) -> int:
        """By whole minutes: the rows have no id of their own, and few minutes hold many of them."""
        columns = call_stats.c
        with self._db.write() as conn:
            place = conn.execute(select(columns.minute).where(columns.minute < oldest).order_by(columns.minute).offset(batch - 1)).scalar()
            bound = columns.minute < oldest if place is None else columns.minute <= place
            return conn.execute(delete(call_stats).where(bound)).rowcount


def _ended(where: ColumnElement[bool]) -> ColumnElement[bool]:
    return and_(where, invocations.c.status.in_(ENDED_CALL_STATUSES))


def _replaceable_run() -> ColumnElement[bool]:
    other = runs.alias("other")
    newest: Select[Any] = select(func.max(other.c.job_run_id)).where(other.c.workload_id == runs.c.workload_id)
    unneeded = or_(runs.c.job_run_id.is_(None), runs.c.job_run_id < newest.scalar_subquery())
    return and_(runs.c.status.in_(ENDED_CALL_STATUSES), unneeded)


def _workload_ids(conn: Connection, table: Table) -> list[str]:
    """All distinct ids, by hopping from one to the next in the index instead of reading every row."""
    found: list[str] = []
    last = ""
    while True:
        row = conn.execute(select(func.min(table.c.workload_id)).where(table.c.workload_id > last)).scalar()
        if row is None:
            return found
        found.append(row)
        last = row
