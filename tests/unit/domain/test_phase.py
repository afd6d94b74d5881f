"""The phase as a table: (desired state, builds, runs, observed state) → phase and message."""

from dataclasses import replace
from datetime import timedelta

import pytest

from sless.domain.model import CallStatus, Kind, Observed, Phase, TriggerType, VersionState
from sless.domain.phase import IDLE, job_phase_of, phase_of
from tests.builders import AT, make_run, make_trigger, make_version, make_workload

QUEUED, BUILDING, READY, FAILED, CANCELLED = (
    VersionState.QUEUED,
    VersionState.BUILDING,
    VersionState.READY,
    VersionState.FAILED,
    VersionState.CANCELLED,
)
ONE = make_version(number=1, sha256="one", code_hash="h1", artifact="img:1")
HTTP = make_trigger()
UP = Observed(generation=3, version=1, ready_instances=1)


def newer(state: VersionState, **changes) -> object:
    return make_version(**{"number": 2, "state": state, "sha256": "two", "code_hash": "h2", "ended_at": AT + timedelta(hours=1)} | changes)


def function(**changes):
    return make_workload(**{"generation": 3, "active_version": 1} | changes)


def service(**changes):
    return function(kind=Kind.SERVICE, **changes)


def seen(workload, newest, active, *triggers):
    view = phase_of(workload, newest, active, triggers)
    return view.phase, view.message


class TestWithoutAWorkingVersion:
    @pytest.mark.parametrize(
        ("newest", "expected"),
        [
            (None, (Phase.PENDING, "no code uploaded yet")),
            (newer(QUEUED), (Phase.BUILDING, "version 2 is queued")),
            (newer(BUILDING), (Phase.BUILDING, "version 2 is building")),
            (newer(FAILED, message="no module x"), (Phase.FAILED, "version 2 failed: no module x")),
            (newer(FAILED), (Phase.FAILED, "version 2 failed")),
            (newer(CANCELLED, message="cancelled"), (Phase.FAILED, "version 2 was cancelled: cancelled")),
            (newer(READY), (Phase.PENDING, "version 2 is ready but not active")),
        ],
    )
    def test_phase(self, newest, expected):
        assert seen(function(active_version=None), newest, None, HTTP) == expected
        assert seen(service(active_version=None), newest, None) == expected

    def test_version_fields_describe_the_newest_version(self):
        view = phase_of(function(active_version=None), newer(FAILED), None, [])
        assert (view.code_sha256, view.code_hash, view.latest_version, view.latest_state) == ("two", "h2", 2, FAILED)
        assert (view.active_version, view.image_ref, view.last_built_at) == (None, None, AT + timedelta(hours=1))

    def test_no_version_fields_before_an_upload(self):
        view = phase_of(function(active_version=None), None, None, [])
        assert view.latest_state is view.latest_version is view.code_sha256 is view.code_hash is view.last_built_at is None


class TestFunctionWithoutInstances:
    @pytest.mark.parametrize(
        "triggers",
        [
            [],
            [make_trigger(enabled=False)],
            [make_trigger(type=TriggerType.CRON)],
            [make_trigger(type=TriggerType.EVENT, enabled=False)],
        ],
    )
    def test_ready_as_soon_as_a_version_is_active(self, triggers):
        assert seen(function(observed=Observed()), ONE, ONE, *triggers) == (Phase.READY, "")

    @pytest.mark.parametrize("type", [TriggerType.HTTP, TriggerType.EVENT])
    def test_an_enabled_trigger_needs_instances(self, type):
        assert seen(function(observed=Observed()), ONE, ONE, make_trigger(type=type))[0] is Phase.DEPLOYING


class TestInstances:
    @pytest.mark.parametrize(
        ("observed", "expected"),
        [
            (UP, (Phase.READY, "")),
            (replace(UP, generation=2), (Phase.DEPLOYING, "instances of version 1 are starting")),
            (replace(UP, version=None), (Phase.DEPLOYING, "instances of version 1 are starting")),
            (replace(UP, version=2), (Phase.DEPLOYING, "instances of version 1 are starting")),
            (Observed(message="0 of 2 are up", wanted=3), (Phase.DEPLOYING, "0 of 2 are up")),
            (replace(UP, message="1 of 2 is missing"), (Phase.READY, "1 of 2 is missing")),
            (Observed(failing=True, message="exit code 3", wanted=3), (Phase.FAILED, "exit code 3")),
            (Observed(failing=True, wanted=3), (Phase.FAILED, "instances exit right after they start")),
            # The old generation serves; the new one cannot start.
            (replace(UP, generation=2, failing=True, message="exit code 3", wanted=3), (Phase.FAILED, "exit code 3")),
            # What failed was the state before the last change.
            (Observed(failing=True, message="exit code 3", wanted=2), (Phase.DEPLOYING, "instances of version 1 are starting")),
            # One of several crashed; the others serve.
            (replace(UP, failing=True, message="1 of 2 is missing"), (Phase.READY, "1 of 2 is missing")),
            (replace(UP, failing=True, ready_instances=0, message="out of memory", wanted=3), (Phase.FAILED, "out of memory")),
        ],
    )
    def test_phase(self, observed, expected):
        assert seen(function(observed=observed), ONE, ONE, HTTP) == expected
        assert seen(service(observed=observed), ONE, ONE) == expected

    def test_ready_without_instances_unless_there_is_a_minimum(self):
        idle = replace(UP, ready_instances=0)
        assert seen(function(observed=idle), ONE, ONE, HTTP) == (Phase.READY, IDLE)
        assert seen(service(observed=idle, spec={"replicas": None, "min_instances": 0}), ONE, ONE) == (Phase.READY, IDLE)
        assert seen(function(observed=idle), newer(FAILED, message="x"), ONE, HTTP) == (Phase.READY, "version 2 failed: x")
        assert seen(function(observed=replace(idle, message="waiting for a node")), ONE, ONE, HTTP) == (Phase.READY, "waiting for a node")
        starting = (Phase.DEPLOYING, "instances of version 1 are starting")
        assert seen(function(observed=idle, spec={"min_instances": 1}), ONE, ONE, HTTP) == starting
        assert seen(service(observed=idle), ONE, ONE) == starting

    def test_a_service_scaled_to_0_is_ready(self):
        stopped = service(spec={"replicas": 0}, observed=Observed())
        assert seen(stopped, ONE, ONE) == (Phase.READY, "scaled to 0")
        assert seen(stopped, newer(FAILED, message="x"), ONE) == (Phase.READY, "version 2 failed: x")

    def test_replicas_of_a_function_are_ignored(self):
        assert seen(function(spec={"replicas": 0}, observed=Observed()), ONE, ONE, HTTP)[0] is Phase.DEPLOYING


class TestNewVersionBesideAnOldOne:
    @pytest.mark.parametrize("state", [QUEUED, BUILDING])
    def test_building_until_the_build_has_ended(self, state):
        view = phase_of(function(observed=UP), newer(state), ONE, [HTTP])
        assert (view.phase, view.active_version, view.latest_version) == (Phase.BUILDING, 1, 2)
        assert (view.code_sha256, view.last_built_at) == ("one", AT)

    def test_a_failed_build_leaves_the_old_one_serving(self):
        view = phase_of(function(observed=UP), newer(FAILED, message="pip: no x"), ONE, [HTTP])
        assert (view.phase, view.message, view.latest_state) == (Phase.READY, "version 2 failed: pip: no x", FAILED)
        assert (view.code_hash, view.code_sha256, view.image_ref, view.active_version) == ("h1", "one", "img:1", 1)
        assert view.last_built_at == AT + timedelta(hours=1)

    def test_a_failed_build_without_instances(self):
        assert seen(function(), newer(FAILED, message="x"), ONE) == (Phase.READY, "version 2 failed: x")

    def test_a_cancelled_build_is_not_a_failure(self):
        view = phase_of(function(observed=UP), newer(CANCELLED), ONE, [HTTP])
        assert (view.phase, view.message, view.last_built_at) == (Phase.READY, "", AT)

    def test_the_active_version_is_rebuilt(self):
        rebuilt, lost = replace(ONE, state=QUEUED), replace(ONE, state=FAILED, message="pip: no x")
        assert seen(function(), newer(READY), rebuilt, HTTP) == (Phase.BUILDING, "version 1 is queued")
        assert seen(function(), newer(READY), lost, HTTP) == (Phase.FAILED, "version 1 failed: pip: no x")

    def test_after_a_rollback(self):
        assert seen(function(observed=UP), newer(READY), ONE, HTTP) == (Phase.READY, "")


@pytest.mark.parametrize("kind", list(Kind))
def test_deleting_wins(kind):
    workload = make_workload(kind=kind, deleted_at=AT, spec={"run_id": 1})
    view = job_phase_of(workload, ONE, None) if kind is Kind.JOB else phase_of(workload, newer(BUILDING), ONE, [HTTP])
    assert view.phase is Phase.DELETING


def job(**spec):
    return make_workload(kind=Kind.JOB, spec={"run_id": 2} | spec)


def run(status, **changes):
    return make_run(**{"kind": Kind.JOB, "job_run_id": 2, "status": status, "id": "run2"} | changes)


class TestJobs:
    @pytest.mark.parametrize(
        ("newest", "current", "expected"),
        [
            (None, None, (Phase.PENDING, "no code uploaded yet")),
            (newer(QUEUED), None, (Phase.BUILDING, "version 2 is queued")),
            (newer(BUILDING), run(CallStatus.QUEUED), (Phase.BUILDING, "version 2 is building")),
            (newer(FAILED, message="x"), run(CallStatus.QUEUED), (Phase.FAILED, "version 2 failed: x")),
            (newer(CANCELLED), None, (Phase.FAILED, "version 2 was cancelled")),
            (ONE, None, (Phase.PENDING, "waiting to start")),
            (ONE, run(CallStatus.QUEUED), (Phase.PENDING, "waiting to start")),
            (ONE, run(CallStatus.QUEUED, message="interrupted"), (Phase.PENDING, "interrupted")),
            (ONE, run(CallStatus.RUNNING), (Phase.RUNNING, "")),
            (ONE, run(CallStatus.SUCCEEDED, result='{"a": 1}', message="done"), (Phase.SUCCEEDED, '{"a": 1}')),
            (ONE, run(CallStatus.SUCCEEDED, message="no result"), (Phase.SUCCEEDED, "no result")),
            (ONE, run(CallStatus.FAILED, message="boom"), (Phase.FAILED, "boom")),
            (ONE, run(CallStatus.TIMEOUT, message="over 30 s"), (Phase.FAILED, "over 30 s")),
            (ONE, run(CallStatus.CANCELLED), (Phase.FAILED, "cancelled")),
            (ONE, run(CallStatus.DEAD), (Phase.FAILED, "dead")),
            (ONE, run(CallStatus.MISSED), (Phase.FAILED, "missed")),
            (ONE, run(CallStatus.SKIPPED, message="why"), (Phase.SKIPPED, "why")),
            # An upload starts no run: the last result stays while the next version is built.
            (newer(BUILDING), run(CallStatus.SUCCEEDED, result="1"), (Phase.SUCCEEDED, "1")),
            (newer(FAILED), run(CallStatus.SUCCEEDED, result="1"), (Phase.SUCCEEDED, "1")),
            (newer(BUILDING), run(CallStatus.RUNNING), (Phase.RUNNING, "")),
        ],
    )
    def test_phase(self, newest, current, expected):
        view = job_phase_of(job(), newest, current)
        assert (view.phase, view.message) == expected

    def test_the_run_of_an_older_run_id_is_ignored(self):
        view = job_phase_of(job(), ONE, run(CallStatus.SUCCEEDED, job_run_id=1, result="1"))
        assert (view.phase, view.run, view.result, view.run_name) == (Phase.PENDING, None, None, None)

    def test_run_id_0_is_always_skipped(self):
        for newest in (None, newer(BUILDING), newer(FAILED), ONE):
            assert job_phase_of(job(run_id=0), newest, None).phase is Phase.SKIPPED

    def test_a_queued_run_is_pending_despite_a_failed_build(self):
        workload = replace(job(), active_version=1)
        assert job_phase_of(workload, newer(FAILED), run(CallStatus.QUEUED), active=ONE).phase is Phase.PENDING

    def test_of_a_function(self):
        workload = job(function_ref="hello", runtime=None, entrypoint=None)
        assert job_phase_of(workload, None, None).message == 'function "hello" has no code yet'
        assert job_phase_of(workload, newer(BUILDING), None).phase is Phase.BUILDING

    def test_the_fields_of_its_run(self):
        ended = run(CallStatus.FAILED, result=None, exit_code=3, started_at=AT, ended_at=AT + timedelta(seconds=2))
        view = job_phase_of(job(), ONE, ended)
        assert (view.run_name, view.exit_code, view.start_time, view.completion_time) == ("run2", 3, AT, AT + timedelta(seconds=2))
        assert (view.code_sha256, view.latest_version) == ("one", 1)
