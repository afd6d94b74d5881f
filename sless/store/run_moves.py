"""Moves of runs within one transaction. Each is a compare-and-set; attempt, invocation, statistics and callback follow in it."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, delete, select, update

from sless import clock
from sless.domain import lifecycle
from sless.domain.callback import CallbackStatus
from sless.domain.model import CallStatus, Cause, Kind, Run
from sless.domain.request import stored_request_of
from sless.domain.statistics import CallStats
from sless.store.engine import Database
from sless.store.stats import StatsStore, bucket_of
from sless.store.tables import attempts, callbacks, invocations, runs, workloads
from sless.store.triggers import note_end
from sless.store.workloads import find_by_id


class RunMoves:
    """On one connection, whose transaction somebody else ends. Statistics are added up and written once by `close`."""

    def __init__(self, conn: Connection, database: Database, stats: StatsStore) -> None:
        self._conn = conn
        self._db = database
        self._stats = stats
        self._counted: list[CallStats] = []

    def close(self) -> None:
        """Before the commit."""
        self._stats.add(self._conn, self._counted)

    def insert(self, run: Run) -> bool:
        if self._conn.execute(self._db.insert(runs).on_conflict_do_nothing(), values_of(run)).rowcount != 1:
            return False
        self._conn.execute(self._db.insert(invocations).on_conflict_do_nothing(), invocation_values_of(run))
        return True

    def claim(self, run_id: str, holder: str, version: int | None = None, *, cold: bool = True) -> bool:
        """`cold`: it is a run of its own, and no call of an instance."""
        active = select(workloads.c.active_version).where(workloads.c.id == runs.c.workload_id).scalar_subquery()
        values = {
            "claimed_by": holder,
            "attempts": runs.c.attempts + 1,
            "started_at": clock.now(),
            "version": active if version is None else version,
        }
        run = self._move(run_id, lifecycle.call_sources_of(CallStatus.RUNNING), CallStatus.RUNNING, values)
        if run is None:
            return False
        attempt = {
            "run_id": run_id, "number": run.attempts, "version": run.version, "status": CallStatus.RUNNING, "started_at": run.started_at,
        }  # fmt: skip
        self._conn.execute(attempts.insert(), attempt)
        self._conn.execute(update(invocations).where(invocations.c.id == run_id).values(cold=cold))
        return True

    def requeue(self, run_id: str, not_before: datetime, message: str, attempt: CallStatus, http_status: int | None) -> bool:
        values = {"not_before": not_before, "message": message, "claimed_by": None, "http_status": http_status}
        run = self._move(run_id, frozenset({CallStatus.RUNNING}), CallStatus.QUEUED, values)
        if run is None:
            return False
        self._end_attempt(run, attempt, clock.now())
        return True

    def finish(self, run_id: str, status: CallStatus, attempt: CallStatus, values: dict[str, Any]) -> bool:
        """`attempt` is how its last attempt ended: one that failed for the last time makes the run dead."""
        ended_at = clock.now()
        run = self._move(run_id, lifecycle.call_sources_of(status), status, values | {"ended_at": ended_at})
        if run is None:
            return False
        if self._end_attempt(run, attempt, ended_at):
            self._counted.append(_stats_of(self._conn, run))
        if run.callback_url is not None:
            self._conn.execute(callbacks.insert(), _callback_values_of(run, run.callback_url))
        if run.trigger_id is not None:
            note_end(self._conn, run.trigger_id, run.due_at, status)
        return True

    def rerun(self, run_id: str, now: datetime) -> bool:
        values = {
            "attempts_before": runs.c.attempts, "not_before": now, "message": "", "claimed_by": None, "result": None, "exit_code": None,
            "http_status": None, "started_at": None, "ended_at": None,
        }  # fmt: skip
        if self._move(run_id, lifecycle.RERUNNABLE_CALL_STATUSES, CallStatus.QUEUED, values) is None:
            return False
        # What was to be told of the old end is not true any more; the new one has a callback of its own.
        self._conn.execute(delete(callbacks).where(callbacks.c.run_id == run_id))
        return True

    def _move(self, run_id: str, sources: frozenset[CallStatus], target: CallStatus, values: dict[str, Any]) -> Run | None:
        """The moved run, or None when it was in no state to move."""
        allowed: ColumnElement[bool] = and_(runs.c.id == run_id, runs.c.status.in_(sources))
        if self._conn.execute(update(runs).where(allowed).values(status=target, **values)).rowcount != 1:
            return None
        run = find_light(self._conn, run_id)
        assert run is not None  # moved in this transaction
        if not self._conn.execute(update(invocations).where(invocations.c.id == run_id).values(_outcome_values_of(run))).rowcount:
            whole = find(self._conn, run_id)
            assert whole is not None
            self._conn.execute(invocations.insert(), invocation_values_of(whole))
        return run

    def _end_attempt(self, run: Run, status: CallStatus, now: datetime) -> bool:
        """False when none was going on."""
        going = and_(attempts.c.run_id == run.id, attempts.c.number == run.attempts, attempts.c.status == CallStatus.RUNNING)
        error = run.message if run.message and status is not CallStatus.SUCCEEDED else None
        values = {"status": status, "http_status": run.http_status, "error": error, "finished_at": now}
        return self._conn.execute(update(attempts).where(going).values(values)).rowcount == 1


_LIGHT = [column for column in runs.c if column.name not in ("event", "request")]


def run_of(row: RowMapping) -> Run:
    """From a whole row or a light one."""
    values = {"event": "", **row}
    values["kind"], values["cause"], values["status"] = Kind(row["kind"]), Cause(row["cause"]), CallStatus(row["status"])
    return Run(**values)


def find(conn: Connection, run_id: str) -> Run | None:
    row = conn.execute(select(runs).where(runs.c.id == run_id)).mappings().one_or_none()
    return run_of(row) if row else None


def find_light(conn: Connection, run_id: str) -> Run | None:
    """Without its event and request, which may be large."""
    row = conn.execute(light().where(runs.c.id == run_id)).mappings().one_or_none()
    return run_of(row) if row else None


def light() -> Select[Any]:
    return select(*_LIGHT)


def values_of(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in runs.c.keys()}  # noqa: SIM118 - not a dict


def invocation_values_of(run: Run) -> dict[str, Any]:
    """A run has a method and a path only when it came over /fn."""
    request = stored_request_of(run.request) if run.request is not None else None
    return {
        "id": run.id,
        "request_id": run.request_id,
        "namespace": run.namespace,
        "workload_id": run.workload_id,
        "kind": run.kind,
        "name": run.name,
        "cause": run.cause,
        "method": request.method if request else "",
        "cold": False,
        "path": request.full_path.decode("latin-1") if request else "",
        "request_bytes": len(request.body) if request else len(run.event.encode(errors="replace")),
        **_outcome_values_of(run),
    }


def _outcome_values_of(run: Run) -> dict[str, Any]:
    """It began when its last attempt did; before, when it was accepted."""
    ended = run.status in lifecycle.ENDED_CALL_STATUSES
    return {
        "version": run.version,
        "status": run.status,
        "http_status": run.http_status,
        "duration_ms": _duration_ms_of(run) if ended and run.started_at else None,
        "attempts": run.attempts,
        "error": run.message if run.message and run.status is not CallStatus.SUCCEEDED else None,
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


def _callback_values_of(run: Run, url: str) -> dict[str, Any]:
    return {
        "run_id": run.id, "namespace": run.namespace, "url": url, "status": CallbackStatus.PENDING, "attempts": 0,
        "not_before": run.ended_at, "created_at": run.ended_at,
    }  # fmt: skip
