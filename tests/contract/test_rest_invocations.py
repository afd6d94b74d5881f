"""Asynchronous invocations over REST: attempts, callback, cancel, retry; and the callback key."""

from datetime import timedelta

import pytest

from sless import clock
from sless.domain.model import CallStatus, Run
from sless.ids import namespace_of
from tests.builders import make_invocation, make_run
from tests.contract.rest_harness import Rest
from tests.contract.store_steps import claim_run, requeue_run

DEAD, FAILED = CallStatus.DEAD, CallStatus.FAILED


def accept(rest: Rest, **changes: object) -> Run:
    workload = rest.store.workloads.find_callable(rest.namespace, "hello")
    assert workload is not None
    run = make_run(**({"workload_id": workload.id, "namespace": rest.namespace} | changes))
    assert rest.store.runs.insert(run)
    return run


def end(rest: Rest, run: Run, status: CallStatus = DEAD) -> None:
    assert claim_run(rest.store, run.id, "h", 1)
    assert rest.store.runs.finish(run.id, status=status, message="boom", http_status=500, attempt=FAILED)


@pytest.fixture
def hello(rest: Rest) -> Rest:
    rest.function()
    return rest


def test_attempts_are_shown(hello: Rest) -> None:
    run = accept(hello, request_id="theirs")
    later = clock.now() + timedelta(minutes=1)
    claim_run(hello.store, run.id, "h", 1)
    requeue_run(hello.store, run.id, later, "busy", http_status=429)
    body = hello.get("functions/hello/invocations/theirs").json
    assert (body["status"], body["attempts"], body["max_attempts"], body["callback"]) == ("queued", 1, 3, None)
    assert body["next_attempt_at"] is not None
    (first,) = body["attempts_detail"]
    assert (first["number"], first["status"], first["http_status"], first["error"], first["version"]) == (1, "failed", 429, "busy", 1)
    claim_run(hello.store, run.id, "h", 2)
    hello.store.runs.finish(run.id, status=CallStatus.SUCCEEDED, result="[1]", http_status=200)
    body = hello.get(f"functions/hello/invocations/{run.id}").json
    assert [item["status"] for item in body["attempts_detail"]] == ["failed", "succeeded"]
    assert (body["result"], body["next_attempt_at"], body["attempts"]) == ("[1]", None, 2)


def test_a_synchronous_call_has_no_attempts(hello: Rest) -> None:
    workload = hello.store.workloads.find_callable(hello.namespace, "hello")
    assert workload is not None
    call = make_invocation(workload_id=workload.id, namespace=hello.namespace, status=FAILED)
    hello.store.history.add_history([call], [], [])
    body = hello.get(f"functions/hello/invocations/{call.id}").json
    assert (body["attempts_detail"], body["max_attempts"], body["callback"]) == ([], None, None)
    assert "only those of asynchronous calls" in hello.post(f"functions/hello/invocations/{call.id}/retry").json["error"]
    refused = hello.delete(f"functions/hello/invocations/{call.id}")
    assert refused.status_code == 409 and "it is failed" in refused.json["error"]


def test_cancel(hello: Rest) -> None:
    waits, runs, ended = accept(hello), accept(hello), accept(hello)
    claim_run(hello.store, runs.id, "h", 1)
    end(hello, ended)
    for run in (waits, runs):
        response = hello.delete(f"functions/hello/invocations/{run.id}")
        assert response.status_code == 202 and response.json["status"] == "cancelled"
        again = hello.delete(f"functions/hello/invocations/{run.id}")
        assert (again.status_code, again.json["code"]) == (409, "conflict")
    assert "runs" in hello.waker.topics
    assert "it is dead" in hello.delete(f"functions/hello/invocations/{ended.id}").json["error"]
    assert hello.delete("functions/hello/invocations/nobody").status_code == 404
    assert hello.delete(f"functions/other/invocations/{ended.id}").status_code == 404


@pytest.mark.parametrize("status", [DEAD, FAILED, CallStatus.TIMEOUT, CallStatus.CANCELLED])
def test_retry(hello: Rest, status: CallStatus) -> None:
    run = accept(hello)
    end(hello, run, status)
    response = hello.post(f"functions/hello/invocations/{run.id}/retry")
    assert response.status_code == 202 and response.json == {"id": run.id, "request_id": run.request_id, "status": "queued"}
    assert response.headers["Location"] == f"/v1/namespaces/{hello.namespace}/functions/hello/invocations/{run.id}"
    body = hello.get(f"functions/hello/invocations/{run.id}").json
    assert (body["status"], body["attempts"], body["error"], body["finished_at"]) == ("queued", 1, None, None)
    again = hello.post(f"functions/hello/invocations/{run.id}/retry")
    assert again.status_code == 409 and "it is queued" in again.json["error"]
    claim_run(hello.store, run.id, "h", 1)
    assert "it is running" in hello.post(f"functions/hello/invocations/{run.id}/retry").json["error"]
    hello.store.runs.finish(run.id, status=CallStatus.SUCCEEDED)
    assert "it succeeded" in hello.post(f"functions/hello/invocations/{run.id}/retry").json["error"]
    assert [item["number"] for item in hello.get(f"functions/hello/invocations/{run.id}").json["attempts_detail"]] == [1, 2]


def test_the_callback_is_shown(hello: Rest) -> None:
    run = accept(hello, callback_url="https://example.com/x")
    shown = hello.get(f"functions/hello/invocations/{run.id}").json["callback"]
    assert (shown["url"], shown["status"], shown["attempts"]) == ("https://example.com/x", "waiting", 0)
    end(hello, run)
    callback = hello.store.callbacks.find(run.id)
    assert callback is not None
    assert hello.get(f"functions/hello/invocations/{run.id}").json["callback"]["status"] == "pending"
    hello.store.callbacks.failed(callback, 410, "gone")
    shown = hello.get(f"functions/hello/invocations/{run.id}").json["callback"]
    assert (shown["status"], shown["http_status"], shown["error"], shown["attempts"]) == ("failed", 410, "gone", 1)
    assert shown["finished_at"] and shown["next_attempt_at"] is None


def test_the_callback_key(rest: Rest) -> None:
    first = rest.get("callback-key").json
    assert len(first["key"]) == 64 and first["previous_until"] is None
    assert rest.get("callback-key").json == first
    second = rest.post("callback-key/rotate").json
    assert second["key"] != first["key"] and second["previous_until"] is not None
    assert rest.get("callback-key").json == second
    assert rest.get("callback-key", sub=None).status_code == 401
    assert rest.get("callback-key", sub="stranger").status_code == 403


def test_a_call_of_a_deleted_function_stays_visible(rest: Rest) -> None:
    rest.function()
    rest.built()
    run = accept(rest)
    claim_run(rest.store, run.id, "h", 1)
    rest.store.runs.finish(run.id, status=CallStatus.SUCCEEDED, result='{"n": 1}')
    assert rest.get(f"invocations/{run.id}").json == rest.get(f"functions/hello/invocations/{run.id}").json
    rest.delete("functions/hello")
    rest.gone("hello")
    assert rest.get(f"functions/hello/invocations/{run.id}").status_code == 404
    shown = rest.get(f"invocations/{run.id}").json
    assert (shown["status"], shown["result"], shown["name"]) == ("succeeded", '{"n": 1}', "hello")
    assert rest.get("invocations/unknown").status_code == 404
    other = namespace_of("mallory")
    assert rest.get(f"/v1/namespaces/{other}/invocations/{run.id}", sub="mallory").status_code == 404
