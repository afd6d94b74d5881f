"""Runs: inserted once, claimed once, ended once; with them, the invocation and the statistics."""

from dataclasses import replace
from datetime import timedelta

import pytest

from sless import clock
from sless.domain.callback import CallbackStatus
from sless.domain.lifecycle import ENDED_CALL_STATUSES
from sless.domain.model import CallStatus, CallTrigger, Kind
from sless.domain.request import StoredRequest, stored_request_of
from sless.errors import NotFound
from tests.builders import AT, NAMESPACE, make_invocation, make_run, make_workload_spec
from tests.contract.store_steps import at_once, build, claim_run, requeue_run

QUEUED, RUNNING, SUCCEEDED, FAILED = CallStatus.QUEUED, CallStatus.RUNNING, CallStatus.SUCCEEDED, CallStatus.FAILED


REQUEST = StoredRequest(
    method="PUT", target=b"/a?x=1", full_path=b"/fn/ns/hello/a", query=b"x=1", headers=[(b"x-a", b"\xe9"), (b"x-a", b"2")],
    client="192.0.2.1", scheme="https", body=b"\x00\xff",
)  # fmt: skip


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
    def test_a_run_round_trips(self, store, accept):
        run = accept(event='{"a":"\\u0000"}', trigger=CallTrigger.CRON, trigger_id="t1", due_at=AT, version=3)
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

    def test_a_missing_workload(self, store):
        with pytest.raises(NotFound, match='function "hello" not found'):
            store.runs.insert(make_run(workload_id="nobody"))

    def test_a_run_is_an_invocation_at_once(self, store, workload, accept):
        run = accept(request_id="theirs")
        found = store.history.find_invocation(workload.id, "theirs")
        assert (found.id, found.status, found.attempts, found.started_at) == (run.id, QUEUED, 0, AT)
        assert (found.finished_at, found.duration_ms, found.error) == (None, None, None)


class TestDue:
    def test_due_runs_are_sorted_oldest_first(self, store, accept):
        late = accept(not_before=AT + timedelta(minutes=5))
        second = accept(not_before=AT + timedelta(seconds=1))
        first = accept(not_before=AT)
        assert [run.id for run in store.runs.list_due(AT + timedelta(seconds=1), 10)] == [first.id, second.id]
        assert [run.id for run in store.runs.list_due(AT + timedelta(hours=1), 2)] == [first.id, second.id]
        assert [run.id for run in store.runs.list_due(AT + timedelta(hours=1), 9)] == [first.id, second.id, late.id]

    def test_the_list_alternates_between_workloads(self, store, workload, accept):
        other = store.workloads.insert(NAMESPACE, Kind.FUNCTION, "other", make_workload_spec())
        flood = [accept(not_before=AT + timedelta(seconds=n)).id for n in range(30)]
        behind = [accept(workload_id=other.id, name="other", not_before=AT + timedelta(minutes=n, milliseconds=1)).id for n in range(3)]
        assert [run.id for run in store.runs.list_due(AT + timedelta(hours=1), 2)] == [flood[0], behind[0], flood[1], behind[1]]
        assert len(store.runs.list_due(AT + timedelta(hours=1), 100)) == 33

    def test_lists_leave_out_events_and_requests(self, store, accept):
        run = accept(event='{"large": 1}', request=REQUEST.text())
        (listed,) = store.runs.list_due(AT, 9)
        assert (listed.id, listed.event, listed.request) == (run.id, "", None)
        claim_run(store, run.id, "h")
        assert [(item.event, item.request) for item in store.runs.list_running()] == [("", None)]

    def test_running_and_ended_runs_are_not_due(self, store, accept):
        running, ended = accept(), accept()
        claim_run(store, running.id, "h")
        store.runs.cancel(ended.id)
        assert store.runs.list_due(clock.now(), 10) == []
        assert [run.id for run in store.runs.list_running()] == [running.id]
        assert (store.runs.count(RUNNING), store.runs.count(QUEUED), store.runs.count(CallStatus.CANCELLED)) == (1, 0, 1)


class TestClaim:
    def test_a_claim_counts_the_attempt_and_sets_the_version(self, store, workload, accept):
        build(store, workload)
        run = accept()
        assert claim_run(store, run.id, "h")
        claimed = store.runs.get(run.id)
        assert (claimed.status, claimed.attempts, claimed.claimed_by, claimed.version) == (RUNNING, 1, "h", 1)
        assert claimed.started_at is not None
        call = store.history.find_invocation(workload.id, run.id)
        assert (call.status, call.attempts, call.version, call.started_at) == (RUNNING, 1, 1, claimed.started_at)

    def test_a_version_can_be_given(self, store, accept):
        run = accept()
        assert claim_run(store, run.id, "h", 7)
        assert store.runs.get(run.id).version == 7

    def test_one_of_many_claims_it(self, store, accept):
        run = accept()
        assert at_once([lambda n=n: claim_run(store, run.id, f"h{n}") for n in range(8)]).count(True) == 1
        assert store.runs.get(run.id).attempts == 1

    def test_a_requeued_run_can_be_claimed_again(self, store, workload, accept):
        run = accept()
        assert not requeue_run(store, run.id, AT, "not running")
        claim_run(store, run.id, "h")
        later = clock.now() + timedelta(minutes=1)
        assert requeue_run(store, run.id, later, "429", quarantined=True)
        assert store.runs.get(run.id).quarantined
        waiting = store.runs.get(run.id)
        assert (waiting.status, waiting.not_before, waiting.message, waiting.claimed_by) == (QUEUED, later, "429", None)
        assert store.runs.list_due(clock.now(), 10) == []
        call = store.history.find_invocation(workload.id, run.id)
        assert (call.status, call.error) == (QUEUED, "429")
        assert claim_run(store, run.id, "h") and store.runs.get(run.id).attempts == 2
        assert minutes(store, workload.id) == []


class TestFinish:
    def test_finishing_updates_the_invocation_and_the_statistics(self, store, workload, accept):
        run = accept(version=1)
        claim_run(store, run.id, "h", 1)
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
    def test_statuses_that_count_as_errors(self, store, workload, accept, status, errors):
        run = accept()
        claim_run(store, run.id, "h")
        assert store.runs.finish(run.id, status=status, message="why")
        assert store.history.find_invocation(workload.id, run.id).error == "why"
        assert minutes(store, workload.id)[0].errors == errors

    @pytest.mark.parametrize("status", sorted(ENDED_CALL_STATUSES))
    def test_an_ended_run_cannot_change(self, store, accept, status):
        run = accept()
        assert store.runs.finish(run.id, status=status)
        for again in CallStatus:
            assert not store.runs.finish(run.id, status=again)
        assert not claim_run(store, run.id, "h") and not requeue_run(store, run.id, AT, "") and not store.runs.cancel(run.id)
        assert store.runs.get(run.id).status is status

    @pytest.mark.parametrize("status", [CallStatus.MISSED, CallStatus.SKIPPED])
    def test_a_running_run_cannot_become_missed_or_skipped(self, store, accept, status):
        run = accept()
        claim_run(store, run.id, "h")
        assert not store.runs.finish(run.id, status=status)
        assert store.runs.get(run.id).status is RUNNING

    def test_a_run_that_never_started_has_no_cost(self, store, workload, accept):
        run = accept()
        store.runs.cancel(run.id)
        assert minutes(store, workload.id) == []
        assert store.history.find_invocation(workload.id, run.id).duration_ms is None

    def test_one_of_many_concurrent_ends_counts(self, store, workload, accept):
        run = accept()
        claim_run(store, run.id, "h")
        ends = [lambda: store.runs.finish(run.id, status=SUCCEEDED), lambda: store.runs.cancel(run.id)] * 4
        assert at_once(ends).count(True) == 1
        assert sum(item.calls for item in minutes(store, workload.id)) == 1

    def test_concurrent_runs_are_all_counted(self, store, workload, accept):
        runs = [accept() for _ in range(8)]

        def end(run) -> bool:
            return claim_run(store, run.id, "h", 1) and store.runs.finish(run.id, status=SUCCEEDED)

        assert at_once([lambda run=run: end(run) for run in runs]) == [True] * 8
        assert sum(item.calls for item in minutes(store, workload.id)) == 8

    def test_an_already_recorded_call_is_completed_not_duplicated(self, store, workload, accept):
        run = accept()
        claim_run(store, run.id, "h")
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
            claim_run(store, run.id, "h", 1)
            store.runs.finish(run.id, status=SUCCEEDED)
            (stats,) = minutes(store, item.id)
            assert stats.duration_ms > 0
            assert stats.gb_ms == pytest.approx(stats.duration_ms * memory_mb / 1024)

    def test_characters_that_databases_refuse_are_replaced(self, store, accept):
        run = accept()
        claim_run(store, run.id, "h")
        assert store.runs.finish(run.id, status=FAILED, message="a\0b", result="c\udfff")
        ended = store.runs.get(run.id)
        assert (ended.message, ended.result) == ("a\ufffdb", "c\ufffd")


class TestInsertAll:
    def test_many_in_one_transaction(self, store, workload):
        accepted = [make_run(workload_id=workload.id) for _ in range(30)]
        store.runs.insert_all(accepted)
        store.runs.insert_all(accepted)
        assert store.runs.count(QUEUED) == 30 and store.runs.get(accepted[7].id) == accepted[7]
        assert {item.id for item in store.history.list_invocations(workload.id)} == {run.id for run in accepted}

    def test_a_missing_workload_rolls_back_all(self, store, workload):
        with pytest.raises(NotFound):
            store.runs.insert_all([make_run(workload_id=workload.id), make_run(workload_id="nobody")])
        assert store.runs.count(QUEUED) == 0

    def test_an_http_call_keeps_its_request(self, store, workload):
        run = make_run(workload_id=workload.id, event="", request=REQUEST.text())
        store.runs.insert_all([run])
        assert stored_request_of(store.runs.get(run.id).request) == REQUEST
        call = store.history.find_invocation(workload.id, run.id)
        assert (call.method, call.path, call.request_bytes) == ("PUT", "/fn/ns/hello/a", 2)
        claim_run(store, run.id, "h")
        assert store.history.find_invocation(workload.id, run.id).path == "/fn/ns/hello/a"


class TestAttempts:
    def test_each_attempt_is_recorded(self, store, accept):
        run = accept()
        assert store.runs.attempts_of(run.id) == []
        claim_run(store, run.id, "h", 1)
        (first,) = store.runs.attempts_of(run.id)
        assert (first.number, first.version, first.status, first.finished_at, first.error) == (1, 1, RUNNING, None, None)
        requeue_run(store, run.id, AT, "over time", attempt=CallStatus.TIMEOUT, http_status=504)
        claim_run(store, run.id, "h", 2)
        store.runs.finish(run.id, status=CallStatus.DEAD, message="boom", http_status=500, attempt=FAILED)
        first, second = store.runs.attempts_of(run.id)
        assert (first.status, first.http_status, first.error) == (CallStatus.TIMEOUT, 504, "over time")
        assert (second.number, second.version, second.status, second.http_status, second.error) == (2, 2, FAILED, 500, "boom")
        assert first.started_at <= first.finished_at <= second.started_at <= second.finished_at

    def test_a_success_has_no_error(self, store, accept):
        run = accept()
        claim_run(store, run.id, "h", 1)
        store.runs.finish(run.id, status=SUCCEEDED, message="said", http_status=200)
        assert [(item.status, item.error) for item in store.runs.attempts_of(run.id)] == [(SUCCEEDED, None)]

    def test_cancelled_while_running_and_before_the_first_attempt(self, store, accept):
        run, idle = accept(), accept()
        claim_run(store, run.id, "h", 1)
        store.runs.cancel(run.id)
        store.runs.cancel(idle.id)
        assert [item.status for item in store.runs.attempts_of(run.id)] == [CallStatus.CANCELLED]
        assert store.runs.attempts_of(idle.id) == []

    def test_cancelling_a_requeued_run_keeps_its_last_attempt(self, store, workload, accept):
        run = accept()
        claim_run(store, run.id, "h", 1)
        requeue_run(store, run.id, AT, "500", http_status=500)
        store.runs.cancel(run.id)
        assert [(item.status, item.error) for item in store.runs.attempts_of(run.id)] == [(FAILED, "500")]
        assert minutes(store, workload.id) == []


class TestRerun:
    @pytest.mark.parametrize("status", [FAILED, CallStatus.TIMEOUT, CallStatus.DEAD, CallStatus.CANCELLED])
    def test_a_rerun_continues_the_attempt_numbers(self, store, workload, accept, status):
        run = accept()
        claim_run(store, run.id, "h", 1)
        store.runs.finish(run.id, status=status, message="why", http_status=500, attempt=FAILED)
        assert store.runs.rerun(run.id)
        again = store.runs.get(run.id)
        assert (again.status, again.attempts, again.attempts_before, again.max_attempts) == (QUEUED, 1, 1, 3)
        assert (again.message, again.result, again.http_status, again.ended_at) == ("", None, None, None)
        call = store.history.find_invocation(workload.id, run.id)
        assert (call.status, call.error, call.finished_at, call.duration_ms) == (QUEUED, None, None, None)
        claim_run(store, run.id, "h", 2)
        assert [item.number for item in store.runs.attempts_of(run.id)] == [1, 2]

    @pytest.mark.parametrize("status", [QUEUED, RUNNING, SUCCEEDED])
    def test_unfinished_and_succeeded_runs_are_not_rerun(self, store, accept, status):
        run = accept()
        if status is not QUEUED:
            claim_run(store, run.id, "h", 1)
        if status is SUCCEEDED:
            store.runs.finish(run.id, status=SUCCEEDED)
        assert not store.runs.rerun(run.id)
        assert store.runs.get(run.id).status is status
        assert not store.runs.rerun("nobody")

    def test_one_of_many_concurrent_reruns_succeeds(self, store, accept):
        run = accept()
        claim_run(store, run.id, "h", 1)
        store.runs.finish(run.id, status=FAILED)
        assert at_once([lambda: store.runs.rerun(run.id)] * 8).count(True) == 1


class TestMoves:
    def test_an_unclaimed_run_has_no_attempt(self, store, accept):
        run = accept()
        claim_run(store, run.id, "h", 1)
        requeue_run(store, run.id, AT, "500")
        claim_run(store, run.id, "h", 1)
        later = clock.now() + timedelta(seconds=5)
        assert store.runs.unclaim(run.id, later, "the cluster is away") and not store.runs.unclaim(run.id, later, "again")
        found = store.runs.get(run.id)
        assert (found.status, found.attempts, found.not_before, found.message) == (QUEUED, 1, later, "the cluster is away")
        assert [attempt.number for attempt in store.runs.attempts_of(run.id)] == [1]
        assert store.history.find_invocation(run.workload_id, run.id).attempts == 1
        assert claim_run(store, run.id, "h", 1) and store.runs.attempts_of(run.id)[1].number == 2

    def test_a_stale_attempt_does_not_finish_a_rerun(self, store, accept):
        run = accept()
        claim_run(store, run.id, "h", 1)
        assert store.runs.cancel(run.id) and store.runs.rerun(run.id)
        values = {"result": "1", "message": "", "exit_code": None, "http_status": 200}
        with store.runs.moves() as moves:
            assert not moves.finish(run.id, CallStatus.SUCCEEDED, CallStatus.SUCCEEDED, values, was=RUNNING)
        assert store.runs.get(run.id).status is QUEUED
        claim_run(store, run.id, "h", 1)
        with store.runs.moves() as moves:
            assert moves.finish(run.id, CallStatus.SUCCEEDED, CallStatus.SUCCEEDED, values, was=RUNNING)

    def test_moves_are_all_or_nothing(self, store, accept):
        first, second = accept(), accept()
        with pytest.raises(ZeroDivisionError), store.runs.moves() as moves:
            assert moves.claim(first.id, "h", 1)
            raise ZeroDivisionError
        assert store.runs.count(QUEUED) == 2
        with store.runs.moves() as moves:
            assert moves.claim(first.id, "h", 1) and moves.claim(second.id, "h", 1) and not moves.claim(first.id, "h", 1)
        assert store.runs.count(RUNNING) == 2

    def test_runs_without_a_running_attempt(self, store, accept):
        first, second, third = accept(), accept(), accept()
        claim_run(store, second.id, "h", 1)
        store.runs.cancel(third.id)
        assert store.runs.running_workloads() == {second.workload_id}
        assert store.runs.resting_of([first.id, second.id, third.id, "nobody"]) == {first.id, third.id}


class TestCallbacks:
    def end(self, store, run, status=SUCCEEDED):
        claim_run(store, run.id, "h", 1)
        store.runs.finish(run.id, status=status)
        return store.callbacks.find(run.id)

    def test_the_end_of_a_run_creates_a_callback(self, store, accept):
        run, quiet = accept(callback_url="https://example.com/x"), accept()
        assert store.callbacks.find(run.id) is None
        made = self.end(store, run)
        assert (made.url, made.status, made.attempts, made.namespace) == (run.callback_url, CallbackStatus.PENDING, 0, NAMESPACE)
        assert self.end(store, quiet) is None
        assert store.callbacks.list_due(clock.now(), 9) == [made]

    def test_a_run_cancelled_before_it_started_creates_a_callback(self, store, accept):
        run = accept(callback_url="https://example.com/x")
        store.runs.cancel(run.id)
        assert store.callbacks.find(run.id).status is CallbackStatus.PENDING

    def test_a_postponed_callback_can_still_be_delivered(self, store, accept):
        made = self.end(store, accept(callback_url="https://example.com/x"))
        later = clock.now() + timedelta(minutes=1)
        assert store.callbacks.postponed(made, later, 503, "status 503")
        waiting = store.callbacks.find(made.run_id)
        assert (waiting.attempts, waiting.http_status, waiting.error, waiting.not_before) == (1, 503, "status 503", later)
        assert store.callbacks.list_due(clock.now(), 9) == []
        assert store.callbacks.delivered(waiting, 204)
        ended = store.callbacks.find(made.run_id)
        assert (ended.status, ended.attempts, ended.http_status, ended.error) == (CallbackStatus.DELIVERED, 2, 204, None)
        assert ended.ended_at is not None and store.callbacks.list_due(later, 9) == []

    def test_a_failed_callback(self, store, accept):
        made = self.end(store, accept(callback_url="https://example.com/x"))
        assert store.callbacks.failed(made, None, "refused")
        ended = store.callbacks.find(made.run_id)
        assert (ended.status, ended.error) == (CallbackStatus.FAILED, "refused")

    def test_a_rerun_replaces_the_callback(self, store, accept):
        run = accept(callback_url="https://example.com/x")
        old = self.end(store, run, FAILED)
        store.runs.rerun(run.id)
        assert store.callbacks.find(run.id) is None
        new = self.end(store, run)
        assert not store.callbacks.delivered(old, 200)
        assert store.callbacks.find(run.id) == new

    def test_due_callbacks_are_limited_per_namespace(self, store, workload, accept):
        store.tenants.ensure("other", "o")
        there = store.workloads.insert("other", Kind.FUNCTION, "hello", make_workload_spec())
        for _ in range(5):
            self.end(store, accept(callback_url="https://example.com/x"))
        self.end(store, accept(callback_url="https://example.com/x", workload_id=there.id, namespace="other"))
        found = [item.namespace for item in store.callbacks.list_due(clock.now(), 2)]
        assert sorted(found) == sorted(["other", NAMESPACE, NAMESPACE])

    def test_callback_keys(self, store):
        with pytest.raises(NotFound):
            store.callbacks.keys("nobody")
        with pytest.raises(NotFound):
            store.callbacks.rotate_key("nobody")
        found = at_once([lambda: store.callbacks.keys(NAMESPACE)] * 8)
        (first,) = found[0]
        assert found == [[first]] * 8 and len(first.secret) == 64
        second, before = store.callbacks.rotate_key(NAMESPACE)
        assert before == first and second.secret != first.secret
        assert store.callbacks.keys(NAMESPACE) == [second, before]
        third, before = store.callbacks.rotate_key(NAMESPACE)
        assert before == second


class TestJobs:
    def test_the_run_with_the_highest_job_run_id_is_the_newest(self, store, job):
        assert store.runs.newest_of([job.id]) == {}
        for number in (1, 3, 2):
            store.runs.insert(make_run(workload_id=job.id, kind=Kind.JOB, job_run_id=number, created_at=AT - timedelta(hours=number)))
        assert {key: run.job_run_id for key, run in store.runs.newest_of([job.id, "nobody"]).items()} == {job.id: 3}
