"""Many calls that fail at once cause one backend query per instance and do not delay other requests."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from tests.proxykit.fakes import NAMESPACE, revision_of
from tests.proxykit.plugin import Serve, serve, upstream_of
from tests.proxykit.server import SETTINGS, Front, until
from tests.proxykit.upstream import OK, Peer, logs_or

__all__ = ["serve", "upstream_of"]

CALLS = 60
GET = f"GET /fn/{NAMESPACE}/f HTTP/1.1\r\nhost: x\r\n\r\n".encode()


@pytest.fixture
def breaking(serve: Serve) -> Iterator[tuple[Front, threading.Event]]:
    """A server, and an event that makes its instance close the connections of all calls."""
    end = threading.Event()

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.body(headers)
        if "warm" in first:
            peer.send(OK)
            return
        assert end.wait(30)
        raise EOFError

    front = serve(logs_or(handler), route={"revision": revision_of(concurrency=CALLS)}, settings=replace(SETTINGS, instance_wait_sec=20))
    front.call("/warm")
    yield front, end
    end.set()
    front.fakes.backend.responsive.set()


def test_failing_calls_share_one_query_and_do_not_delay_others(breaking: tuple[Front, threading.Event]) -> None:
    front, end = breaking
    backend = front.fakes.backend
    backend.responsive.clear()
    backend.reasons["f-e0"] = "function exited with code 3"
    with ExitStack() as stack:
        clients = [stack.enter_context(front.connect()) for _ in range(CALLS)]
        for client in clients:
            client.send(GET)
        until(lambda: front.plane.routes.instances()[0].active == CALLS)
        end.set()
        until(lambda: backend.asked)
        with front.connect(timeout_sec=20) as other:
            other.send(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert other.reply().status == 200
            path = f"/v1/namespaces/{NAMESPACE}/functions/none/invoke"
            other.send(f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer good\r\n\r\n".encode())
            assert other.reply().status == 404, "the token is checked meanwhile"
        backend.responsive.set()
        replies = [client.reply() for client in clients]
    assert {(reply.status, reply.header("x-sless-error")) for reply in replies} == {(502, "function_exited")}
    assert {json.loads(reply.body)["error"] for reply in replies} == {f"function exited with code 3 ({CALLS} calls were running)"}
    assert backend.asked == ["f-e0"]


def test_an_instance_is_reported_once_for_many_timeouts(serve: Serve) -> None:
    hold = threading.Event()

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        if "warm" not in first:
            hold.wait(30)
        peer.send(OK)

    front = serve(logs_or(handler), route={"revision": revision_of(concurrency=CALLS, timeout_sec=1)})
    front.call("/warm")
    front.fakes.backend.responsive.clear()
    with ExitStack() as stack:
        clients = [stack.enter_context(front.connect()) for _ in range(20)]
        for client in clients:
            client.send(GET)
        until(lambda: front.plane.routes.instances()[0].active == len(clients))
        until(lambda: front.fakes.backend.unresponsive)
        until(lambda: not len(front.plane.sweep))
        front.fakes.backend.responsive.set()
        assert {client.reply().status for client in clients} == {504}
    assert front.fakes.backend.unresponsive == ["f-e0"], "one report for all calls that timed out at the same time"
    hold.set()
