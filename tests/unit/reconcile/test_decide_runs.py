"""The rules of runs as tables: which run is next, and the verdict on an ended attempt."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sless.domain.model import CallStatus, CallTrigger, Kind, Run, VersionState
from sless.domain.ports import ObservedRun, Outcome
from sless.reconcile.decide_runs import FinishRun, RetryRun, bounded, in_turn, verdict_of, verdict_of_lost
from sless.reconcile.run_plans import Ready, Waiting, run_plan_of
from tests.builders import make_run, make_version, make_workload, make_workload_spec

NOW = datetime(2026, 1, 31, 9, 26, 53, tzinfo=UTC)
FAILED, SUCCEEDED, TIMEOUT, CANCELLED = CallStatus.FAILED, CallStatus.SUCCEEDED, CallStatus.TIMEOUT, CallStatus.CANCELLED


def run(trigger=CallTrigger.INVOKE, attempts=1, max_attempts=3, before=0) -> Run:
    return make_run(trigger=trigger, status=CallStatus.RUNNING, attempts=attempts, max_attempts=max_attempts, attempts_before=before)


def ended(status, http_status=None, result="null", **headers) -> ObservedRun:
    outcome = None
    if http_status:
        pairs = tuple((name.replace("_", "-").title(), value) for name, value in ({"content_type": "application/json"} | headers).items())
        body = result.encode()
        outcome = Outcome(ok=http_status < 500, error=None, error_type=None, status=http_status, headers=pairs, body=body)
    return ObservedRun(id="r", status=status, outcome=outcome, message="" if status is SUCCEEDED else "why")


def text_of(verdict) -> str:
    if isinstance(verdict, RetryRun):
        return f"retry {(verdict.not_before - NOW) / timedelta(seconds=1):g} {verdict.attempt}"
    return str(verdict.status) + (f" {verdict.attempt}" if verdict.attempt else "")


@pytest.mark.parametrize(
    ("item", "observed", "expected"),
    [
        (run(), ended(SUCCEEDED, 200, "1"), "succeeded"),
        (run(), ended(SUCCEEDED, 404, "1"), "succeeded"),
        (run(), ended(FAILED, 500), "retry 2 failed"),
        (run(attempts=2), ended(FAILED, 500), "retry 4 failed"),
        (run(attempts=3), ended(FAILED, 500), "dead failed"),
        (run(attempts=9, max_attempts=10), ended(FAILED, 503), "retry 300 failed"),
        (run(max_attempts=1), ended(FAILED, 500), "dead failed"),
        (run(CallTrigger.HTTP, attempts=3), ended(TIMEOUT), "dead timeout"),
        # A retry counts only its own attempts.
        (run(attempts=4, before=3), ended(FAILED, 500), "retry 2 failed"),
        (run(attempts=6, before=3), ended(FAILED, 500), "dead failed"),
        # The function returned 429: its code succeeded, but the call is retried.
        (run(), ended(SUCCEEDED, 429), "retry 2 failed"),
        (run(attempts=3), ended(SUCCEEDED, 429), "dead failed"),
        (run(), ended(SUCCEEDED, 429, retry_after="60"), "retry 60 failed"),
        (run(), ended(FAILED, 503, retry_after="1"), "retry 2 failed"),
        (run(), ended(FAILED, 503, retry_after="Sat, 31 Jan 2026 09:28:23 GMT"), "retry 90 failed"),
        (run(), ended(FAILED, 503, retry_after="99999999"), "retry 3600 failed"),
        (run(), ended(FAILED, 503, retry_after="soon"), "retry 2 failed"),
        (run(), ended(FAILED, 400), "failed"),
        (run(), ended(FAILED), "retry 2 failed"),
        (run(), ended(TIMEOUT), "retry 2 timeout"),
        (run(), ended(CANCELLED), "cancelled"),
        (run(CallTrigger.CRON, max_attempts=1), ended(FAILED, 500), "failed failed"),
        (run(CallTrigger.CRON, max_attempts=1), ended(TIMEOUT), "timeout timeout"),
        (run(CallTrigger.CRON, attempts=2, max_attempts=2), ended(FAILED, 500), "dead failed"),
        (run(CallTrigger.JOB, max_attempts=1), ended(FAILED, 500), "failed"),
        (run(CallTrigger.JOB, max_attempts=3), ended(FAILED, 500), "failed"),
        (run(CallTrigger.JOB), ended(TIMEOUT), "timeout"),
        (run(CallTrigger.JOB), ended(SUCCEEDED, 429), "succeeded"),
    ],
)
def test_verdict(item, observed, expected):
    assert text_of(verdict_of(item, observed, NOW)) == expected


def test_the_delay_is_jittered_but_never_below_retry_after():
    waits = [(verdict_of(run(attempts=2), ended(FAILED, 500), NOW, jitter).not_before - NOW).total_seconds() for jitter in (-1, 0, 1)]
    assert waits == pytest.approx([3.2, 4, 4.8])
    asked = verdict_of(run(attempts=2), ended(FAILED, 503, retry_after="4"), NOW, -1)
    assert (asked.not_before - NOW).total_seconds() == 4


def test_a_429_is_named_in_the_message():
    verdict = verdict_of(run(), ended(SUCCEEDED, 429), NOW)
    assert (verdict.message, verdict.http_status) == ("status 429", 429)


def test_a_jobs_message_is_its_result():
    verdict = verdict_of(run(CallTrigger.JOB, max_attempts=1), ended(SUCCEEDED, 200, '{"n": 1}'), NOW)
    assert verdict == FinishRun(status=SUCCEEDED, message='{"n": 1}', result='{"n": 1}', http_status=200, ended_at=NOW, ran_ms=0.0)


@pytest.mark.parametrize(
    ("began", "ended_at", "expected", "ran_sec"),
    [(-70, -50, -50, 20), (-70, None, 0, 70), (None, -50, -50, 50), (-70, 5, 0, 70), (-70, -200, -100, 0)],
    ids=["noticed late", "end unknown", "start unknown", "clock ahead", "clock behind"],
)
def test_how_long_a_run_used_its_memory(began, ended_at, expected, ran_sec):
    def at(seconds):
        return None if seconds is None else NOW + timedelta(seconds=seconds)

    seen = replace(ended(SUCCEEDED, 200), started_at=at(began), ended_at=at(ended_at))
    verdict = verdict_of(replace(run(), started_at=at(-100)), seen, NOW)
    assert (verdict.ended_at, verdict.ran_ms) == (at(expected), ran_sec * 1000)


def test_nothing_is_billed_for_a_lost_attempt():
    for attempts in (1, 3):
        verdict = verdict_of_lost(replace(run(attempts=attempts), started_at=NOW - timedelta(seconds=100)), NOW)
        assert verdict.ran_ms == 0.0


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (run(CallTrigger.JOB, attempts=1, max_attempts=1), "retry 0 failed"),
        (run(CallTrigger.JOB, attempts=2, max_attempts=1), "retry 0 failed"),
        (run(CallTrigger.JOB, attempts=3, max_attempts=1), "failed failed"),
        (run(attempts=3), "dead failed"),
        (run(attempts=3, max_attempts=5), "retry 0 failed"),
        (run(attempts=5, before=3), "retry 0 failed"),
    ],
)
def test_a_lost_run_is_retried_but_not_forever(item, expected):
    verdict = verdict_of_lost(item, NOW)
    assert text_of(verdict) == expected and "stop of the server" in verdict.message


def test_functions_take_turns():
    flood = [make_run(id=f"a{n:02}", workload_id="a", not_before=NOW + timedelta(seconds=n)) for n in range(20)]
    other = [make_run(id=f"b{n}", workload_id="b", not_before=NOW + timedelta(seconds=100 + n)) for n in range(3)]
    late = [make_run(id="c0", workload_id="c", not_before=NOW + timedelta(seconds=200))]
    order = [item.id for item in in_turn([*flood, *other, *late], [], 4)]
    assert order == ["a00", "b0", "c0", "a01", "b1", "a02", "b2", "a03"]
    going = [make_run(id=f"{name}{n}", workload_id=name) for name, count in (("a", 3), ("b", 4)) for n in range(count)]
    order = [item.id for item in in_turn([*flood, *other, *late], going, 4)]
    assert order == ["c0", "a00"]


def of_tenant(name: str, workloads: int, later_sec: int = 0) -> list[Run]:
    at = NOW + timedelta(seconds=later_sec)
    return [make_run(id=f"{name}{n}", namespace=name, workload_id=f"{name}{n}", not_before=at) for n in range(workloads)]


def test_tenants_take_turns_however_many_functions_they_have() -> None:
    many, one = of_tenant("many", 6), of_tenant("one", 1, 100)
    assert [item.id for item in in_turn([*many, *one], [], 4)][:3] == ["many0", "one0", "many1"]
    assert next(iter(in_turn([*many[2:], *one], many[:2], 4))).id == "one0"


def test_only_one_quarantined_run_of_a_function_runs_at_a_time() -> None:
    suspects = [make_run(id=f"s{n}", workload_id="a", not_before=NOW, quarantined=True) for n in range(3)]
    fresh = [make_run(id=f"f{n}", workload_id="a", not_before=NOW + timedelta(seconds=1)) for n in range(3)]
    other = make_run(id="o", workload_id="b", not_before=NOW, quarantined=True)
    assert {item.id for item in in_turn([*suspects, *fresh, other], [], 3)} == {"s0", "f0", "f1", "o"}
    assert {item.id for item in in_turn([*suspects, *fresh], [make_run(id="g", workload_id="a", quarantined=True)], 3)} == {"f0", "f1"}


def test_runs_of_a_crashed_instance_are_quarantined() -> None:
    crashed = verdict_of(run(), replace(ended(FAILED), crashed=True), NOW)
    assert isinstance(crashed, RetryRun) and crashed.quarantined
    suspect = replace(run(attempts=2), quarantined=True)
    for later in (verdict_of(suspect, ended(FAILED, 503), NOW), verdict_of_lost(suspect, NOW)):
        assert isinstance(later, RetryRun) and later.quarantined, "it stays quarantined"
    ordinary = verdict_of(run(), ended(FAILED, 503), NOW)
    assert isinstance(ordinary, RetryRun) and not ordinary.quarantined


@pytest.mark.parametrize(
    ("status", "result", "expected"),
    [
        (200, '"1234567"', "failed"),
        (200, '"12345678"', "failed: the result is over the limit of 9 bytes (max_result_bytes)"),
        (200, '"ééééé"', "failed: the result is over the limit of 9 bytes (max_result_bytes)"),
        (503, '"12345678"', "retry 2 failed"),
    ],
    ids=["at the limit", "too long", "too many bytes", "an error is retried"],
)
def test_a_result_over_the_limit_is_a_final_failure(status: int, result: str, expected: str) -> None:
    given = ended(SUCCEEDED, status, result)
    found = bounded(given, 9)
    verdict = verdict_of(run(), found, NOW)
    if expected == "failed":
        assert found is given and verdict.result == result
    elif isinstance(verdict, FinishRun):
        assert f"{verdict.status}: {verdict.message}" == expected and (verdict.result, verdict.http_status) == (None, status)
    else:
        assert text_of(verdict) == expected


def test_non_retryable_failures_are_not_retried() -> None:
    non_retryable = replace(ended(FAILED), non_retryable=True)
    assert text_of(verdict_of(run(), non_retryable, NOW)) == "failed"
    assert text_of(verdict_of(run(), ended(FAILED), NOW)) == "retry 2 failed"


VERSION = make_version(number=1, state=VersionState.READY)
BUILDING = make_version(number=2, state=VersionState.BUILDING)
BROKEN = make_version(number=2, state=VersionState.FAILED, message="no module")


@pytest.mark.parametrize(
    ("kind", "newest", "active", "expected"),
    [
        ("function", None, None, "waits"),
        ("function", BUILDING, None, "waits"),
        ("function", BUILDING, VERSION, "runs 1"),
        ("function", BROKEN, VERSION, "runs 1"),
        ("function", BROKEN, BUILDING, "waits"),
        ("function", VERSION, BROKEN, "failed"),
        ("function", BROKEN, None, "failed"),
        ("job", None, None, "waits"),
        ("job", BUILDING, VERSION, "waits"),
        ("job", VERSION, VERSION, "runs 1"),
        ("job", BROKEN, None, "failed"),
    ],
)
def test_plan(kind, newest, active, expected):
    workload = make_workload(kind=Kind(kind))
    match run_plan_of(workload, workload, newest, active):
        case Ready(revision=revision):
            found = f"runs {revision.version}"
        case Waiting():
            found = "waits"
        case FinishRun(status=status, message=message):
            found = str(status)
            assert "no module" in message
    assert found == expected


def test_plan_without_runnable_code():
    gone = run_plan_of(make_workload(kind=Kind.JOB, deleted_at=NOW), None, None, None)
    assert isinstance(gone, FinishRun) and gone.status is CANCELLED
    lost = run_plan_of(make_workload(kind=Kind.JOB, spec=make_workload_spec(function_ref="hello")), None, None, None)
    assert isinstance(lost, FinishRun) and (lost.status, lost.message) == (FAILED, 'function "hello" not found')
