"""Runs: accepted once, claimed once, ended once; the invocation and the statistics follow."""

from dataclasses import replace
from datetime import timedelta

import pytest

from sless import clock
from sless.domain.lifecycle import ENDED_CALL_STATUSES
from sless.domain.model import CallStatus, Cause, Kind
from sless.errors import NotFound
from tests.builders import AT, NAMESPACE, make_invocation, make_run, make_workload_spec
from tests.contract.store_steps import at_once, build

QUEUED, RUNNING, SUCCEEDED, FAILED = CallStatus.QUEUED, CallStatus.RUNNING, CallStatus.SUCCEEDED, CallStatus.FAILED


@pytest.fixture
def job(store):
    return store.workloads.insert(NAMESPACE, Kind.JOB, "job", make_workload_spec(memory_mb=1024))


@pytest.fixture
def accept(store, workload):
    """Inserts a run of the function `hello`."""

    def accept_one(**changes):
        run = make_run(**({"workload_id": workload.id} | changes))
        assert store.runs.insert(run)
        return run

    return accept_one


def minutes(store, workload_id):
    return store.history.stats(workload_id, clock.now() - timedelta(hours=1), clock.now() + timedelta(hours=1))


class TestInsert:
    def test_what_was_inserted_comes_back(self, store, accept):
        run = accept(event='{"a":"\\u0000"}', cause=Cause.CRON, trigger_id="t1", due_at=AT, version=3)
        assert store.runs.get(run.id) == run
        assert store.runs.find("nobody") is None
        with pytest.raises(NotFound):
            store.runs.get("nobody")

    def test_the_same_id_is_inserted_once(self, store, accept):
        run = accept()
        assert not store.runs.insert(replace(run, event="other"))
        assert store.runs.get(run.id) == run

    def test_a_run_of_a_job_is_inserted_once(self, store, job):
        first = make_run(workload_id=job.id, kind=Kind.JOB, job_run_id=1)
        assert store.runs.insert(first)
        assert not store.runs.insert(replace(first, id="other"))
        assert store.runs.insert(replace(first, id="next", job_run_id=2))

    def test_a_firing_is_claimed_by_inserting_it(self, store, workload):
        firings = [make_run(workload_id=workload.id, trigger_id="t1", due_at=AT) for _ in range(8)]
        assert at_once([lambda run=run: store.runs.insert(run) for run in firings]).count(True) == 1
        assert store.runs.insert(make_run(workload_id=workload.id, trigger_id="t1", due_at=AT + timedelta(minutes=1)))
        assert store.runs.count(QUEUED) == 2

    def test_for_a_workload_that_is_gone(self, store):
        with pytest.raises(NotFound, match='function "hello" not found'):
            store.runs.insert(make_run(workload_id="nobody"))

    def test_it_is_an_invocation_at_once(self, store, workload, accept):
        run = accept(request_id="theirs")
        found = store.history.find_invocation(workload.id, "theirs")
        assert (found.id, found.status, found.attempts, found.started_at) == (run.id, QUEUED, 0, AT)
        assert (found.finished_at, found.duration_ms, found.error) == (None, None, None)


class TestDue:
    def test_oldest_first_and_not_before_their_time(self, store, accept):
        late = accept(not_before=AT + timedelta(minutes=5))
        second = accept(not_before=AT + timedelta(seconds=1))
        first = accept(not_before=AT)
        assert [run.id for run in store.runs.list_due(AT + timedelta(seconds=1), 10)] == [first.id, second.id]
        assert [run.id for run in store.runs.list_due(AT + timedelta(hours=1), 2)] == [first.id, second.id]
        assert [run.id for run in store.runs.list_due(AT + timedelta(hours=1), 9)] == [first.id, second.id, late.id]

    def test_not_what_runs_or_ended(self, store, accept):
        running, ended = accept(), accept()
        store.runs.claim(running.id, "h")
        store.runs.cancel(ended.id)
        assert store.runs.list_due(clock.now(), 10) == []
        assert [run.id for run in store.runs.list_running()] == [running.id]
        assert (store.runs.count(RUNNING), store.runs.count(QUEUED), store.runs.count(CallStatus.CANCELLED)) == (1, 0, 1)


class TestClaim:
    def test_counts_the_attempt_and_names_the_version(self, store, workload, accept):
        build(store, workload)
        run = accept()
        assert store.runs.claim(run.id, "h")
        claimed = store.runs.get(run.id)
        assert (claimed.status, claimed.attempts, claimed.claimed_by, claimed.version) == (RUNNING, 1, "h", 1)
        assert claimed.started_at is not None
        call = store.history.find_invocation(workload.id, run.id)
        assert (call.status, call.attempts, call.version, call.started_at) == (RUNNING, 1, 1, claimed.started_at)

    def test_a_version_can_be_given(self, store, accept):
        run = accept()
        assert store.runs.claim(run.id, "h", 7)
        assert store.runs.get(run.id).version == 7

    def test_one_of_many_gets_it(self, store, accept):
        run = accept()
        assert at_once([lambda n=n: store.runs.claim(run.id, f"h{n}") for n in range(8)]).count(True) == 1
        assert store.runs.get(run.id).attempts == 1

    def test_again_after_a_failed_attempt(self, store, workload, accept):
        run = accept()
        assert not store.runs.requeue(run.id, AT, "not running")
        store.runs.claim(run.id, "h")
        later = clock.now() + timedelta(minutes=1)
        assert store.runs.requeue(run.id, later, "429")
        waiting = store.runs.get(run.id)
        assert (waiting.status, waiting.not_before, waiting.message, waiting.claimed_by) == (QUEUED, later, "429", None)
        assert store.runs.list_due(clock.now(), 10) == []
        call = store.history.find_invocation(workload.id, run.id)
        assert (call.status, call.error) == (QUEUED, "429")
        assert store.runs.claim(run.id, "h") and store.runs.get(run.id).attempts == 2
        assert minutes(store, workload.id) == []


class TestFinish:
    def test_the_invocation_and_the_statistics_follow(self, store, workload, accept):
        run = accept(version=1)
        store.runs.claim(run.id, "h", 1)
        assert store.runs.finish(run.id, status=SUCCEEDED, result='{"a": 1}', message="", exit_code=0, http_status=200)
        ended = store.runs.get(run.id)
        assert (ended.status, ended.result, ended.exit_code, ended.http_status) == (SUCCEEDED, '{"a": 1}', 0, 200)
        call = store.history.find_invocation(workload.id, run.id)
        assert (call.status, call.result, call.http_status, call.error) == (SUCCEEDED, '{"a": 1}', 200, None)
        assert call.finished_at == ended.ended_at and call.duration_ms >= 0
        (stats,) = minutes(store, workload.id)
        assert (stats.calls, stats.errors, stats.version, sum(stats.histogram)) == (1, 0, 1, 1)
        assert stats.gb_ms == pytest.approx(call.duration_ms * 128 / 1024)

    @pytest.mark.parametrize(
        ("status", "errors"),
        [(FAILED, 1), (CallStatus.TIMEOUT, 1), (CallStatus.DEAD, 1), (CallStatus.CANCELLED, 0)],
    )
    def test_what_counts_as_an_error(self, store, workload, accept, status, errors):
        run = accept()
        store.runs.claim(run.id, "h")
        assert store.runs.finish(run.id, status=status, message="why")
        assert store.history.find_invocation(workload.id, run.id).error == "why"
        assert minutes(store, workload.id)[0].errors == errors

    @pytest.mark.parametrize("status", sorted(ENDED_CALL_STATUSES))
    def test_an_end_is_an_end(self, store, accept, status):
        run = accept()
        assert store.runs.finish(run.id, status=status)
        for again in CallStatus:
            assert not store.runs.finish(run.id, status=again)
        assert not store.runs.claim(run.id, "h") and not store.runs.requeue(run.id, AT, "") and not store.runs.cancel(run.id)
        assert store.runs.get(run.id).status is status

    @pytest.mark.parametrize("status", [CallStatus.MISSED, CallStatus.SKIPPED])
    def test_what_runs_was_neither_missed_nor_skipped(self, store, accept, status):
        run = accept()
        store.runs.claim(run.id, "h")
        assert not store.runs.finish(run.id, status=status)
        assert store.runs.get(run.id).status is RUNNING

    def test_what_never_ran_costs_nothing(self, store, workload, accept):
        run = accept()
        store.runs.cancel(run.id)
        assert minutes(store, workload.id) == []
        assert store.history.find_invocation(workload.id, run.id).duration_ms is None

    def test_of_many_ends_one_counts(self, store, workload, accept):
        run = accept()
        store.runs.claim(run.id, "h")
        ends = [lambda: store.runs.finish(run.id, status=SUCCEEDED), lambda: store.runs.cancel(run.id)] * 4
        assert at_once(ends).count(True) == 1
        assert sum(item.calls for item in minutes(store, workload.id)) == 1

    def test_many_runs_at_once_are_all_counted(self, store, workload, accept):
        runs = [accept() for _ in range(8)]

        def end(run) -> bool:
            return store.runs.claim(run.id, "h", 1) and store.runs.finish(run.id, status=SUCCEEDED)

        assert at_once([lambda run=run: end(run) for run in runs]) == [True] * 8
        assert sum(item.calls for item in minutes(store, workload.id)) == 8

    def test_a_recorded_call_is_completed_and_not_doubled(self, store, workload, accept):
        run = accept()
        store.runs.claim(run.id, "h")
        store.history.add_history([make_invocation(id=run.id, workload_id=workload.id)], [], [])
        store.runs.finish(run.id, status=FAILED, message="boom")
        (call,) = store.history.list_invocations(workload.id)
        assert (call.status, call.error) == (FAILED, "boom")

    def test_memory_of_a_job_that_refers_to_a_function(self, store, workload):
        job = store.workloads.insert(NAMESPACE, Kind.JOB, "j", make_workload_spec(function_ref="hello", memory_mb=9999))
        own = store.workloads.insert(
            NAMESPACE, Kind.JOB, "own", make_workload_spec(function_ref="hello", memory_mb=2048, set_fields=("memory_mb",))
        )
        store.workloads.update_spec(workload.id, make_workload_spec(memory_mb=512))
        for item, memory_mb in ((job, 512), (own, 2048)):
            run = make_run(workload_id=item.id, kind=Kind.JOB, name=item.name, job_run_id=1)
            store.runs.insert(run)
            store.runs.claim(run.id, "h", 1)
            store.runs.finish(run.id, status=SUCCEEDED)
            (stats,) = minutes(store, item.id)
            assert stats.duration_ms > 0
            assert stats.gb_ms == pytest.approx(stats.duration_ms * memory_mb / 1024)

    def test_text_no_database_keeps(self, store, accept):
        run = accept()
        store.runs.claim(run.id, "h")
        assert store.runs.finish(run.id, status=FAILED, message="a\0b", result="c\udfff")
        ended = store.runs.get(run.id)
        assert (ended.message, ended.result) == ("a\ufffdb", "c\ufffd")


class TestJobs:
    def test_the_newest_run(self, store, job):
        assert store.runs.newest_of_job(job.id) is None
        for number in (1, 3, 2):
            store.runs.insert(make_run(workload_id=job.id, kind=Kind.JOB, job_run_id=number, created_at=AT - timedelta(hours=number)))
        assert store.runs.newest_of_job(job.id).job_run_id == 3
        assert {key: run.job_run_id for key, run in store.runs.newest_of([job.id, "nobody"]).items()} == {job.id: 3}
