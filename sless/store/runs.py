"""Runs: what was accepted for later. Moves are compare-and-set, and the invocation of the same id follows in the same transaction."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, func, select, update

from sless import clock
from sless.domain import lifecycle
from sless.domain.model import CallStatus, Cause, Kind, Run
from sless.domain.statistics import CallStats
from sless.errors import NotFound
from sless.store.engine import Database
from sless.store.stats import StatsStore, bucket_of
from sless.store.tables import invocations, runs, workloads
from sless.store.workloads import find_by_id

_ID_BATCH = 500


class RunStore:
    def __init__(self, database: Database, stats: StatsStore) -> None:
        self._db = database
        self._stats = stats

    def insert(self, run: Run) -> bool:
        """False when it is there already: the same id, the same `job_run_id` of the workload, or the same firing of a trigger. Durable
        when it returns. Raises NOT_FOUND when the workload is gone."""
        with self._db.write(gone=NotFound(run.kind, run.name)) as conn:
            if conn.execute(self._db.insert(runs).on_conflict_do_nothing(), _values_of(run)).rowcount != 1:
                return False
            conn.execute(self._db.insert(invocations).on_conflict_do_nothing(), _invocation_values_of(run))
            return True

    def find(self, run_id: str) -> Run | None:
        with self._db.read() as conn:
            return _find(conn, run_id)

    def get(self, run_id: str) -> Run:
        run = self.find(run_id)
        if run is None:
            raise NotFound("run", run_id)
        return run

    def newest_of_job(self, workload_id: str) -> Run | None:
        return self.newest_of([workload_id]).get(workload_id)

    def newest_of(self, workload_ids: Collection[str]) -> dict[str, Run]:
        """The run with the highest `job_run_id` of each workload."""
        other = runs.alias("other")
        highest = select(func.max(other.c.job_run_id)).where(other.c.workload_id == runs.c.workload_id).scalar_subquery()
        wanted = sorted(workload_ids)
        found: dict[str, Run] = {}
        with self._db.read() as conn:
            for start in range(0, len(wanted), _ID_BATCH):
                part = runs.c.workload_id.in_(wanted[start : start + _ID_BATCH])
                query = select(runs).where(part, runs.c.job_run_id == highest)
                found.update((row["workload_id"], run_of(row)) for row in conn.execute(query).mappings())
        return found

    def list_due(self, now: datetime, limit: int) -> list[Run]:
        """Queued and not to wait any more, oldest first."""
        due = and_(runs.c.status == CallStatus.QUEUED, runs.c.not_before <= now)
        return self._all(select(runs).where(due).order_by(runs.c.not_before, runs.c.created_at, runs.c.id).limit(limit))

    def list_running(self) -> list[Run]:
        return self._all(select(runs).where(runs.c.status == CallStatus.RUNNING).order_by(runs.c.started_at, runs.c.id))

    def count(self, status: CallStatus) -> int:
        with self._db.read() as conn:
            return int(conn.execute(select(func.count()).select_from(runs).where(runs.c.status == status)).scalar_one())

    def claim(self, run_id: str, holder: str, version: int | None = None) -> bool:
        """Queued → running, and one attempt more. `version` is the one that runs; by default the workload's active one."""
        active = select(workloads.c.active_version).where(workloads.c.id == runs.c.workload_id).scalar_subquery()
        values = {
            "claimed_by": holder,
            "attempts": runs.c.attempts + 1,
            "started_at": clock.now(),
            "version": active if version is None else version,
        }
        with self._db.write() as conn:
            return _move(conn, run_id, CallStatus.RUNNING, values) is not None

    def requeue(self, run_id: str, not_before: datetime, message: str) -> bool:
        """Running → queued, to begin again not before then."""
        values = {"not_before": not_before, "message": message, "claimed_by": None}
        with self._db.write() as conn:
            return _move(conn, run_id, CallStatus.QUEUED, values) is not None

    def finish(
        self, run_id: str, *, status: CallStatus, result: str | None = None, message: str = "", exit_code: int | None = None,
        http_status: int | None = None,
    ) -> bool:  # fmt: skip
        """Queued or running → an end. What ran is counted in `call_stats`."""
        values = {"result": result, "message": message, "exit_code": exit_code, "http_status": http_status, "ended_at": clock.now()}
        with self._db.write() as conn:
            run = _move(conn, run_id, status, values)
            if run is None:
                return False
            if run.started_at is not None:
                self._stats.add(conn, [_stats_of(conn, run)])
            return True

    def cancel(self, run_id: str) -> bool:
        """Queued or running → cancelled."""
        return self.finish(run_id, status=CallStatus.CANCELLED, message="cancelled")

    def _all(self, query: Select[Any]) -> list[Run]:
        with self._db.read() as conn:
            return [run_of(row) for row in conn.execute(query).mappings()]


def run_of(row: RowMapping) -> Run:
    values = dict(row)
    values["kind"], values["cause"], values["status"] = Kind(row["kind"]), Cause(row["cause"]), CallStatus(row["status"])
    return Run(**values)


def _find(conn: Connection, run_id: str) -> Run | None:
    row = conn.execute(select(runs).where(runs.c.id == run_id)).mappings().one_or_none()
    return run_of(row) if row else None


def _move(conn: Connection, run_id: str, target: CallStatus, values: dict[str, Any]) -> Run | None:
    """The compare-and-set; the moved run, or None when it was in no state to move. The invocation follows."""
    sources = lifecycle.call_sources_of(target)
    allowed: ColumnElement[bool] = and_(runs.c.id == run_id, runs.c.status.in_(sources))
    if conn.execute(update(runs).where(allowed).values(status=target, **values)).rowcount != 1:
        return None
    run = _find(conn, run_id)
    assert run is not None  # moved in this transaction
    follow = _invocation_values_of(run)
    del follow["id"]
    if not conn.execute(update(invocations).where(invocations.c.id == run_id).values(follow)).rowcount:
        conn.execute(invocations.insert(), {"id": run_id, **follow})
    return run


def _values_of(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in runs.c.keys()}  # noqa: SIM118 - not a dict


def _invocation_values_of(run: Run) -> dict[str, Any]:
    """A run has no method and no path. It began when its last attempt did; before, when it was accepted."""
    ended = run.status in lifecycle.ENDED_CALL_STATUSES
    return {
        "id": run.id,
        "request_id": run.request_id,
        "namespace": run.namespace,
        "workload_id": run.workload_id,
        "kind": run.kind,
        "name": run.name,
        "version": run.version,
        "cause": run.cause,
        "method": "",
        "path": "",
        "status": run.status,
        "http_status": run.http_status,
        "duration_ms": _duration_ms_of(run) if ended and run.started_at else None,
        "cold": run.attempts > 0,
        "attempts": run.attempts,
        "error": run.message if run.message and run.status is not CallStatus.SUCCEEDED else None,
        "request_bytes": len(run.event.encode(errors="replace")),
        "response_bytes": len((run.result or "").encode(errors="replace")),
        "started_at": run.started_at or run.created_at,
        "finished_at": run.ended_at,
        "result": run.result,
    }


def _duration_ms_of(run: Run) -> float:
    if run.started_at is None or run.ended_at is None:
        return 0.0
    return max(0.0, (run.ended_at - run.started_at) / timedelta(milliseconds=1))


def _stats_of(conn: Connection, run: Run) -> CallStats:
    duration_ms = _duration_ms_of(run)
    histogram = [0] * (bucket_of(float("inf")) + 1)
    histogram[bucket_of(duration_ms)] = 1
    return CallStats(
        namespace=run.namespace,
        workload_id=run.workload_id,
        kind=run.kind,
        name=run.name,
        version=run.version or 0,
        minute=run.ended_at or clock.now(),
        calls=1,
        errors=int(run.status in lifecycle.ERROR_STATUSES),
        gb_ms=_memory_mb_of(conn, run) / 1024 * duration_ms,
        duration_ms=duration_ms,
        histogram=tuple(histogram),
    )


def _memory_mb_of(conn: Connection, run: Run) -> int:
    """Of the workload; for a job that refers to a function and sets no memory, of that function."""
    workload = find_by_id(conn, run.workload_id)
    if workload is None:
        return 0
    spec = workload.spec
    if spec.function_ref and "memory_mb" not in spec.set_fields:
        where = and_(
            workloads.c.namespace == run.namespace,
            workloads.c.scope == "callable",
            workloads.c.name == spec.function_ref,
            workloads.c.deleted_at.is_(None),
        )
        target_id = conn.execute(select(workloads.c.id).where(where)).scalar_one_or_none()
        target = find_by_id(conn, target_id) if target_id else None
        return target.spec.memory_mb if target else spec.memory_mb
    return spec.memory_mb
