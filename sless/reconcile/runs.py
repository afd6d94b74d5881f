"""Runs: jobs, asynchronous calls and whatever else was accepted for later. At least once, each attempt recorded."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sless import clock, metrics
from sless.domain.model import CallStatus, Kind, Run, Version, VersionState, Workload
from sless.domain.ports import AcceptedCall, Backend, BackendUnavailable, Invoker, ObservedRun, Program, RunSpec, Waker
from sless.domain.routing import program_of, wants_instances
from sless.errors import Code, NotFound, SlessError
from sless.reconcile.decide import FinishRun, RetryRun, RunVerdict, job_program_of, verdict_of, verdict_of_lost
from sless.store import Store

_log = logging.getLogger(__name__)

ORPHAN_AFTER = timedelta(minutes=10)


@dataclass(slots=True, kw_only=True)
class RunsLoop:
    """`holder` names this server in the claims; `max_runs` bounds what goes on at once."""

    store: Store
    backend: Backend
    invoker: Invoker
    waker: Waker
    holder: str
    max_runs: int
    _pool: ThreadPoolExecutor = field(init=False)
    _invoked: dict[str, ObservedRun | None] = field(default_factory=dict)
    """Calls that go through instances: None while they run. Kept here because no backend shows them."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=self.max_runs, thread_name_prefix="invoke")

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def done(self, _: ObservedRun) -> None:
        """The backend ended a run. From any thread."""
        self.waker.wake("runs")

    def tick(self) -> None:
        now = clock.now()
        running = self.store.runs.list_running()
        due = self.store.runs.list_due(now, self.max_runs)
        observed = self.backend.observe_runs()
        still = [run for run in running if not self._settle(run, observed, now)]
        for run in due[: max(0, self.max_runs - len(still))]:
            self._begin(run)
        self._drop_orphans(observed, {run.id for run in running}, now)
        metrics.queue_depth.labels("runs").set(self.store.runs.count(CallStatus.QUEUED))

    def holds(self) -> set[str]:
        """Workloads of which a run goes on."""
        return {run.workload_id for run in self.store.runs.list_running()}

    def _settle(self, run: Run, observed: dict[str, ObservedRun], now: datetime) -> bool:
        """True when this running run has ended (or waits again)."""
        with self._lock:
            here = run.id in self._invoked
            seen = self._invoked[run.id] if here else observed.get(run.id)
        goes_on = here if seen is None else seen.status is CallStatus.RUNNING
        if goes_on:
            workload = self.store.workloads.find_by_id(run.workload_id)
            if workload is None or workload.deleted_at:
                self._write(run, FinishRun(status=CallStatus.CANCELLED, message="cancelled: the workload was deleted"))
                return True
            return False
        self._write(run, verdict_of(run, seen, now) if seen else verdict_of_lost(run, now))
        return True

    def _write(self, run: Run, verdict: RunVerdict) -> None:
        match verdict:
            case RetryRun(not_before=not_before, message=message):
                self.store.runs.requeue(run.id, not_before, message)
            case FinishRun(status=status, message=message):
                self.store.runs.finish(
                    run.id,
                    status=status,
                    result=verdict.result,
                    message=message,
                    exit_code=verdict.exit_code,
                    http_status=verdict.http_status,
                )
        with self._lock:
            self._invoked.pop(run.id, None)
        self.backend.remove_run(run.id)

    def _begin(self, run: Run) -> None:
        try:
            self._start(run)
        except BackendUnavailable:
            raise
        except SlessError as error:
            if error.code in (Code.UNAVAILABLE, Code.STORAGE_FULL):
                raise
            self._write(run, FinishRun(status=CallStatus.FAILED, message=error.message))
        except Exception as error:
            metrics.reconcile_errors.labels("runs").inc()
            _log.exception("run %s of %s cannot start", run.id, run.name)
            self._write(run, FinishRun(status=CallStatus.FAILED, message=f"could not be started: {error}"))

    def _start(self, run: Run) -> None:
        workload = self.store.workloads.find_by_id(run.workload_id)
        if workload is None or workload.deleted_at:
            self._write(run, FinishRun(status=CallStatus.CANCELLED, message="cancelled: the workload was deleted"))
            return
        target = self._target(workload)
        version = self._ready_version(target, workload)
        if version is None or not self.store.runs.claim(run.id, self.holder, version.number):
            return
        if workload.kind is not Kind.JOB and wants_instances(
            workload.kind, self.store.triggers.list_for(workload.namespace, workload.name)
        ):
            self._through_instances(run, program_of(workload, version))
            return
        program = program_of(target, version) if target is workload else job_program_of(workload, target, version)
        self.backend.start_run(RunSpec(id=run.id, program=program, event=run.event, request_id=run.request_id, cause=run.cause), self.done)

    def _target(self, workload: Workload) -> Workload:
        """Whose code runs: the workload's own, or that of the function its `function_ref` names."""
        reference = workload.spec.function_ref
        if workload.kind is not Kind.JOB or not reference:
            return workload
        target = self.store.workloads.find_callable(workload.namespace, reference)
        if target is None:
            raise NotFound("function", reference)
        return target

    def _ready_version(self, target: Workload, workload: Workload) -> Version | None:
        """The version to run. None: a build goes on or nothing was uploaded yet, the run waits. Raises SlessError when none will come."""
        newest = self.store.versions.find_newest(target.id)
        building = newest is None or newest.state in (VersionState.QUEUED, VersionState.BUILDING)
        if workload.kind is Kind.JOB and building:
            return None
        if target.active_version is not None:
            return self.store.versions.get(target.id, target.active_version)
        if newest is not None and newest.state in (VersionState.FAILED, VersionState.CANCELLED):
            raise build_failed(target, newest)
        return None

    def _through_instances(self, run: Run, program: Program) -> None:
        with self._lock:
            self._invoked[run.id] = None
        call = AcceptedCall(
            id=run.id,
            request_id=run.request_id,
            namespace=run.namespace,
            workload_id=run.workload_id,
            kind=run.kind,
            name=run.name,
            cause=run.cause,
            event=run.event,
            max_attempts=run.max_attempts,
        )
        self._pool.submit(self._invoke, call, float(program.timeout_sec or 3600))

    def _invoke(self, call: AcceptedCall, timeout_sec: float) -> None:
        try:
            ended = self.invoker.invoke(call.workload_id, call, timeout_sec)
        except Exception as error:
            _log.exception("call %s of %s broke", call.id, call.name)
            ended = ObservedRun(id=call.id, status=CallStatus.FAILED, message=str(error))
        with self._lock:
            self._invoked[call.id] = ended
        self.waker.wake("runs")

    def _drop_orphans(self, observed: dict[str, ObservedRun], running: set[str], now: datetime) -> None:
        """Outcomes that nobody fetched: their caller went away, or the server stopped between the row and the folder."""
        for run_id, seen in observed.items():
            if run_id not in running and seen.ended_at is not None and seen.ended_at < now - ORPHAN_AFTER:
                self.backend.remove_run(run_id)


def build_failed(workload: Workload, version: Version) -> SlessError:
    return SlessError(Code.BUILD_FAILED, f'{workload.kind} "{workload.name}" has no working version: {version.message}')
