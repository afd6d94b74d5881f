"""The runs loop on a real store, with a scripted backend and invoker."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from sqlalchemy import event

from sless import clock
from sless.domain.callback import CallbackStatus
from sless.domain.limits import LimitName
from sless.domain.model import CallStatus, CallTrigger, Endpoint, Kind, Run, TriggerType, VersionState
from sless.domain.ports import BackendUnavailable, ObservedRun, Outcome, RunSpec
from sless.errors import Code, SlessError
from sless.reconcile.runs import RunsLoop, RunsLoopLimits
from sless.store import Store
from tests.builders import NAMESPACE, make_run, make_workload_spec
from tests.contract.store_steps import build, requeue_run

QUEUED, RUNNING, SUCCEEDED, FAILED = CallStatus.QUEUED, CallStatus.RUNNING, CallStatus.SUCCEEDED, CallStatus.FAILED


@dataclass
class Backend:
    """Runs continue until a test ends them."""

    runs: dict[str, ObservedRun] = field(default_factory=dict)
    specs: dict[str, RunSpec] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    error: Exception | None = None

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None:
        if self.error is not None:
            raise self.error
        self.specs[run.id] = run
        self.runs[run.id] = ObservedRun(id=run.id, status=RUNNING)

    def observe_runs(self) -> dict[str, ObservedRun]:
        return dict(self.runs)

    def remove_run(self, run_id: str) -> None:
        self.removed.append(run_id)
        self.runs.pop(run_id, None)

    def end(self, run_id: str, status: CallStatus, http_status: int | None = None) -> None:
        self.runs[run_id] = ended(run_id, status, http_status)


@dataclass
class Invoker:
    calls: dict[str, tuple[Run, float, Callable[[ObservedRun], None]]] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    error: SlessError | None = None

    def begin(self, call: Run, timeout_sec: float, done: Callable[[ObservedRun], None]) -> Callable[[], None]:
        if self.error is not None:
            raise self.error
        self.calls[call.id] = (call, timeout_sec, done)
        return lambda: self.stopped.append(call.id)

    def end(self, run_id: str, status: CallStatus, http_status: int | None = None) -> None:
        self.calls.pop(run_id)[2](ended(run_id, status, http_status))


def ended(run_id: str, status: CallStatus, http_status: int | None) -> ObservedRun:
    outcome = None
    if http_status is not None:
        headers = (("content-type", "application/json"),)
        outcome = Outcome(ok=http_status < 500, error=None, error_type=None, status=http_status, headers=headers, body=b"1")
    return ObservedRun(id=run_id, status=status, outcome=outcome, message="" if status is SUCCEEDED else "why")


@dataclass
class Stage:
    store: Store
    backend: Backend
    invoker: Invoker
    topics: list[str]
    loop: RunsLoop

    def wake(self, topic: str) -> None:
        self.topics.append(topic)

    def again(self) -> "Stage":
        """The next server, which only knows the database and the backend."""
        return make_stage(self.store, self.backend, self.loop.limits)

    def function(self, name: str, *, on_instances: bool = False, ready: bool = True, namespace: str = NAMESPACE) -> str:
        workload = self.store.workloads.insert(namespace, Kind.FUNCTION, name, make_workload_spec())
        if ready:
            build(self.store, workload)
        if on_instances:
            self.store.triggers.insert(NAMESPACE, name=name, type=TriggerType.HTTP, function_ref=name, enabled=True, spec={}, secrets={})
        return workload.id

    def accept(self, workload_id: str, **changes: object) -> Run:
        run = make_run(**({"workload_id": workload_id, "not_before": clock.now(), "created_at": clock.now()} | changes))
        assert self.store.runs.insert(run)
        return run

    def status(self, run: Run) -> CallStatus:
        return self.store.runs.get(run.id).status


def make_stage(store: Store, backend: Backend, limits: RunsLoopLimits) -> Stage:
    invoker, topics = Invoker(), list[str]()

    class Waker:
        def wake(self, topic: str) -> None:
            topics.append(topic)

    loop = RunsLoop(
        store=store, backend=backend, invoker=invoker, waker=Waker(), holder="h", limits=limits, rng=random.Random(1)  # type: ignore[arg-type]
    )  # fmt: skip
    return Stage(store, backend, invoker, topics, loop)


@pytest.fixture
def stage(store: Store) -> Iterator[Stage]:
    yield make_stage(store, Backend(), RunsLoopLimits(max_runs=5, per_workload=2, calls_at_once=7))  # of which one tenant gets 3 or 4


def test_a_tick_without_runs_makes_two_transactions(stage: Stage) -> None:
    """An idle server ticks each second."""
    stage.function("f")
    stage.loop.tick()
    begun: list[object] = []
    event.listen(stage.store.database.engine, "begin", begun.append)
    stage.loop.tick()
    assert len(begun) == 2


def test_a_run_from_start_to_end(stage: Stage) -> None:
    run = stage.accept(stage.function("f"), event='{"a": 1}')
    stage.loop.tick()
    spec = stage.backend.specs[run.id]
    assert (spec.event, spec.trigger, spec.revision.version, stage.status(run)) == ('{"a": 1}', CallTrigger.INVOKE, 1, RUNNING)
    stage.backend.end(run.id, SUCCEEDED, 200)
    stage.loop.tick()
    assert stage.status(run) is SUCCEEDED and stage.backend.removed == [run.id]
    assert stage.store.history.find_invocation(run.workload_id, run.id).cold


@pytest.mark.parametrize(("draining", "cold"), [(None, True), (True, True), (False, False)], ids=["none", "draining", "serving"])
def test_a_call_through_an_instance(stage: Stage, draining: bool | None, cold: bool) -> None:
    """A call that finds no instance that serves waits for one to start: it is cold."""
    run = stage.accept(stage.function("f", on_instances=True))
    if draining is not None:
        stage.store.routes.set_endpoints(run.workload_id, [endpoint_of(run.workload_id, draining=draining)])
    stage.loop.tick()
    call, timeout_sec, _ = stage.invoker.calls[run.id]
    assert (call.event, timeout_sec, stage.backend.specs) == ("{}", 30.0, {})
    stage.loop.tick()
    assert stage.status(run) is RUNNING
    stage.invoker.end(run.id, SUCCEEDED, 200)
    assert "runs" in stage.topics
    stage.loop.tick()
    assert stage.status(run) is SUCCEEDED and stage.backend.removed == []
    assert stage.store.history.find_invocation(run.workload_id, run.id).cold is cold


def endpoint_of(workload_id: str, *, draining: bool = False) -> Endpoint:
    return Endpoint(id="e", workload_id=workload_id, version=1, address="unix:/x", draining=draining, created_at=clock.now())


def test_a_run_is_dead_after_three_failures_and_lists_each_attempt(stage: Stage) -> None:
    run = stage.accept(stage.function("f", on_instances=True), callback_url="https://example.com/x")
    for attempt in range(1, 4):
        stage.loop.tick()
        assert stage.store.runs.get(run.id).attempts == attempt
        stage.invoker.end(run.id, FAILED, 500)
        stage.loop.tick()
        waiting = stage.store.runs.get(run.id)
        if attempt < 3:
            wait_sec = (waiting.not_before - clock.now()).total_seconds()
            assert waiting.status is QUEUED and 2**attempt * 0.8 - 1 < wait_sec < 2**attempt * 1.2
            hurry(stage.store, run)
    assert waiting.status is CallStatus.DEAD
    assert [item.status for item in stage.store.runs.attempts_of(run.id)] == [FAILED] * 3
    assert stage.store.callbacks.find(run.id).status is CallbackStatus.PENDING and "callbacks" in stage.topics


def hurry(store: Store, run: Run) -> None:
    with store.database.write() as conn:
        conn.exec_driver_sql(f"UPDATE runs SET not_before = created_at WHERE id = '{run.id}'")


def test_a_flood_of_one_function_does_not_starve_another(stage: Stage) -> None:
    flooded, other = stage.function("a", on_instances=True), stage.function("b", on_instances=True)
    flood = [stage.accept(flooded) for _ in range(30)]
    late = [stage.accept(other) for _ in range(3)]
    stage.loop.tick()
    assert set(stage.invoker.calls) == {flood[0].id, flood[1].id, late[0].id, late[1].id}
    stage.invoker.end(late[0].id, SUCCEEDED, 200)
    stage.loop.tick()
    assert late[2].id in stage.invoker.calls and len(stage.invoker.calls) == 4


def test_runs_and_calls_have_separate_limits(stage: Stage) -> None:
    once = [stage.accept(stage.function(f"o{n}")) for n in range(5)]
    on_instances = [stage.accept(stage.function(f"s{n}", on_instances=True)) for n in range(5)]
    stage.loop.tick()
    stage.loop.tick()
    assert (len(stage.backend.specs), len(stage.invoker.calls)) == (3, 4)
    for run in (*once, *on_instances):
        for part in (stage.backend, stage.invoker):
            if run.id in (stage.backend.specs if part is stage.backend else stage.invoker.calls):
                part.end(run.id, SUCCEEDED, 200)
    stage.loop.tick()
    assert (len(stage.backend.specs), len(stage.invoker.calls)) == (5, 1)


def test_a_tenant_with_a_thousand_runs_does_not_delay_others(stage: Stage) -> None:
    """Even while its running ones are slow; a third tenant also finds a free slot."""
    others = ["sless-2000000000000000", "sless-3000000000000000"]
    for namespace in others:
        stage.store.tenants.ensure(namespace, namespace)
    flood = [stage.function(f"o{n}") for n in range(10)]
    stage.store.runs.insert_all(
        [make_run(id=f"r{n}", workload_id=flood[n % 10], not_before=clock.now(), created_at=clock.now()) for n in range(1000)]
    )
    for _ in range(3):
        stage.loop.tick()
    assert len(stage.backend.specs) == 3
    for namespace in others:
        late = stage.accept(stage.function("f", namespace=namespace), namespace=namespace)
        stage.loop.tick()
        assert stage.status(late) is RUNNING


def test_the_memory_of_a_tenants_runs_is_limited_also_after_a_restart(store: Store) -> None:
    limits = RunsLoopLimits(max_runs=50, per_workload=9, of_tenants={LimitName.MEMORY_MB: 300, LimitName.RUNS_AT_ONCE: 9})
    stage = make_stage(store, Backend(), limits)
    first, second, third = (stage.accept(stage.function(name)) for name in ("f", "g", "h"))
    stage.loop.tick()
    assert [stage.status(run) for run in (first, second, third)] == [RUNNING, RUNNING, QUEUED]
    assert stage.loop.room.claimed_mb(NAMESPACE) == 3 * 128
    stage = stage.again()
    stage.loop.tick()
    assert stage.status(third) is QUEUED and stage.loop.room.claimed_mb(NAMESPACE) == 3 * 128
    stage.backend.end(first.id, SUCCEEDED, 200)
    stage.loop.tick()
    assert stage.status(third) is RUNNING
    for run in (second, third):
        stage.store.runs.cancel(run.id)
    stage.loop.tick()
    assert stage.loop.room.claimed_mb(NAMESPACE) == 0


def test_a_run_larger_than_its_tenants_limit_fails(store: Store) -> None:
    limits = RunsLoopLimits(max_runs=50, per_workload=9, of_tenants={LimitName.MEMORY_MB: 100, LimitName.RUNS_AT_ONCE: 9})
    stage = make_stage(store, Backend(), limits)
    run = stage.accept(stage.function("f"))
    stage.loop.tick()
    ended = store.runs.get(run.id)
    assert ended.status is FAILED and "limit memory_mb of the namespace: expected at most 100 MB" in ended.message


def test_runs_waiting_for_a_build_do_not_block_others(stage: Stage) -> None:
    for n in range(10):
        stage.accept(stage.function(f"w{n}", ready=False))
    run = stage.accept(stage.function("f"))
    stage.loop.tick()
    assert set(stage.backend.specs) == {run.id}


def test_a_function_that_never_built_fails_its_calls(stage: Stage) -> None:
    workload_id = stage.function("f", ready=False)
    build(stage.store, stage.store.workloads.get_by_id(workload_id), state=VersionState.FAILED, message="no module")
    run = stage.accept(workload_id)
    stage.loop.tick()
    found = stage.store.runs.get(run.id)
    assert (found.status, found.attempts, "no module" in found.message) == (FAILED, 0, True)


@pytest.mark.parametrize("on_instances", [False, True])
def test_a_run_cancelled_while_running_is_stopped(stage: Stage, on_instances: bool) -> None:
    run = stage.accept(stage.function("f", on_instances=on_instances))
    stage.loop.tick()
    stage.store.runs.cancel(run.id)
    stage.loop.tick()
    assert (stage.invoker.stopped if on_instances else stage.backend.removed) == [run.id]
    assert stage.status(run) is CallStatus.CANCELLED
    stage.loop.tick()
    assert stage.status(run) is CallStatus.CANCELLED


def test_a_rerun_after_a_cancel_ends_the_old_attempt_first(stage: Stage) -> None:
    run = stage.accept(stage.function("f"))
    stage.loop.tick()
    assert stage.store.runs.cancel(run.id) and stage.store.runs.rerun(run.id)
    stage.loop.tick()
    assert (stage.backend.removed, stage.status(run)) == ([run.id], QUEUED)
    stage.loop.tick()
    assert (stage.status(run), stage.store.runs.get(run.id).attempts) == (RUNNING, 2)


def test_a_stale_outcome_is_not_taken_for_the_next_attempt(stage: Stage) -> None:
    """The server was killed after it recorded the attempt, before it removed the outcome from the backend."""
    run = stage.accept(stage.function("f"))
    stage.loop.tick()
    stage.backend.end(run.id, SUCCEEDED, 200)
    requeue_run(stage.store, run.id, clock.now(), "status 500", http_status=500)
    after = stage.again()
    after.loop.tick()
    assert (after.backend.removed, after.status(run)) == ([run.id], QUEUED)
    after.loop.tick()
    assert (after.status(run), after.backend.runs[run.id].status) == (RUNNING, RUNNING)


def test_the_proxys_synchronous_runs_are_left_alone(stage: Stage) -> None:
    stage.backend.runs["sync"] = ObservedRun(id="sync", status=RUNNING)
    stage.loop.tick()
    assert stage.backend.removed == []


def test_runs_of_a_deleted_workload_are_cancelled(stage: Stage) -> None:
    runs, waits = stage.accept(one := stage.function("f")), stage.accept(two := stage.function("g", ready=False))
    stage.loop.tick()
    assert stage.loop.holds() == {one}
    stage.store.workloads.mark_deleted(one)
    stage.store.workloads.mark_deleted(two)
    stage.loop.tick()
    assert [stage.status(run) for run in (runs, waits)] == [CallStatus.CANCELLED] * 2
    assert stage.backend.removed[0] == runs.id and stage.loop.holds() == set()


@pytest.mark.parametrize("on_instances", [False, True])
def test_a_run_whose_server_is_killed_three_times_is_dead(stage: Stage, on_instances: bool) -> None:
    run = stage.accept(stage.function("f", on_instances=on_instances), max_attempts=1)
    for attempt in range(1, 4):
        stage.loop.tick()
        assert stage.store.runs.get(run.id).attempts == attempt
        stage.backend.runs.clear()
        stage = stage.again()
    stage.loop.tick()
    found = stage.store.runs.get(run.id)
    assert (found.status, "3 times" in found.message) == (CallStatus.DEAD, True)
    assert [item.status for item in stage.store.runs.attempts_of(run.id)] == [FAILED] * 3


def test_a_run_that_ended_while_no_server_ran(stage: Stage) -> None:
    run = stage.accept(stage.function("f"))
    stage.loop.tick()
    stage.backend.end(run.id, SUCCEEDED, 200)
    stage.again().loop.tick()
    assert stage.status(run) is SUCCEEDED


def test_a_call_interrupted_by_a_server_stop_is_retried(stage: Stage) -> None:
    run = stage.accept(stage.function("f", on_instances=True))
    stage.loop.tick()
    stage.invoker.end(run.id, CallStatus.CANCELLED)
    stage.loop.tick()
    found = stage.store.runs.get(run.id)
    assert found.status in (QUEUED, RUNNING) and "stop of the server" in stage.store.runs.attempts_of(run.id)[0].error


@pytest.mark.parametrize("error", [BackendUnavailable("away"), SlessError(Code.UNAVAILABLE, "away"), SlessError(Code.STORAGE_FULL, "full")])
def test_a_run_that_cannot_start_now_starts_later(stage: Stage, error: Exception) -> None:
    run = stage.accept(stage.function("f"), max_attempts=1)
    stage.backend.error = error
    stage.loop.tick()
    found = stage.store.runs.get(run.id)
    assert found.status is QUEUED and found.not_before > clock.now() + timedelta(seconds=1) and str(error) in found.message
    assert (found.attempts, stage.store.runs.attempts_of(run.id)) == (0, []), "nothing was tried"


@pytest.mark.parametrize("error", [SlessError(Code.INVALID, "broken code"), RuntimeError("broken code")])
def test_a_run_that_can_never_start_fails(stage: Stage, error: Exception) -> None:
    run, other = stage.accept(stage.function("f")), stage.accept(stage.function("g", on_instances=True))
    stage.backend.error = error
    stage.loop.tick()
    found = stage.store.runs.get(run.id)
    assert (found.status, "broken code" in found.message, stage.status(other)) == (FAILED, True, RUNNING)


def test_a_call_stays_queued_when_the_invoker_cannot_start_it(stage: Stage) -> None:
    run = stage.accept(stage.function("f", on_instances=True))
    stage.invoker.error = SlessError(Code.SHUTTING_DOWN, "the server is not running")
    stage.loop.tick()
    assert stage.status(run) is QUEUED


def test_a_stopping_server_finishes_running_calls_and_starts_none(stage: Stage) -> None:
    workload_id = stage.function("f", on_instances=True)
    going = stage.accept(workload_id)
    stage.loop.tick()
    stage.loop.stop_starting()
    waits = stage.accept(workload_id)
    stage.loop.tick()
    assert stage.status(waits) is QUEUED and not stage.loop.drain(0)
    stage.invoker.end(going.id, SUCCEEDED, 200)
    assert not stage.loop.drain(0), "its end is not stored yet"
    stage.loop.tick()
    assert stage.loop.drain(0) and stage.status(going) is SUCCEEDED


def test_jobs_wait_for_their_build_and_a_free_slot(stage: Stage) -> None:
    jobs = [stage.store.workloads.insert(NAMESPACE, Kind.JOB, f"j{n}", make_workload_spec()) for n in range(5)]
    runs = [stage.accept(job.id, kind=Kind.JOB, name=job.name, trigger=CallTrigger.JOB, job_run_id=1, max_attempts=1) for job in jobs]
    stage.loop.tick()
    assert stage.backend.specs == {} and [stage.status(run) for run in runs] == [QUEUED] * 5
    for job in jobs:
        build(stage.store, job)
    stage.loop.tick()
    stage.loop.tick()
    assert sum(stage.status(run) is RUNNING for run in runs) == 3
    for run in runs:
        if run.id in stage.backend.runs:
            stage.backend.end(run.id, FAILED, 500)
    stage.loop.tick()
    assert sorted(stage.status(run) for run in runs) == [FAILED] * 3 + [RUNNING] * 2


def test_a_job_of_a_function(stage: Stage) -> None:
    spec = make_workload_spec(function_ref="f", memory_mb=64, timeout_sec=5, set_fields=("timeout_sec",), env_vars={"A": "job"})
    job = stage.store.workloads.insert(NAMESPACE, Kind.JOB, "j", spec)
    lost = stage.accept(job.id, kind=Kind.JOB, name="j", trigger=CallTrigger.JOB, job_run_id=1, max_attempts=1)
    stage.loop.tick()
    assert stage.store.runs.get(lost.id).message == 'function "f" not found'
    stage.function("f", on_instances=True)
    run = stage.accept(job.id, kind=Kind.JOB, name="j", trigger=CallTrigger.JOB, job_run_id=2, max_attempts=1)
    stage.loop.tick()
    revision = stage.backend.specs[run.id].revision
    assert (revision.kind, revision.name, revision.timeout_sec, revision.memory_mb, revision.env["A"]) == (Kind.JOB, "j", 5, 128, "job")


def test_a_warm_instance_only_takes_calls_once_it_exists(stage: Stage) -> None:
    workload_id = stage.function("f")
    trigger = stage.store.triggers.insert(
        NAMESPACE, name="c", type=TriggerType.CRON, function_ref="f", enabled=True, spec={"schedule": "@daily"}, secrets={}
    )
    with stage.store.database.write() as conn:
        conn.exec_driver_sql(f"UPDATE triggers SET warm = true WHERE id = '{trigger.id}'")
    first = stage.accept(workload_id)
    stage.loop.tick()
    endpoint = endpoint_of(workload_id)
    stage.store.routes.set_endpoints(workload_id, [endpoint])
    second = stage.accept(workload_id)
    stage.loop.tick()
    assert (set(stage.backend.specs), set(stage.invoker.calls)) == ({first.id}, {second.id})
