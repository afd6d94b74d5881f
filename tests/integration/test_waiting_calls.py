"""Calls that wait for an instance or a run slot: limits, and callers that leave."""

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from sless import clock, metrics
from sless.domain.operators import QueueDepth
from sless.proxy.wait_queue import WaitQueue
from tests.proxykit.fakes import NAMESPACE, revision_of, route_of
from tests.proxykit.plugin import Serve, UpstreamOf, serve, upstream_of
from tests.proxykit.server import SETTINGS, Front, until
from tests.proxykit.upstream import OK, Peer, logs_or

__all__ = ["serve", "upstream_of"]

PATH = f"/fn/{NAMESPACE}/f"
REQUESTS = {
    "without a body": b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n",
    "with its body": b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nab",
    "with a part of its body": b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\nab",
    "with a chunk of its body": b"POST %b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n",
}


def waiting(front: Front) -> int:
    return sum(live.waiting for live in front.plane.routes.live_routes())


def waits() -> float:
    """How many calls have waited for an instance and got one."""
    return metrics.REGISTRY.get_sample_value("sless_queue_wait_seconds_count") or 0.0


def counting(calls: list[str]) -> Callable[[Peer], None]:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        calls.append(first)
        peer.body(headers)
        peer.send(OK)

    return logs_or(handler)


@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS)
def test_a_waiting_call_is_dropped_when_its_caller_leaves(serve: Serve, upstream_of: UpstreamOf, sent: bytes) -> None:
    calls: list[str] = []
    before = waits()
    upstream = upstream_of(counting(calls))
    front = serve(settings=replace(SETTINGS, instance_wait_sec=30))
    with front.connect() as client:
        client.send(sent % PATH.encode())
        until(lambda: waiting(front) == 1)
    until(lambda: waiting(front) == 0)
    until(lambda: [row.status for row in front.flush().invocations] == ["cancelled"])
    front.set_routes(route_of(addresses=[upstream.address]))
    assert front.call("/after").status == 200
    assert calls == ["GET /after HTTP/1.1"] and waits() == before


def test_a_call_queued_for_an_instance_is_dropped_when_its_caller_leaves(serve: Serve) -> None:
    calls: list[str] = []
    left = threading.Event()

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        calls.append(first)
        if "slow" in first:
            assert left.wait(30)
        peer.send(OK)

    front = serve(logs_or(handler), route={"revision": revision_of(concurrency=1)}, settings=replace(SETTINGS, instance_wait_sec=30))
    with front.connect() as slow:
        slow.send(b"GET %b/slow HTTP/1.1\r\nhost: x\r\n\r\n" % PATH.encode())
        until(lambda: calls)
        with front.connect() as client:
            client.send(b"GET %b/left HTTP/1.1\r\nhost: x\r\n\r\n" % PATH.encode())
            until(lambda: waiting(front) == 1)
        until(lambda: waiting(front) == 0)
        left.set()
        assert slow.reply().status == 200
    assert front.call("/after").status == 200, "the slot of the call that was cancelled is free"
    assert [first.split()[1] for first in calls] == ["/slow", "/after"]


def test_a_body_read_while_its_call_waits_arrives_whole(serve: Serve, upstream_of: UpstreamOf) -> None:
    bodies: list[bytes] = []
    before = waits()

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        bodies.append(peer.body(headers))
        peer.send(OK)

    upstream = upstream_of(logs_or(handler))
    front = serve(settings=replace(SETTINGS, instance_wait_sec=30))
    body = bytes(range(256)) * 4096
    with front.connect() as client:
        client.send(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (PATH.encode(), len(body)) + body[:1000])
        until(lambda: waiting(front) == 1)
        client.send(body[1000:600_000])
        front.set_routes(route_of(addresses=[upstream.address]))
        client.send(body[600_000:])
        assert client.reply().status == 200
    assert bodies == [body] and waits() == before + 1


def test_a_call_waiting_for_a_run_slot_is_dropped_when_its_caller_leaves(serve: Serve) -> None:
    front = serve(route={"wants_instances": False}, settings=replace(SETTINGS, max_runs=1, instance_wait_sec=30))
    with front.connect() as first:
        first.send(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % PATH.encode())
        until(lambda: len(front.fakes.backend.started) == 1)
        with front.connect() as second:
            second.send(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % PATH.encode())
        until(lambda: [row.status for row in front.flush().invocations] == ["cancelled"])
    until(lambda: len(front.flush().invocations) == 2)
    assert len(front.fakes.backend.started) == 1


@pytest.mark.parametrize("instances", [True, False], ids=["for an instance", "for a run slot"])
def test_the_depth_of_the_queue_counts_waiting_calls(serve: Serve, instances: bool) -> None:
    front = serve(route={"wants_instances": instances}, settings=replace(SETTINGS, max_runs=1, instance_wait_sec=30))
    depth = front.plane.waiting.depth
    assert depth() == QueueDepth(queue="calls", waiting=0, due_at=None)
    with ExitStack() as stack:
        if not instances:
            stack.enter_context(front.connect()).send(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % PATH.encode())
            until(lambda: len(front.fakes.backend.started) == 1)
        second = stack.enter_context(front.connect())
        began = []
        with front.connect() as first:
            for number, client in enumerate((first, second), 1):
                client.send(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % PATH.encode())
                until(lambda: depth().waiting == number)  # noqa: B023 - called at once
                began.append(clock.now())
            since = depth().due_at
            assert since is not None and began[0] - timedelta(seconds=30) < since <= began[0], "the first one"
        until(lambda: depth().waiting == 1)
        since = depth().due_at
        assert since is not None and began[0] <= since <= began[1], "the second one"
    until(lambda: depth().waiting == 0)


class TestBounds:
    """A call over a limit fails at once; each call that stops waiting makes room for another."""

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ({"per_workload": 2, "in_all": 9}, '2 calls of function "f" are waiting already'),
            ({"per_workload": 9, "in_all": 2}, "2 calls of all functions and services are waiting already"),
        ],
        ids=["of a workload", "of the process"],
    )
    @pytest.mark.parametrize("instances", [True, False])
    def test_a_call_over_a_limit_is_overloaded(self, serve: Serve, bounds: dict[str, int], message: str, instances: bool) -> None:
        queue = WaitQueue(**bounds)
        settings = replace(SETTINGS, max_runs=1, instance_wait_sec=30)
        front = serve(route={"wants_instances": instances}, settings=settings, waiting=queue)
        with ExitStack() as stack:
            clients = [stack.enter_context(front.connect()) for _ in range(2 if instances else 3)]
            for client in clients:
                client.send(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % PATH.encode())
            until(lambda: queue.total == 2)
            refused = front.call()
            error = json.loads(refused.body)
            assert (refused.status, error["code"], refused.header("x-sless-error")) == (429, "overloaded", "overloaded")
            assert (error["error"], refused.header("retry-after")) == (message, "5")
            text = metrics.exposition().decode()
            assert "sless_waiting_calls 2.0" in text and "sless_overloaded_calls_total{limit=" in text
        until(lambda: queue.total == 0)

    def test_other_workloads_are_not_affected(self, serve: Serve, upstream_of: UpstreamOf) -> None:
        upstream = upstream_of(counting([]))
        queue = WaitQueue(per_workload=1)
        front = serve(settings=replace(SETTINGS, instance_wait_sec=30), waiting=queue)
        front.set_routes(route_of(), route_of("g", addresses=[upstream.address]), route_of("h"))
        with front.connect() as first, front.connect() as second:
            first.send(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % PATH.encode())
            second.send(b"GET /fn/%b/h HTTP/1.1\r\nhost: x\r\n\r\n" % NAMESPACE.encode())
            until(lambda: queue.total == 2)
            assert front.call().status == 429
            assert front.call(name="g").status == 200
