"""Status changes of runs in one transaction. Each is a compare-and-set that also updates attempt, invocation, statistics and callback."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, and_, bindparam, delete, func, select, update

from sless import clock
from sless.domain import lifecycle
from sless.domain.audit import Note, value_change
from sless.domain.callback import CallbackStatus
from sless.domain.model import CallStatus, CallTrigger, Kind, Run
from sless.domain.request import stored_request_of
from sless.domain.statistics import CallStats
from sless.store import audit, notices
from sless.store.engine import Database
from sless.store.stats import StatsStore, bucket_of
from sless.store.tables import attempts, callbacks, invocations, runs, workloads
from sless.store.triggers import note_end
from sless.store.types import KeyText
from sless.store.workloads import find_by_id

_LIGHT = [column for column in runs.c if column.name not in ("event", "request")]
_OUTCOME = (
    "version", "status", "http_status", "duration_ms", "attempts", "error", "response_bytes", "started_at", "finished_at", "result",
)  # fmt: skip


def _move_statement(sources: Iterable[CallStatus], names: Iterable[str], **values: Any) -> Any:
    """Compare-and-set of the run `the_id`, returning it; `names` are columns that are set by parameter. Built once: building a statement
    takes SQLAlchemy longer than SQLite needs to execute it."""
    given: dict[str, Any] = {name: bindparam(f"v_{name}") for name in names}
    allowed = and_(runs.c.id == bindparam("the_id"), runs.c.status.in_(sorted(sources)))
    return update(runs).where(allowed).values(given | values).returning(*_LIGHT)


_ACTIVE = select(workloads.c.active_version).where(workloads.c.id == runs.c.workload_id).scalar_subquery()
_CLAIM = _move_statement(
    lifecycle.call_sources_of(CallStatus.RUNNING), ("claimed_by", "started_at"), status=CallStatus.RUNNING,
    attempts=runs.c.attempts + 1, version=func.coalesce(bindparam("v_version"), _ACTIVE),
)  # fmt: skip
_REQUEUE = _move_statement(
    (CallStatus.RUNNING,), ("not_before", "message", "http_status", "quarantined"), status=CallStatus.QUEUED, claimed_by=None
)
_FINISH = {
    status: _move_statement(
        lifecycle.call_sources_of(status), ("result", "message", "exit_code", "http_status", "ended_at"), status=status
    ).where(runs.c.status == func.coalesce(bindparam("v_was", type_=KeyText), runs.c.status))
    for status in lifecycle.ENDED_CALL_STATUSES
}
_UNCLAIM = _move_statement(
    (CallStatus.RUNNING,), ("not_before", "message"), status=CallStatus.QUEUED, claimed_by=None, attempts=runs.c.attempts - 1
)
_RERUN = _move_statement(
    lifecycle.RERUNNABLE_CALL_STATUSES, ("not_before",), status=CallStatus.QUEUED, attempts_before=runs.c.attempts, message="",
    claimed_by=None, result=None, exit_code=None, http_status=None, started_at=None, ended_at=None,
)  # fmt: skip
_FOLLOW = update(invocations).where(invocations.c.id == bindparam("the_id")).values({name: bindparam(f"v_{name}") for name in _OUTCOME})
_FOLLOW_CLAIM = _FOLLOW.values(cold=bindparam("v_cold"))
_END_ATTEMPT = (
    update(attempts)
    .where(attempts.c.run_id == bindparam("the_id"), attempts.c.number == bindparam("the_number"), attempts.c.status == CallStatus.RUNNING)
    .values({name: bindparam(f"v_{name}") for name in ("status", "http_status", "error", "finished_at")})
)
_BEGIN_ATTEMPT = attempts.insert()


class RunMoves:
    """Uses one connection; the caller ends its transaction. Statistics are added up and written once, by `close`."""

    def __init__(self, conn: Connection, database: Database, stats: StatsStore) -> None:
        self._conn = conn
        self._db = database
        self._stats = stats
        self._counted: list[CallStats] = []
        self._memory_mb: dict[str, int] = {}

    def close(self) -> None:
        """Call this before the commit."""
        self._stats.add(self._conn, self._counted)

    def insert(self, run: Run) -> bool:
        if self._conn.execute(self._db.insert(runs).on_conflict_do_nothing(), values_of(run)).rowcount != 1:
            return False
        self._conn.execute(self._db.insert(invocations).on_conflict_do_nothing(), invocation_values_of(run))
        return True

    def claim(self, run_id: str, holder: str, version: int | None = None, *, cold: bool = True) -> bool:
        """Queued → running, and one attempt more. `version` None: the active one. `cold`: a one-off run, not a call of an instance."""
        run = self._move(_CLAIM, run_id, {"claimed_by": holder, "started_at": clock.now(), "version": version}, cold)
        if run is None:
            return False
        attempt = {
            "run_id": run_id, "number": run.attempts, "version": run.version, "status": CallStatus.RUNNING, "started_at": run.started_at,
        }  # fmt: skip
        self._conn.execute(_BEGIN_ATTEMPT, attempt)
        return True

    def requeue(self, run_id: str, attempt: CallStatus, values: dict[str, Any]) -> bool:
        """Running → queued. `attempt` is how this attempt ended. `values` are not_before, message, http_status and quarantined, and for
        billing ran_ms and on_instances."""
        ran_ms, on_instances = float(values.pop("ran_ms", 0.0)), bool(values.pop("on_instances", False))
        run = self._move(_REQUEUE, run_id, values)
        if run is None:
            return False
        if self._end_attempt(run, attempt, clock.now()) and ran_ms:
            # Bill the memory of the attempt, although the call itself has not ended.
            self._counted.append(unended(self._stats_of(run, ran_ms, on_instances)))
        return True

    def unclaim(self, run_id: str, not_before: datetime, message: str) -> bool:
        """Undoes a claim whose run did not start; it does not count as an attempt."""
        run = self._move(_UNCLAIM, run_id, {"not_before": not_before, "message": message})
        if run is None:
            return False
        self._conn.execute(delete(attempts).where(attempts.c.run_id == run_id, attempts.c.number > run.attempts))
        return True

    def finish(self, run_id: str, status: CallStatus, attempt: CallStatus, values: dict[str, Any], was: CallStatus | None = None) -> bool:
        """`attempt` is how the last attempt ended: `failed` for a run that is `dead`. `values` are result, message, exit_code, http_status,
        ended_at (default: now), ran_ms and on_instances. `was`: only moves from this status, as a stale attempt must not finish a retry."""
        if status not in _FINISH:
            return False  # not a final status
        ended_at = values.pop("ended_at", None) or clock.now()
        ran_ms, on_instances = values.pop("ran_ms", None), bool(values.pop("on_instances", False))
        run = self._move(_FINISH[status], run_id, values | {"ended_at": ended_at, "was": was})
        if run is None:
            return False
        if self._end_attempt(run, attempt, ended_at):
            self._counted.append(self._stats_of(run, ran_ms, on_instances))
        if run.callback_url is not None:
            self._conn.execute(callbacks.insert(), _callback_values_of(run, run.callback_url))
        if status is CallStatus.DEAD:
            notices.notify_dead(self._db, self._conn, run)
        if run.trigger_id is not None:
            note_end(self._conn, run.trigger_id, run.due_at, status)
        return True

    def rerun(self, run_id: str, now: datetime) -> bool:
        if self._move(_RERUN, run_id, {"not_before": now}) is None:
            return False
        # A callback for the old result would be outdated; the new result gets its own.
        self._conn.execute(delete(callbacks).where(callbacks.c.run_id == run_id))
        return True

    def note(self, run_id: str, verb: str) -> None:
        """Records in the audit trail who changed the status of this run."""
        run = find(self._conn, run_id)
        assert run is not None
        note(self._conn, run, verb)

    def _move(self, statement: Any, run_id: str, values: dict[str, Any], cold: bool | None = None) -> Run | None:
        """The moved run, or None when its status does not allow the move."""
        given = {f"v_{name}": value for name, value in values.items()}
        row = self._conn.execute(statement, {"the_id": run_id, **given}).mappings().one_or_none()
        if row is None:
            return None
        run = run_of(row)
        follow = {f"v_{name}": value for name, value in _outcome_values_of(run).items()}
        how = _FOLLOW if cold is None else _FOLLOW_CLAIM
        given = {"the_id": run_id, **follow} if cold is None else {"the_id": run_id, "v_cold": cold, **follow}
        if not self._conn.execute(how, given).rowcount:
            whole = find(self._conn, run_id)
            assert whole is not None  # moved in this transaction
            self._conn.execute(invocations.insert(), invocation_values_of(whole) | {"cold": bool(cold)})
        return run

    def _end_attempt(self, run: Run, status: CallStatus, now: datetime) -> bool:
        """False when no attempt was running."""
        error = run.message if run.message and status is not CallStatus.SUCCEEDED else None
        values = {
            "the_id": run.id, "the_number": run.attempts, "v_status": status, "v_http_status": run.http_status, "v_error": error,
            "v_finished_at": now,
        }  # fmt: skip
        return self._conn.execute(_END_ATTEMPT, values).rowcount == 1

    def _stats_of(self, run: Run, ran_ms: float | None, on_instances: bool) -> CallStats:
        if run.workload_id not in self._memory_mb:
            self._memory_mb[run.workload_id] = _memory_mb_of(self._conn, run)
        gb_ms = self._memory_mb[run.workload_id] / 1024 * (_duration_ms_of(run) if ran_ms is None else ran_ms)
        return replace(_stats_of(run), gb_ms=gb_ms, run_gb_ms=0.0 if on_instances else gb_ms)


def note(conn: Connection, run: Run, verb: str) -> None:
    call = value_change("invocation", None, run.id)
    audit.note(conn, Note(namespace=run.namespace, kind=run.kind, name=run.name, verb=verb, changes=(call,)))


def run_of(row: RowMapping) -> Run:
    """Takes a complete row, or one of `light`."""
    values = {"event": "", **row}
    values["kind"], values["trigger"], values["status"] = Kind(row["kind"]), CallTrigger(row["trigger"]), CallStatus(row["status"])
    return Run(**values)


def find(conn: Connection, run_id: str) -> Run | None:
    row = conn.execute(select(runs).where(runs.c.id == run_id)).mappings().one_or_none()
    return run_of(row) if row else None


def light() -> Select[Any]:
    return select(*_LIGHT)


def values_of(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in runs.c.keys()}  # noqa: SIM118 - not a dict


def invocation_values_of(run: Run) -> dict[str, Any]:
    """Method and path are only known for calls over /fn."""
    request = stored_request_of(run.request) if run.request is not None else None
    return {
        "id": run.id,
        "request_id": run.request_id,
        "namespace": run.namespace,
        "workload_id": run.workload_id,
        "kind": run.kind,
        "name": run.name,
        "trigger": run.trigger,
        "method": request.method if request else "",
        "cold": False,
        "path": request.full_path.decode("latin-1") if request else "",
        "request_bytes": len(request.body) if request else len(run.event.encode(errors="replace")),
        **_outcome_values_of(run),
    }


def _outcome_values_of(run: Run) -> dict[str, Any]:
    """`started_at` is the start of the last attempt; before the first one, the time of acceptance."""
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


def _stats_of(run: Run) -> CallStats:
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
        gb_ms=0.0,
        duration_ms=duration_ms,
        histogram=tuple(histogram),
    )


def unended(stats: CallStats) -> CallStats:
    """Counts only the memory of an attempt, not a call."""
    return replace(stats, calls=0, errors=0, duration_ms=0.0, histogram=(0,) * len(stats.histogram))


def _memory_mb_of(conn: Connection, run: Run) -> int:
    """Memory of the workload; for a job with a `function_ref` that does not set its own, memory of the function."""
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
