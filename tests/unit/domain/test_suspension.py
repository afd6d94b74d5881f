"""What a suspension means to each rule: routes, phases, instances, builds, runs, firings, listeners."""

from dataclasses import replace

import pytest

from sless.config import Settings
from sless.domain.cron import Due, Facts, outcome_of
from sless.domain.model import CallStatus, Kind, Phase, TriggerType, Version, VersionState, Workload
from sless.domain.phase import job_phase_of, phase_of
from sless.domain.routing import blocked_of, suspension_of
from sless.errors import Code
from sless.reconcile.decide import BuildTurns, decide_builds, decide_instances, scale_target_of
from sless.reconcile.decide_runs import FinishRun, RetryRun, stop_of
from sless.reconcile.listens import Idle, desired_listeners_of
from sless.reconcile.run_plans import Ready, Waiting, run_plan_of
from tests.builders import AT, make_run, make_trigger, make_version, make_workload

VERSION = make_version(workload_id="w")
ACTIVE = make_workload(id="w", active_version=1)
SUSPENDED = replace(ACTIVE, suspended="mining")


def test_calls_are_refused_with_the_reason() -> None:
    text = 'function "hello" is suspended by the operator: mining'
    assert blocked_of(SUSPENDED, VERSION, VERSION, []) == (Code.SUSPENDED, text)
    assert blocked_of(SUSPENDED, None, None, []) == (Code.SUSPENDED, text)
    assert blocked_of(ACTIVE, VERSION, VERSION, []) is None
    deleted = blocked_of(replace(SUSPENDED, deleted_at=AT), None, None, [])
    assert deleted is not None and deleted[0] is Code.NOT_FOUND
    assert suspension_of("") == "suspended by the operator"


def test_the_phase_shows_the_reason() -> None:
    view = phase_of(SUSPENDED, VERSION, VERSION, [])
    assert (view.phase, view.message) == (Phase.FAILED, "suspended by the operator: mining")
    job = make_workload(id="j", kind=Kind.JOB, spec={"run_id": 1}, suspended="mining")
    queued = make_run(workload_id="j", kind=Kind.JOB, job_run_id=1, status=CallStatus.QUEUED)
    assert job_phase_of(job, VERSION, queued).phase is Phase.FAILED
    assert job_phase_of(job, VERSION, replace(queued, status=CallStatus.SUCCEEDED)).phase is Phase.SUCCEEDED


def test_there_are_no_instances() -> None:
    triggers = [make_trigger()]
    assert scale_target_of(ACTIVE, VERSION, triggers) is not None
    assert scale_target_of(SUSPENDED, VERSION, triggers) is None
    assert scale_target_of(replace(SUSPENDED, kind=Kind.SERVICE), VERSION, []) is None
    assert decide_instances({"w": SUSPENDED}, {}, {}, applied={}) == []


def test_builds_wait() -> None:
    queued = make_version(workload_id="w", state=VersionState.QUEUED)
    assert len(builds_of(queued, ACTIVE)) == 1
    assert builds_of(queued, SUSPENDED) == []


def builds_of(version: Version, workload: Workload) -> list[object]:
    return list(decide_builds([version], {"w": workload}, frozenset(), BuildTurns(at_once=2, most_of=lambda _: 2)))


def test_runs_wait_and_active_ones_are_queued_again() -> None:
    assert isinstance(run_plan_of(ACTIVE, ACTIVE, VERSION, VERSION), Ready)
    assert isinstance(run_plan_of(SUSPENDED, SUSPENDED, VERSION, VERSION), Waiting)
    job = make_workload(id="j", kind=Kind.JOB, spec={"function_ref": "hello"})
    assert isinstance(run_plan_of(job, SUSPENDED, VERSION, VERSION), Waiting)
    assert stop_of(ACTIVE, None, AT) is None and stop_of(job, ACTIVE, AT) is None
    for stopped in (stop_of(SUSPENDED, None, AT), stop_of(job, SUSPENDED, AT)):
        assert isinstance(stopped, RetryRun) and (stopped.attempt, stopped.not_before) == (CallStatus.CANCELLED, AT)
    for gone in (stop_of(None, None, AT), stop_of(replace(SUSPENDED, deleted_at=AT), None, AT)):
        assert isinstance(gone, FinishRun) and gone.status is CallStatus.CANCELLED


def test_firings_are_skipped() -> None:
    facts = Facts(target='function "hello"', has_version=True, overlap="allow", running=False)
    due = Due(trigger_id="t", generation=1, due_at=AT)
    assert outcome_of(due, facts)[0] is CallStatus.QUEUED
    status, message = outcome_of(due, replace(facts, suspended=True))
    assert status is CallStatus.SKIPPED and message.endswith('but function "hello" was suspended')


@pytest.mark.parametrize(("target", "idle"), [(ACTIVE, False), (SUSPENDED, True)])
def test_queues_are_not_consumed(target: Workload, idle: bool) -> None:
    spec = {"queue": f"{ACTIVE.namespace}.q", "prefetch": 1, "max_concurrency": 1, "max_attempts": 1}
    trigger = make_trigger(id="t", type=TriggerType.EVENT, spec=spec, secrets={})
    found = desired_listeners_of([trigger], [target], Settings(rabbitmq_url="amqp://u:p@mq/"))["t"]
    assert isinstance(found, Idle) == idle
    if isinstance(found, Idle):
        assert "mining" in found.reason
