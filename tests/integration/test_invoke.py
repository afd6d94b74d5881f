"""Routes, waiting, HTTP policies, runs and asynchronous calls, over real sockets."""

import hashlib
import json
import socket
import threading
import time
from dataclasses import replace

import pytest

from sless.domain.model import CallStatus, CallTrigger, Kind
from sless.domain.ports import HttpPolicy, ObservedRun, Outcome, RunSpec
from sless.errors import Code
from tests.builders import make_run
from tests.proxykit.fakes import NAMESPACE, endpoint_of, revision_of, route_of
from tests.proxykit.plugin import Serve, UpstreamOf, serve, upstream_of
from tests.proxykit.server import SETTINGS, Front, Reply, until
from tests.proxykit.upstream import OK, Peer, answering, logs_or

__all__ = ["serve", "upstream_of"]
BASE = f"/v1/namespaces/{NAMESPACE}"


def request(front: Front, method: str, path: str, head: str = "", body: bytes = b"") -> Reply:
    length = f"content-length: {len(body)}\r\n" if body else ""
    with front.connect() as client:
        client.send(f"{method} {path} HTTP/1.1\r\nhost: x\r\n{length}{head}\r\n".encode("latin-1") + body)
        return client.reply(head_only=method == "HEAD")


def code_of(reply: Reply) -> tuple[int, str]:
    error = json.loads(reply.body)
    assert reply.header("x-sless-error") in (None, error["code"])
    return reply.status, error["code"]


# --- routes and waiting -------------------------------------------------------------------------------------------------------------------


def test_unknown_names_are_404(serve: Serve) -> None:
    front = serve(answering())
    assert code_of(front.call(name="nope")) == (404, "not_found")
    assert code_of(request(front, "GET", "/fn/other/f")) == (404, "not_found")
    assert code_of(request(front, "GET", f"/fn/{NAMESPACE}")) == (404, "not_found")
    assert front.call(name="nope").header("x-sless-error") == "not_found"
    assert front.flush().invocations == []


def without_name(reply: Reply, name: str) -> tuple[int, set[str], str]:
    """The answer without the name of the function and the request id."""
    body = json.loads(reply.body)
    del body["request_id"]
    return reply.status, {key for key, _ in reply.headers}, str(body).replace(f'"{name}"', "NAME", 1)


def test_a_function_without_http_trigger_has_no_url_but_a_service_does(serve: Serve) -> None:
    front = serve(answering(), route={"http": None})
    reply = front.call()
    assert code_of(reply) == (404, "not_found") and b"no http trigger" in reply.body
    unknown = front.call(name="nope")
    assert without_name(unknown, "nope") == without_name(reply, "f"), "a stranger cannot tell which names exist"
    address = front.fakes.routes.find_snapshot(0).routes[0].endpoints[0].address  # type: ignore[union-attr]
    front.set_routes(route_of("s", [address], revision_of("s", kind=Kind.SERVICE), http=None))
    assert front.call(name="s").status == 200
    assert front.call(name="s").status == 200


@pytest.mark.parametrize(
    ("code", "status", "retry"),
    [(Code.NOT_READY, 503, "5"), (Code.NO_INSTANCES, 503, "5"), (Code.BUILD_FAILED, 503, None), (Code.NOT_FOUND, 404, None)],
)
def test_a_blocked_workload_reports_the_reason(serve: Serve, code: Code, status: int, retry: str | None) -> None:
    front = serve(answering(), route={"blocked": (code, "this is why")})
    for _ in range(2):
        reply = front.call()
        assert (reply.status, reply.header("x-sless-error"), reply.header("retry-after")) == (status, code, retry)
        assert b"this is why" in reply.body


def test_calls_to_a_blocked_workload_do_not_delay_other_requests(serve: Serve) -> None:
    """Each call checks for up to a second whether the workload is still blocked, without using a thread, while the database hangs."""
    front = serve(answering(), route={"blocked": (Code.NOT_READY, "not yet")})
    assert front.call().status == 503
    front.fakes.routes.responsive.clear()
    calls = [threading.Thread(target=front.call) for _ in range(40)]
    for call in calls:
        call.start()
    began = time.monotonic()
    assert request(front, "GET", "/readyz").status == 200
    assert time.monotonic() - began < 3, "the calls delayed another request"
    for call in calls:
        call.join(30)
    assert time.monotonic() - began < 4, "the calls waited for the database"
    front.fakes.routes.responsive.set()


def test_a_call_waits_for_an_instance(serve: Serve, upstream_of: UpstreamOf) -> None:
    upstream = upstream_of(answering())
    front = serve(settings=replace(SETTINGS, instance_wait_sec=30))
    replies: list[Reply] = []
    thread = threading.Thread(target=lambda: replies.append(front.call()))
    thread.start()
    until(lambda: any(live.waiting for live in front.plane.routes.live_routes()))
    front.set_routes(route_of(addresses=[upstream.address]))
    thread.join(30)
    assert replies[0].status == 200
    assert front.flush().invocations[0].cold is True


def test_503_when_no_instance_becomes_ready(serve: Serve) -> None:
    front = serve(settings=replace(SETTINGS, instance_wait_sec=0))
    reply = front.call()
    assert code_of(reply) == (503, "no_instances") and reply.header("retry-after") == "5"
    (row,) = front.flush().invocations
    assert (row.http_status, row.cold) == (503, False)  # nothing started


def test_an_unreachable_instance_is_skipped(serve: Serve, upstream_of: UpstreamOf) -> None:
    upstream = upstream_of(answering())
    front = serve()
    front.set_routes(route_of(addresses=["unix:/tmp/sless-no-such-socket", upstream.address, "127.0.0.1:1"]))
    for _ in range(10):
        assert front.call(method="POST", body=b"x").status == 200


def test_an_instance_may_listen_on_tcp(serve: Serve) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        sock, _ = listener.accept()
        with sock:
            Peer(sock).request()
            sock.sendall(OK)

    thread = threading.Thread(target=answer)
    thread.start()
    front = serve()
    front.set_routes(route_of(addresses=[f"127.0.0.1:{listener.getsockname()[1]}"]))
    assert front.call().body == b"ok"
    thread.join(30)
    listener.close()


def test_calls_spread_over_replicas(serve: Serve, upstream_of: UpstreamOf) -> None:
    front = serve()
    upstreams = [
        upstream_of(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d" % number)) for number in range(3)
    ]  # fmt: skip
    front.set_routes(route_of(addresses=[upstream.address for upstream in upstreams]))
    bodies = [front.call().body for _ in range(12)]
    assert {body: bodies.count(body) for body in set(bodies)} == {b"0": 4, b"1": 4, b"2": 4}


def test_concurrent_calls_are_limited_to_the_concurrency(serve: Serve) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        peer.send(OK)

    front = serve(logs_or(handler), route={"revision": revision_of(concurrency=2)})
    front.call()
    replies: list[int] = []
    threads = [threading.Thread(target=lambda: replies.append(front.call().status)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert replies == [200] * 16
    assert most == 2


def test_running_calls_finish_when_their_instance_is_replaced(serve: Serve, upstream_of: UpstreamOf) -> None:
    release = threading.Event()

    def old(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        assert release.wait(30)
        peer.send(OK)

    front = serve(logs_or(old))
    replies: list[Reply] = []
    thread = threading.Thread(target=lambda: replies.append(front.call()))
    thread.start()
    until(lambda: any(instance.active for instance in front.plane.routes.instances()))
    new = upstream_of(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nnew"))
    front.set_routes(replace(route_of(), endpoints=(endpoint_of(new.address, "new", version=4),)))
    assert front.call().body == b"new"
    release.set()
    thread.join(30)
    assert replies[0].body == b"ok"


def test_routes_stay_when_the_database_is_down(serve: Serve) -> None:
    front = serve(answering())
    front.fakes.routes.failing = True
    front.plane.routes.wake()
    time.sleep(0.1)
    assert front.call().status == 200


# --- policies ----------------------------------------------------------------------------------------------------------------------------


def test_a_method_that_the_trigger_does_not_allow_is_405(serve: Serve) -> None:
    front = serve(answering(), route={"http": HttpPolicy(methods=("GET", "PUT"))})
    reply = front.call(method="POST", body=b"x")
    assert code_of(reply) == (405, "method_not_allowed") and reply.header("allow") == "GET, PUT"
    assert front.call(method="PUT", body=b"x").status == 200
    assert front.call(method="HEAD").status == 200


def test_a_trigger_with_keys_refuses_calls_without_a_valid_one(serve: Serve) -> None:
    front = serve(answering(), route={"http": HttpPolicy(auth="key", key_hashes=(hashlib.sha256(b"secret").hexdigest(),))})
    assert code_of(front.call()) == (401, "unauthorized")
    assert code_of(front.call(head="x-sless-key: wrong\r\n")) == (401, "unauthorized")
    assert front.call(head="x-sless-key: secret\r\n").status == 200


def test_a_trigger_with_tokens_refuses_calls_without_a_valid_one(serve: Serve) -> None:
    front = serve(answering(), route={"http": HttpPolicy(auth="token")})
    reply = front.call()
    assert code_of(reply) == (401, "token_missing") and "Bearer" in (reply.header("www-authenticate") or "")
    assert code_of(front.call(head="authorization: Bearer bad\r\n")) == (401, "token_malformed")
    assert front.call(head="authorization: Bearer good\r\n").status == 200


@pytest.mark.parametrize(("auth", "invoke", "passed"), [("none", False, True), ("token", False, False), ("none", True, False)])
def test_a_token_for_sless_is_not_forwarded(serve: Serve, auth: str, invoke: bool, passed: bool) -> None:
    seen: list[bool] = []

    def handle(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        seen.append("authorization" in dict(headers))
        peer.send(OK)

    front = serve(logs_or(handle), route={"http": HttpPolicy(auth=auth)})
    path = f"{BASE}/functions/f/invoke" if invoke else f"/fn/{NAMESPACE}/f"
    for _ in range(2):
        assert request(front, "GET", path, "authorization: Bearer good\r\n").status == 200
    assert seen == [passed] * 2


def test_calls_over_the_rate_limit_are_429(serve: Serve) -> None:
    front = serve(answering(), route={"http": HttpPolicy(rate_limit=3)})
    replies = [front.call() for _ in range(5)]
    assert [reply.status for reply in replies] == [200, 200, 200, 429, 429]
    assert 1 <= int(replies[3].header("retry-after") or 0) <= 20


def test_a_disabled_trigger_refuses_calls_but_not_invokes(serve: Serve) -> None:
    http = HttpPolicy(enabled=False)
    front = serve(answering(), route={"http": http, "blocked": (Code.DISABLED, "disabled"), "wants_instances": False})
    reply = front.call()
    assert code_of(reply) == (503, "disabled") and reply.header("retry-after")
    front.fakes.backend.answer = good_run
    assert request(front, "POST", f"{BASE}/functions/f/invoke", "authorization: Bearer good\r\n").status == 200


def test_cors_preflights_are_answered_and_refusals_carry_cors_headers(serve: Serve) -> None:
    cors = {"allow_origins": ["https://a.test"], "allow_credentials": True, "expose_headers": ["X-E"], "max_age_sec": 60}
    front = serve(answering(), route={"http": HttpPolicy(cors=cors, methods=("GET", "POST"), auth="key")})
    preflight = front.call(
        method="OPTIONS",
        head="origin: https://a.test\r\naccess-control-request-method: POST\r\naccess-control-request-headers: x-q\r\n",
    )  # fmt: skip
    assert preflight.status == 204
    headers = dict(preflight.headers)
    assert headers["access-control-allow-origin"] == "https://a.test" and headers["access-control-allow-credentials"] == "true"
    assert headers["access-control-allow-methods"] == "GET, POST" and headers["access-control-allow-headers"] == "x-q"
    assert headers["access-control-max-age"] == "60" and headers["x-request-id"]
    refused = front.call(head="origin: https://a.test\r\n")
    assert refused.status == 401 and refused.header("access-control-allow-origin") == "https://a.test"
    other = front.call(method="OPTIONS", head="origin: https://b.test\r\naccess-control-request-method: POST\r\n")
    assert other.header("access-control-allow-origin") is None


@pytest.mark.parametrize(
    ("path", "error"),
    [
        (f"/fn/{NAMESPACE}", "the path has no name of a function or service: expected /fn/{namespace}/{name}"),
        (f"/fn/{NAMESPACE}/", "the path has no name of a function or service: expected /fn/{namespace}/{name}"),
        (f"/fn/{NAMESPACE}//f", "the path has no name of a function or service: expected /fn/{namespace}/{name}"),
        ("/fn/", "the path has no namespace: expected /fn/{namespace}/{name}"),
        (f"//fn/{NAMESPACE}/f", "the path starts with two slashes; send it with one"),
        ("//v1/whoami", "the path starts with two slashes; send it with one"),
    ],
)
def test_an_invalid_path_is_404_with_the_reason(serve: Serve, path: str, error: str) -> None:
    reply = request(serve(answering()), "GET", path)
    assert (reply.status, json.loads(reply.body)["error"]) == (404, error)


# --- invoke ------------------------------------------------------------------------------------------------------------------------------


def good_run(spec: RunSpec) -> ObservedRun:
    body = f'{{"got": {spec.event}}}'.encode()
    headers = (("content-type", "application/json"), ("x-sless-error", "forged"))
    outcome = Outcome(ok=True, error=None, error_type=None, status=200, headers=headers, body=body)
    return ObservedRun(id=spec.id, status=CallStatus.SUCCEEDED, outcome=outcome, exit_code=0)


AUTH = "authorization: Bearer good\r\n"


def test_invoke_requires_a_token_for_the_namespace(serve: Serve) -> None:
    front = serve(answering())
    assert code_of(request(front, "POST", f"{BASE}/functions/f/invoke")) == (401, "token_missing")
    assert code_of(request(front, "POST", "/v1/namespaces/sless-other/functions/f/invoke", AUTH)) == (403, "forbidden")
    assert code_of(request(front, "POST", f"{BASE}/services/f/invoke", AUTH)) == (404, "not_found")


def test_invoke_reaches_an_instance_without_a_sub_path(serve: Serve) -> None:
    seen: list[tuple[str, dict[str, str]]] = []

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        seen.append((first, dict(headers)))
        peer.send(OK)

    front = serve(logs_or(handler), route={"http": None})
    assert request(front, "GET", f"{BASE}/functions/f/invoke?a=1", AUTH).body == b"ok"
    assert seen[0][0] == "GET /?a=1 HTTP/1.1"
    assert seen[0][1]["x-sless-trigger"] == "invoke"
    assert front.flush().invocations[0].trigger == "invoke"


def test_without_instances_each_call_is_a_run(serve: Serve) -> None:
    front = serve(route={"wants_instances": False})
    front.fakes.backend.answer = good_run
    reply = request(front, "POST", f"{BASE}/functions/f/invoke", AUTH + "content-type: application/json\r\n", b'{"a": 1}')
    assert (reply.status, json.loads(reply.body)) == (200, {"got": {"a": 1}})
    assert reply.header("x-sless-error") is None
    [spec] = front.fakes.backend.started
    assert (spec.trigger, spec.event) == ("invoke", '{"a": 1}')
    until(lambda: front.fakes.backend.removed == [spec.id])
    [row] = front.flush().invocations
    assert (row.id, row.status, row.cold, row.version) == (spec.id, "succeeded", True, 3)
    bad = request(front, "POST", f"{BASE}/functions/f/invoke", AUTH + "content-type: application/json\r\n", b"{")
    assert code_of(bad) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("observed", "status", "code"),
    [
        (ObservedRun(id="", status=CallStatus.FAILED, exit_code=3), 502, "function_exited"),
        (ObservedRun(id="", status=CallStatus.FAILED, message="out of memory: used 9 of 8 MB"), 502, "out_of_memory"),
        (ObservedRun(id="", status=CallStatus.TIMEOUT), 504, "timeout"),
    ],
)
def test_a_run_without_an_outcome_reports_why_it_ended(serve: Serve, observed: ObservedRun, status: int, code: str) -> None:
    front = serve(route={"wants_instances": False})
    front.fakes.backend.answer = lambda spec: observed
    assert code_of(request(front, "POST", f"{BASE}/functions/f/invoke", AUTH)) == (status, code)
    assert front.flush().invocations[0].status == ("timeout" if status == 504 else "failed")


def test_concurrent_runs_are_limited(serve: Serve) -> None:
    front = serve(route={"wants_instances": False}, settings=replace(SETTINGS, max_runs=1, instance_wait_sec=0))
    with front.connect() as client:
        client.send(f"POST {BASE}/functions/f/invoke HTTP/1.1\r\nhost: x\r\n{AUTH}\r\n".encode())
        until(lambda: len(front.fakes.backend.started) == 1)
        assert code_of(request(front, "POST", f"{BASE}/functions/f/invoke", AUTH)) == (503, "no_instances")
    until(lambda: front.fakes.backend.removed == [front.fakes.backend.started[0].id])
    until(lambda: "cancelled" in [row.status for row in front.flush().invocations])


def test_respond_async_queues_the_call_and_returns_202(serve: Serve) -> None:
    front = serve(route={"wants_instances": False})
    reply = request(front, "POST", f"{BASE}/functions/f/invoke", AUTH + "prefer: wait=1, respond-async\r\nx-request-id: r-1\r\n", b"hi")
    [accepted] = front.fakes.queue.accepted
    assert reply.status == 202 and json.loads(reply.body)["id"] == accepted.id
    assert reply.header("location") == f"{BASE}/functions/f/invocations/{accepted.id}"
    assert (json.loads(accepted.event), accepted.request_id) == ({"body": "hi"}, "r-1")
    assert front.flush().invocations == []


def test_control_loops_call_an_instance_through_the_invoker(serve: Serve) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        body = peer.body(headers)
        assert ("x-sless-trigger", "cron") in headers
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        if body == b'{"fail": 1}':
            head = b"HTTP/1.1 500 X\r\nx-sless-function-error: 1\r\nx-sless-error-message: boom\r\n"
        peer.send(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))

    front = serve(logs_or(handler))
    run = make_run(workload_id="w-f", name="f", trigger=CallTrigger.CRON, event='{"a": 1}')
    good = front.run(run)
    assert (good.status, good.outcome.result if good.outcome else None) == ("succeeded", '{"a": 1}')
    bad = front.run(replace(run, event='{"fail": 1}'))
    assert (bad.status, bad.message) == ("failed", "boom")
    assert front.flush().invocations == []
