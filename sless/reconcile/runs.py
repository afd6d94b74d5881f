"""Executes runs: jobs, asynchronous calls and cron firings. At least once; records each attempt."""

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic

from sless import clock, metrics
from sless.domain.limits import TenantLimits, limits_of
from sless.domain.model import CallStatus, Kind, Run, Workload
from sless.domain.ports import Backend, BackendUnavailable, Invoker, ObservedRun, RunSpec, Waker
from sless.domain.request import stored_request_of
from sless.domain.slots import Slots
from sless.errors import Code, SlessError
from sless.proxy.run_room import RunRoom
from sless.reconcile.decide_runs import FinishRun, RetryRun, RunVerdict, bounded, in_turn, stop_of, verdict_of, verdict_of_lost
from sless.reconcile.failures import note_failure
from sless.reconcile.instance_calls import InstanceCalls
from sless.reconcile.run_plans import Plans, Ready, Waiting
from sless.store import Store

_log = logging.getLogger(__name__)

ORPHAN_AFTER = timedelta(minutes=10)
CALLS_AT_ONCE = 200
"""Maximum number of asynchronous calls on instances. Each takes only a connection, so they do not count as runs."""
LONGEST_CALL_SEC = 3600.0
"""Time limit for services that have none."""
REST_SEC = 0.03
"""Pause between ticks of a busy loop, so that calls that end or arrive in the meantime share the transactions of the next tick."""
_BATCH = 50
_GAUGE_SEC = 1.0
_AGAIN_AFTER = timedelta(seconds=5)
_NOT_NOW = frozenset({Code.UNAVAILABLE, Code.STORAGE_FULL, Code.SHUTTING_DOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsLoopLimits:
    """`max_runs` limits one-off runs and jobs together, `per_workload` the active runs of one function, service or job, `result_bytes` the
    stored result."""

    max_runs: int
    per_workload: int
    result_bytes: int = 2**20
    calls_at_once: int = CALLS_AT_ONCE
    of_tenants: Mapping[str, int] = field(default_factory=dict)
    """Default limits of tenants; none if empty."""


@dataclass(slots=True, kw_only=True)
class RunsLoop:
    """`holder` names this server in the claims."""

    store: Store
    backend: Backend
    invoker: Invoker
    waker: Waker
    holder: str
    limits: RunsLoopLimits
    room: RunRoom = field(default_factory=RunRoom)
    rng: random.Random = field(default_factory=random.Random)
    _calls: InstanceCalls = field(init=False)
    _gauge_at: float = 0.0
    _held: set[str] = field(default_factory=set)
    """Ids of runs that count in `room`, or were refused."""
    _stopping: bool = False

    def __post_init__(self) -> None:
        self._calls = InstanceCalls(self.invoker, lambda: self.waker.wake("runs"))

    def done(self, _: ObservedRun) -> None:
        """Called by the backend when a run has ended, from any thread."""
        self.waker.wake("runs")

    def holds(self) -> set[str]:
        """Ids of workloads with an active run."""
        return self.store.runs.running_workloads()

    def release_runs(self) -> None:
        """Called when another server leads, which counts the runs."""
        for run_id in self._held:
            self.room.give_back(run_id)
        self._held = set()

    def stop_starting(self) -> None:
        """Called when the server stops: leaves queued runs to the next leader."""
        self._stopping = True

    def drain(self, timeout_sec: float) -> bool:
        """Call this after `stop_starting`, while the loop still ticks: waits until the calls on instances have ended and are stored. The
        next leader restarts those that take longer."""
        return self._calls.wait_empty(timeout_sec)

    def tick(self) -> None:
        now = clock.now()
        running = self.store.runs.list_running()
        observed = self.backend.observe_runs()
        ended = self._settle(running, observed, now)
        self._stop_cancelled(observed, {run.id for run in running})
        self._begin([run for run in running if run.id not in ended], observed.keys() - ended, now)
        self._drop_orphans(observed, {run.id for run in running}, now)
        if monotonic() >= self._gauge_at:
            metrics.queue_depth.labels("runs").set(self.store.runs.count(CallStatus.QUEUED))
            self._gauge_at = monotonic() + _GAUGE_SEC

    # --- ends ---

    def _settle(self, running: list[Run], observed: dict[str, ObservedRun], now: datetime) -> set[str]:
        """Writes runs that have ended or are to be retried; returns their ids."""
        if not running:
            return set()
        workloads = self.store.workloads.by_ids(run.workload_id for run in running)
        stops = {key: stop_of(workloads.get(key), self._target_of(workloads.get(key)), now) for key in {run.workload_id for run in running}}
        verdicts = [(run, verdict) for run in running if (verdict := self._verdict(run, observed, now, stops[run.workload_id]))]
        for start in range(0, len(verdicts), _BATCH):
            self._write(verdicts[start : start + _BATCH])
        return {run.id for run, _ in verdicts}

    def _target_of(self, workload: Workload | None) -> Workload | None:
        """The function whose code a job runs; None for other workloads."""
        reference = workload.spec.function_ref if workload is not None and workload.kind is Kind.JOB else None
        return self.store.workloads.find_callable(workload.namespace, reference) if workload is not None and reference else None

    def _verdict(self, run: Run, observed: dict[str, ObservedRun], now: datetime, stop: RunVerdict | None) -> RunVerdict | None:
        """The action for a run; None if it is still active. `stop` is the action for one that is active."""
        here = run.id in self._calls
        observation = self._calls.find_end(run.id) if here else observed.get(run.id)
        is_running = here if observation is None else observation.status is CallStatus.RUNNING
        if is_running:
            if isinstance(stop, RetryRun) and run.started_at is not None:
                return replace(stop, ran_ms=max(0.0, (now - run.started_at) / timedelta(milliseconds=1)))
            return stop
        # The server's event loop cancelled this run; one cancelled by a user would no longer be running in the database.
        if observation is None or observation.status is CallStatus.CANCELLED:
            return verdict_of_lost(run, now)
        return verdict_of(run, bounded(observation, self.limits.result_bytes), now, self.rng.uniform(-1, 1))

    def _write(self, verdicts: list[tuple[Run, RunVerdict]]) -> None:
        """Writes all of them in one transaction, so that a busy server commits no more often than an idle one."""
        with self.store.runs.moves() as moves:
            for run, verdict in verdicts:
                match verdict:
                    case RetryRun():
                        values = {name: getattr(verdict, name) for name in ("not_before", "message", "http_status", "quarantined")}
                        values |= {"ran_ms": verdict.ran_ms, "on_instances": run.id in self._calls}
                        moves.requeue(run.id, verdict.attempt, values)
                    case FinishRun(status=status):
                        values = {
                            "message": verdict.message, "result": verdict.result, "exit_code": verdict.exit_code,
                            "http_status": verdict.http_status, "ended_at": verdict.ended_at, "ran_ms": verdict.ran_ms,
                            "on_instances": run.id in self._calls,
                        }  # fmt: skip
                        moves.finish(run.id, status, verdict.attempt or status, values, was=run.status)
        for run, verdict in verdicts:
            _count(run, verdict)
            if not self._calls.drop(run.id):
                self.backend.remove_run(run.id)
        if any(run.callback_url for run, _ in verdicts):
            self.waker.wake("callbacks")

    def _stop_cancelled(self, observed: dict[str, ObservedRun], running: set[str]) -> None:
        """Stops processes of runs that are not running in the database, because a user cancelled them (and may have retried them), or a
        server was killed after it had stored the outcome. Leaves synchronous calls alone, which have no row."""
        for run_id in self._calls.ids() - running:
            self._calls.drop(run_id)
        unknown = observed.keys() - running
        for run_id in self.store.runs.resting_of(unknown) if unknown else ():
            self.backend.remove_run(run_id)

    def _drop_orphans(self, observed: dict[str, ObservedRun], running: set[str], now: datetime) -> None:
        """Removes old outcomes that were never fetched, because the caller left, or the server stopped before it removed the folder."""
        for run_id, seen in observed.items():
            if run_id not in running and seen.ended_at is not None and seen.ended_at < now - ORPHAN_AFTER:
                self.backend.remove_run(run_id)

    # --- beginnings ---

    def _begin(self, active: list[Run], removing: Set[str], now: datetime) -> None:
        """`removing`: ids of runs whose earlier attempt is still being removed."""
        self._count_active(active)
        slots = self._slots(active)
        if self._stopping or not any(sort.free > 0 for sort in slots.values()):
            return
        due = [run for run in self.store.runs.list_due(now, 2 * self.limits.per_workload) if run.id not in removing]
        if not due:
            return
        limits_of_tenant = self._limits_of_tenants()
        plans = Plans(self.store, {run.workload_id for run in due})
        chosen: list[tuple[Run, Ready]] = []
        finished: list[tuple[Run, RunVerdict]] = []
        short: set[str] = set()
        for run in in_turn(due, active, self.limits.per_workload):
            match plans.of(run.workload_id):
                case Ready(on_instances=True) as plan if slots[True].take(run.namespace):
                    chosen.append((run, plan))
                case Ready(on_instances=False) as plan if run.namespace not in short:
                    verdict = self._room_for(run, plan, slots[False], limits_of_tenant(run.namespace))
                    if verdict is True:
                        chosen.append((run, plan))
                    elif verdict is False:
                        short.add(run.namespace)
                    else:
                        finished.append((run, verdict))
                case FinishRun() as verdict:
                    finished.append((run, verdict))
                case Ready() | Waiting():
                    continue
        for start in range(0, len(finished), _BATCH):
            self._write(finished[start : start + _BATCH])
        for start in range(0, len(chosen), _BATCH):
            self._start_all(chosen[start : start + _BATCH])

    def _limits_of_tenants(self) -> Callable[[str], TenantLimits | None]:
        own = self.store.tenants.set_limits_of_all() if self.limits.of_tenants else {}
        return lambda namespace: limits_of(self.limits.of_tenants, own.get(namespace, {})) if self.limits.of_tenants else None

    def _room_for(self, run: Run, plan: Ready, slots: Slots, limits: TenantLimits | None) -> bool | FinishRun:
        """Takes slot and room for a one-off run. False if it has to wait; then later ones of its tenant wait, too, as a large one might
        otherwise wait forever."""
        if not slots.take(run.namespace):
            return False
        self._held.add(run.id)
        try:
            fits: bool | FinishRun = self.room.take(run.id, run.namespace, plan.revision.memory_mb, limits) is None
        except SlessError as error:
            fits = FinishRun(status=CallStatus.FAILED, message=error.message)
        if fits is not True:
            slots.give_back(run.namespace)
        return fits

    def _count_active(self, active: list[Run]) -> None:
        """Counts exactly the active one-off runs, including those started by an earlier server."""
        alone = {run.id: run for run in active if run.id not in self._calls}
        for run_id in self._held - alone.keys():
            self.room.give_back(run_id)
        if fresh := [run for run_id, run in alone.items() if run_id not in self._held]:
            plans = Plans(self.store, {run.workload_id for run in fresh})
            for run in fresh:
                plan = plans.of(run.workload_id)
                self.room.adopt(run.id, run.namespace, plan.revision.memory_mb if isinstance(plan, Ready) else 0)
        self._held = set(alone)

    def _slots(self, active: list[Run]) -> dict[bool, Slots]:
        """The limits of calls on instances (True) and of one-off runs."""
        taken = {True: Counter[str](), False: Counter[str]()}
        for run in active:
            taken[run.id in self._calls][run.namespace] += 1
        most = {True: self.limits.calls_at_once, False: self.limits.max_runs}
        return {sort: Slots(free=most[sort] - taken[sort].total(), taken=taken[sort]) for sort in most}

    def _start_all(self, chosen: Iterable[tuple[Run, Ready]]) -> None:
        with self.store.runs.moves() as moves:
            claimed = [(run, plan) for run, plan in chosen if moves.claim(run.id, self.holder, plan.revision.version, cold=plan.cold)]
        whole = self.store.runs.by_ids([run.id for run, _ in claimed]) if claimed else {}
        for run, plan in claimed:
            if run.id in whole:  # else its workload has just been removed
                self._start(whole[run.id], plan)

    def _start(self, run: Run, plan: Ready) -> None:
        try:
            if plan.on_instances:
                self._calls.begin(run, float(plan.revision.timeout_sec or LONGEST_CALL_SEC))
            else:
                event = run.event if run.request is None else stored_request_of(run.request).event()
                spec = RunSpec(id=run.id, revision=plan.revision, event=event, request_id=run.request_id, trigger=run.trigger)
                self.backend.start_run(spec, self.done)
        except BackendUnavailable as error:
            self._postpone(run, f"could not be started yet: {error}")
        except SlessError as error:
            if error.code in _NOT_NOW:
                self._postpone(run, error.message)
            else:
                self._write([(run, FinishRun(status=CallStatus.FAILED, message=error.message))])
        except Exception as error:
            note_failure(self.store, "runs", error, run.workload_id)
            _log.exception("run %s of %s cannot start", run.id, run.name)
            self._write([(run, FinishRun(status=CallStatus.FAILED, message=f"could not be started: {error}"))])

    def _postpone(self, run: Run, message: str) -> None:
        _log.warning("run %s of %s: %s", run.id, run.name, message)
        self.store.runs.unclaim(run.id, clock.now() + _AGAIN_AFTER, message)


def _count(run: Run, verdict: RunVerdict) -> None:
    match verdict:
        case RetryRun(attempt=status):
            metrics.run_attempts.labels(str(run.trigger), str(status)).inc()
        case FinishRun(status=status, attempt=attempt):
            metrics.run_attempts.labels(str(run.trigger), str(attempt or status)).inc()
            metrics.CALLS.add_outcomes({(str(run.kind), str(run.trigger), str(status)): 1})
