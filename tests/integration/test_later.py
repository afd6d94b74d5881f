"""Accepting asynchronous calls over real sockets: what is stored, the trigger's checks, and 202 only once committed."""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from sless import clock
from sless.domain.model import CallStatus, Run
from sless.domain.ports import HttpPolicy, ObservedRun
from sless.domain.request import stored_request_of
from sless.errors import Code, SlessError
from sless.reconcile.decide_runs import FinishRun, verdict_of
from tests.builders import make_run
from tests.proxykit.fakes import NAMESPACE, route_of
from tests.proxykit.plugin import Serve, serve, upstream_of
from tests.proxykit.server import SETTINGS, Front, Reply, until
from tests.proxykit.upstream import Peer, logs_or

__all__ = ["serve", "upstream_of"]
BASE = f"/v1/namespaces/{NAMESPACE}"


def code_of(reply: Reply) -> tuple[int, str]:
    return reply.status, json.loads(reply.body)["code"]


LATER = "prefer: respond-async\r\n"


def later(front: Front, target: str = "/a%2Fb?x=1&x=2", *, method: str = "POST", head: str = "", body: bytes = b"") -> Reply:
    return front.call(target, method=method, head=LATER + head, body=body)


def test_a_call_over_fn_is_stored_as_sent(serve: Serve) -> None:
    front = serve(route={"http": HttpPolicy(callbacks=True)})
    head = "content-type: text/x\r\nx-a: 1\r\nx-a: \xe9\r\nx-sless-key: k\r\n"
    head += "x-sless-callback-url: https://example.com/x\r\nx-sless-max-attempts: 5\r\n"
    reply = later(front, head=head, body=b"\x00\xff")
    [accepted] = front.fakes.queue.accepted
    assert (reply.status, reply.header("location")) == (202, f"{BASE}/functions/f/invocations/{accepted.id}")
    assert (accepted.trigger, accepted.max_attempts, accepted.callback_url, accepted.event) == ("http", 5, "https://example.com/x", "")
    stored = stored_request_of(accepted.request or "")
    assert (stored.method, stored.target, stored.full_path, stored.body) == (
        "POST", b"/a%2Fb?x=1&x=2", f"/fn/{NAMESPACE}/f/a%2Fb".encode(), b"\x00\xff",
    )  # fmt: skip
    names = [name for name, _ in stored.headers]
    assert names.count(b"x-a") == 2 and not any(name.startswith(b"x-sless-") for name in names) and b"prefer" not in names
    assert front.flush().invocations == [], "the queue records it"


def test_a_call_over_fn_reaches_its_handler_like_a_synchronous_one(serve: Serve) -> None:
    seen: list[tuple[str, list[tuple[str, str]], bytes]] = []

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        seen.append((first, headers, peer.body(headers)))
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    front = serve(logs_or(handler))
    head = "content-type: text/x\r\nx-request-id: r-1\r\nx-a: 1\r\n"
    front.call("/a%2Fb?x=1", method="PUT", head=head, body=b"\x00\xff")
    later(front, "/a%2Fb?x=1", method="PUT", head=head, body=b"\x00\xff")
    [accepted] = front.fakes.queue.accepted
    assert front.run(accepted).status == "succeeded"
    once, again = seen
    own = ("x-sless-invocation-id", "connection")
    assert again[0] == once[0] == "PUT /a%2Fb?x=1 HTTP/1.1" and again[2] == once[2]
    assert sorted(item for item in again[1] if item[0] not in own) == sorted(item for item in once[1] if item[0] not in own)


def test_a_run_gets_the_event_of_the_stored_request(serve: Serve) -> None:
    front = serve()
    later(front, "/?a=1&b=2")
    [accepted] = front.fakes.queue.accepted
    front.set_routes(route_of(wants_instances=False))
    until(lambda: not front.plane.routes.live_routes()[0].route.wants_instances)
    front.fakes.backend.answer = lambda spec: ObservedRun(id=spec.id, status=CallStatus.SUCCEEDED)
    front.run(accepted)
    assert json.loads(front.fakes.backend.started[0].event) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("http", "method", "head", "status"),
    [
        (HttpPolicy(methods=("GET",)), "POST", "", 405),
        (HttpPolicy(auth="token"), "POST", "", 401),
        (HttpPolicy(auth="key", key_hashes=("0" * 64,)), "POST", "x-sless-key: wrong\r\n", 401),
        (HttpPolicy(enabled=False), "POST", "", 503),
        (None, "POST", "", 404),
        (HttpPolicy(), "POST", "x-sless-max-attempts: 0\r\n", 400),
        (HttpPolicy(), "POST", "x-sless-callback-url: http://127.0.0.1/\r\n", 400),
        (HttpPolicy(), "POST", "x-sless-callback-url: https://example.com/x\r\n", 403),
        (HttpPolicy(callbacks=True), "POST", "x-sless-callback-url: https://example.com/x\r\n", 202),
        (HttpPolicy(auth="token"), "POST", "x-sless-callback-url: https://example.com/x\r\nauthorization: Bearer good\r\n", 202),
        (HttpPolicy(auth="token"), "POST", "authorization: Bearer good\r\n", 202),
    ],
)
def test_the_triggers_policy_is_checked_first(serve: Serve, http: HttpPolicy | None, method: str, head: str, status: int) -> None:
    front = serve(route={"http": http})
    assert later(front, method=method, head=head).status == status
    assert len(front.fakes.queue.accepted) == (status == 202)
    if status == 202:
        assert "authorization" not in (front.fakes.queue.accepted[0].request or ""), "sless's own token is not kept"


def test_the_rate_limit_counts_asynchronous_calls(serve: Serve) -> None:
    front = serve(route={"http": HttpPolicy(rate_limit=1)})
    assert [later(front).status for _ in range(2)] == [202, 429]
    assert len(front.fakes.queue.accepted) == 1


def test_cors_headers_come_with_a_202(serve: Serve) -> None:
    front = serve(route={"http": HttpPolicy(cors={"allow_origins": ["https://a.example"]})})
    assert later(front, head="origin: https://a.example\r\n").header("access-control-allow-origin") == "https://a.example"


def test_too_large_or_invalid_bodies_are_rejected(serve: Serve) -> None:
    front = serve(settings=replace(SETTINGS, max_json_bytes=1024))
    assert later(front, body=b"x" * 1024).status == 202
    reply = later(front, body=b"x" * 1025)
    assert (reply.status, code_of(reply)[1]) == (413, "too_large") and b"max_json_bytes" in reply.body
    chunked = "transfer-encoding: chunked\r\n"
    with front.connect() as client:
        client.send(
            f"POST /fn/{NAMESPACE}/f HTTP/1.1\r\nhost: x\r\n{LATER}{chunked}\r\n".encode() + b"800\r\n" + b"x" * 2048 + b"\r\n0\r\n\r\n"
        )
        assert client.reply().status == 413
    assert later(front, head="content-type: application/json\r\n", body=b"{").status == 400
    assert len(front.fakes.queue.accepted) == 1


def test_concurrent_calls_share_commits_and_wait_for_them(serve: Serve) -> None:
    front = serve()
    batches: list[int] = []
    entered, go = threading.Event(), threading.Event()
    accept_all = front.fakes.queue.accept_all

    def slowly(calls: Sequence[Run]) -> list[SlessError | None]:
        batches.append(len(calls))
        entered.set()
        assert go.wait(30)
        return accept_all(calls)

    front.fakes.queue.accept_all = slowly  # type: ignore[method-assign]
    with ThreadPoolExecutor(20) as pool:
        replies = [pool.submit(later, front)]
        assert entered.wait(30)
        replies += [pool.submit(later, front) for _ in range(19)]
        until(lambda: len(front.plane.acceptor.waiting) == 19)
        assert not any(reply.done() for reply in replies)
        go.set()
        assert {reply.result().status for reply in replies} == {202}
    assert batches == [1, 19] and len(front.fakes.queue.accepted) == 20


def test_one_rejected_call_does_not_fail_its_batch(serve: Serve) -> None:
    front = serve()
    entered, go = threading.Event(), threading.Event()
    accept_all = front.fakes.queue.accept_all

    def picky(calls: Sequence[Run]) -> list[SlessError | None]:
        entered.set()
        assert go.wait(30)
        if any("bad" in (call.request or "") for call in calls):
            raise SlessError(Code.NOT_FOUND, "it is gone")
        return accept_all(calls)

    front.fakes.queue.accept_all = picky  # type: ignore[method-assign]
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(later, front)
        assert entered.wait(30)
        rest = [pool.submit(later, front, target) for target in ("/a", "/bad", "/c")]
        until(lambda: len(front.plane.acceptor.waiting) == 3)
        go.set()
        assert first.result().status == 202
        assert [reply.result().status for reply in rest] == [202, 404, 202]
    assert len(front.fakes.queue.accepted) == 3


def test_a_batch_fails_at_once_without_a_database(serve: Serve) -> None:
    front = serve()
    attempts: list[int] = []
    entered, go = threading.Event(), threading.Event()

    def down(calls: Sequence[Run]) -> list[SlessError | None]:
        attempts.append(len(calls))
        entered.set()
        assert go.wait(30)
        raise SlessError(Code.UNAVAILABLE, "the database cannot be reached", retry_after_sec=5)

    front.fakes.queue.accept_all = down  # type: ignore[method-assign]
    with ThreadPoolExecutor(10) as pool:
        replies = [pool.submit(later, front)]
        assert entered.wait(30)
        replies += [pool.submit(later, front) for _ in range(9)]
        until(lambda: len(front.plane.acceptor.waiting) == 9)
        go.set()
        assert {reply.result().status for reply in replies} == {503}
    assert attempts == [1, 9]


def test_a_result_over_the_limit_is_final(serve: Serve) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.body(headers)
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\n" + b"x" * 2000)

    front = serve(logs_or(handler), settings=replace(SETTINGS, max_result_bytes=1024))
    later(front)
    [accepted] = front.fakes.queue.accepted
    found = front.run(accepted)
    assert found.message == "the result is over the limit of 1024 bytes (max_result_bytes)"
    verdict = verdict_of(make_run(attempts=1), found, clock.now())
    assert isinstance(verdict, FinishRun) and verdict.status is CallStatus.FAILED


def test_calls_begin_and_are_cancelled_without_waiting(serve: Serve) -> None:
    hold = threading.Event()

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.body(headers)
        hold.wait(30)
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    front = serve(logs_or(handler))
    later(front)
    [accepted] = front.fakes.queue.accepted
    ended: list[ObservedRun] = []
    front.plane.invoker.begin(accepted, 30, ended.append)()
    until(lambda: [run.status for run in ended] == ["cancelled"])
    hold.set()
    front.plane.invoker.begin(accepted, 30, ended.append)
    until(lambda: [run.status for run in ended] == ["cancelled", "succeeded"])
    front.plane.invoker.begin(replace(accepted, workload_id="w-gone"), 30, ended.append)
    until(lambda: len(ended) == 3)
    assert (ended[2].status, "not found" in ended[2].message) == ("failed", True)


def test_calls_give_up_on_an_unreachable_instance(serve: Serve) -> None:
    front = serve(settings=replace(SETTINGS, instance_wait_sec=1))
    front.set_routes(route_of(addresses=["unix:/tmp/sless-no-such-socket"]))
    later(front)
    found = front.run(front.fakes.queue.accepted[0])
    assert (found.status, found.message) == ("failed", 'no instance of function "f" was free within 1 s')
