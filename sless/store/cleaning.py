"""Clean-up of history, in steps so small that writers of calls hardly wait.

Removes invocations older than `history_days` or beyond the newest `per_function` of their workload, with their log lines and ended runs
(except the newest run of a job, which its phase depends on, and runs whose callback is pending); log lines outside of calls by the same
limits; statistics older than `stats_days`. Queued and running calls stay, however old.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, delete, exists, func, or_, select

from sless import clock
from sless.domain.callback import CallbackStatus
from sless.domain.lifecycle import ENDED_CALL_STATUSES
from sless.store.engine import Database
from sless.store.tables import call_stats, callbacks, instance_uptime, invocations, log_lines, runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    history_days: int
    per_function: int
    stats_days: int
    batch: int


class Cleaner:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._lock = threading.Lock()
        self._retention: Retention | None = None
        self._sweep: Iterator[int] = iter(())

    def step(self, retention: Retention) -> int:
        """Returns the number of deleted rows, 0 at the end of a sweep over everything. A sweep keeps its position between steps."""
        with self._lock:
            if self._retention != retention:
                self._retention, self._sweep = retention, self._batches(retention)
            removed = next(self._sweep, 0)
            if not removed:
                self._retention = None
            return removed

    def _batches(self, retention: Retention) -> Iterator[int]:
        """Yields the number of rows deleted by each transaction, never 0."""
        now = clock.now()
        oldest = now - timedelta(days=retention.history_days)
        yield from self._invocation_batches(retention, oldest)
        yield from self._unattached_batches(retention)
        yield from self._drop(log_lines, log_lines.c.at < oldest, retention.batch)
        yield from self._drop(runs, and_(runs.c.ended_at < oldest, _replaceable_run()), retention.batch)
        oldest_stats = now - timedelta(days=retention.stats_days)
        yield from self._drop_stats(oldest_stats, retention.batch)
        yield from self._drop_uptime(oldest_stats)

    def _invocation_batches(self, retention: Retention, oldest: datetime) -> Iterator[int]:
        columns = invocations.c
        for workload_id in self._workload_ids(invocations):
            place = self._oldest_kept(invocations, columns.started_at, workload_id, retention.per_function)
            bound = oldest if place is None else max(oldest, place)
            where = and_(columns.workload_id == workload_id, columns.started_at < bound, columns.status.in_(ENDED_CALL_STATUSES))
            while removed := self._drop_invocations(where, retention.batch):
                yield removed

    def _drop_invocations(self, where: ColumnElement[bool], batch: int) -> int:
        with self._db.read() as conn:
            ids = list(conn.execute(select(invocations.c.id).where(where).limit(batch)).scalars())
        if not ids:
            return 0
        with self._db.write() as conn:
            removed = conn.execute(delete(invocations).where(invocations.c.id.in_(ids))).rowcount
            removed += conn.execute(delete(log_lines).where(log_lines.c.invocation_id.in_(ids))).rowcount
            return removed + conn.execute(delete(runs).where(runs.c.id.in_(ids), _replaceable_run())).rowcount

    def _unattached_batches(self, retention: Retention) -> Iterator[int]:
        columns = log_lines.c
        outside = columns.invocation_id == ""
        for workload_id in self._workload_ids(log_lines):
            place = self._oldest_kept(log_lines, columns.id, workload_id, retention.per_function, outside)
            if place is not None:
                yield from self._drop(log_lines, and_(columns.workload_id == workload_id, outside, columns.id < place), retention.batch)

    def _oldest_kept(self, table: Table, order: ColumnElement[Any], workload_id: str, keep: int, *where: ColumnElement[bool]) -> Any:
        """The `order` value of the oldest among the newest `keep` rows of a workload; None when there are fewer."""
        rows = select(order).where(table.c.workload_id == workload_id, *where)
        with self._db.read() as conn:
            return conn.execute(rows.order_by(order.desc()).offset(keep - 1).limit(1)).scalar()

    def _workload_ids(self, table: Table) -> Iterator[str]:
        """All distinct ids, by seeking from one to the next in the index instead of reading every row."""
        last: str | None = ""
        while last is not None:
            with self._db.read() as conn:
                last = conn.execute(select(func.min(table.c.workload_id)).where(table.c.workload_id > last)).scalar()
            if last is not None:
                yield last

    def _drop(self, table: Table, where: ColumnElement[bool], batch: int) -> Iterator[int]:
        some = select(table.c.id).where(where).limit(batch)
        removed = batch
        while removed == batch:
            with self._db.write() as conn:
                removed = conn.execute(delete(table).where(table.c.id.in_(some))).rowcount
            if removed:
                yield removed

    def _drop_stats(self, oldest: datetime, batch: int) -> Iterator[int]:
        """Deletes whole minutes, because rows have no id; a minute has few rows."""
        minute = call_stats.c.minute
        removed = 1
        while removed:
            with self._db.write() as conn:
                place = conn.execute(select(minute).where(minute < oldest).order_by(minute).offset(batch - 1).limit(1)).scalar()
                bound = minute < oldest if place is None else minute <= place
                removed = conn.execute(delete(call_stats).where(bound)).rowcount
            if removed:
                yield removed

    def _drop_uptime(self, oldest: datetime) -> Iterator[int]:
        """Deletes all expired rows at once: with one row per workload and day, they are few."""
        with self._db.write() as conn:
            removed = conn.execute(delete(instance_uptime).where(instance_uptime.c.day < oldest.date().isoformat())).rowcount
        if removed:
            yield removed


def _replaceable_run() -> ColumnElement[bool]:
    other = runs.alias("other")
    newest: Select[Any] = select(func.max(other.c.job_run_id)).where(other.c.workload_id == runs.c.workload_id)
    unneeded = or_(runs.c.job_run_id.is_(None), runs.c.job_run_id < newest.scalar_subquery())
    # A pending callback needs its run; callbacks are given up long before history is old.
    settled = ~exists().where(callbacks.c.run_id == runs.c.id, callbacks.c.status == CallbackStatus.PENDING)
    return and_(runs.c.status.in_(ENDED_CALL_STATUSES), unneeded, settled)
