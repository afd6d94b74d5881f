"""Requests that are not calls: the mounted Flask app, followed logs, health; and fetching log lines from instances."""

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from sless import metrics
from sless._version import __version__
from sless.asgi import FollowPage, FollowRequest
from sless.asgi.streams import MOST_PER_NAMESPACE, wants_events
from sless.errors import NotFound
from tests.proxykit.fakes import NAMESPACE, route_of
from tests.proxykit.plugin import UpstreamOf, upstream_of
from tests.proxykit.server import SETTINGS, Front, Reply, until
from tests.proxykit.upstream import OK, Peer

__all__ = ["upstream_of"]
AUTH = "authorization: Bearer good\r\n"
BASE = f"/v1/namespaces/{NAMESPACE}"


def ask(front: Front, wire: str, body: bytes = b"") -> Reply:
    with front.connect() as client:
        client.send(wire.encode() + body)
        return client.reply()


# --- Flask -------------------------------------------------------------------------------------------------------------------------------


def test_flask_gets_the_request() -> None:
    with Front() as front:
        wire = "POST /x%20y?q=1 HTTP/1.1\r\nhost: x\r\ncookie: b=2\r\ncookie: a=1\r\nx-a: real\r\nx_a: forged\r\ncontent-length: 5\r\n\r\n"
        reply = ask(front, wire, b"hello")
    text = dict(line.split("=", 1) for line in reply.body.decode().split("\n"))
    assert (text["REQUEST_METHOD"], text["PATH_INFO"], text["QUERY_STRING"], text["body"]) == ("POST", "/x y", "q=1", "5")
    assert (text["HTTP_COOKIE"], text["HTTP_X_A"]) == ("b=2; a=1", "real")
    assert text["HTTP_X_REQUEST_ID"] == reply.header("x-request-id")


def test_a_chunked_body_reaches_flask_whole() -> None:
    with Front() as front:
        reply = ask(front, "POST /x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
    assert b"body=7" in reply.body and b"CONTENT_LENGTH=7" in reply.body


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("path", "content_type", "limit"),
    [("/v1/x", "application/json", 2000), ("/v1/x/upload", "application/zip", 5000), ("/v1/x/upload", "multipart/form-data", 5000 + 65536)],
)
def test_bodies_over_their_limit_never_reach_flask(path: str, content_type: str, limit: int, chunked: bool) -> None:
    asked: list[int] = []

    def flask(environ: dict[str, object], start_response: object) -> list[bytes]:
        asked.append(1)
        start_response("200 OK", [])  # type: ignore[operator]
        return [b""]

    with Front(settings=replace(SETTINGS, max_json_bytes=2000, max_zip_bytes=5000), flask=flask) as front:
        for size, status in ((limit, 200), (limit + 1, 413)):
            body = b"x" * size
            length = "transfer-encoding: chunked" if chunked else f"content-length: {size}"
            if chunked:
                body = b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)
            reply = ask(front, f"POST {path} HTTP/1.1\r\nhost: x\r\n{AUTH}content-type: {content_type}\r\n{length}\r\n\r\n", body)
            assert reply.status == status
        assert json.loads(reply.body)["code"] == "too_large"
        assert ("max_zip_bytes" if "upload" in path else "max_json_bytes") in json.loads(reply.body)["error"]
    assert asked == [1]


def test_a_truncated_body_never_reaches_flask() -> None:
    asked: list[int] = []

    def flask(environ: dict[str, object], start_response: object) -> list[bytes]:
        asked.append(1)
        return [b""]

    with Front(flask=flask) as front:
        with front.connect() as client:
            client.send(b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf")
        time.sleep(0.2)
    assert asked == []


def test_an_exception_in_flask_is_a_json_500() -> None:
    def flask(environ: dict[str, object], start_response: object) -> list[bytes]:
        raise RuntimeError("boom")

    with Front(flask=flask) as front:
        reply = ask(front, "GET /x HTTP/1.1\r\nhost: x\r\nx-request-id: r-9\r\n\r\n")
    assert (reply.status, json.loads(reply.body)["code"], json.loads(reply.body)["request_id"]) == (500, "internal", "r-9")
    assert b"boom" not in reply.body


# --- streams -----------------------------------------------------------------------------------------------------------------------------


@dataclass
class Lines:
    """A follower that returns the given pages, then empty ones."""

    pages: list[FollowPage]
    after: int = 0
    asked: list[FollowRequest] = field(default_factory=list)

    def open(self, request: FollowRequest) -> "Lines":
        self.asked.append(request)
        if request.name == "nope":
            raise NotFound("function", "nope")
        return self

    def read(self) -> FollowPage:
        return self.pages.pop(0) if self.pages else FollowPage(lines=(), after=9)


def pages() -> list[FollowPage]:
    return [FollowPage(lines=("one", "two"), after=2), FollowPage(lines=(), after=2), FollowPage(lines=("three",), after=3, ended="ready")]


def test_follow_a_build_log_to_its_end() -> None:
    lines = Lines(pages())
    with Front(follow_build=lines.open) as front:
        reply = ask(front, f"GET {BASE}/functions/f/versions/3?follow=1 HTTP/1.1\r\nhost: x\r\n{AUTH}\r\n")
    assert (reply.status, reply.body, reply.header("content-type")) == (200, b"one\ntwo\nthree\n", "text/plain; charset=utf-8")
    assert (lines.asked[0].version, lines.asked[0].name, lines.asked[0].after) == (3, "f", None)


def test_follow_logs_as_server_sent_events() -> None:
    lines = Lines(pages())
    with Front(follow_logs=lines.open) as front:
        head = f"{AUTH}accept: text/event-stream\r\nlast-event-id: 7\r\n"
        reply = ask(front, f"GET {BASE}/services/s/logs?tail=5&follow=1 HTTP/1.1\r\nhost: x\r\n{head}\r\n")
    assert reply.header("content-type") == "text/event-stream; charset=utf-8"
    assert reply.body == b'data: one\n\nid: 2\ndata: two\n\nid: 3\ndata: three\n\nevent: end\ndata: {"state": "ready"}\n\n'
    assert (lines.asked[0].after, lines.asked[0].query, lines.asked[0].kind) == (7, {"tail": "5", "follow": "1"}, "service")


@pytest.mark.parametrize(
    ("accept", "events"),
    [
        (["text/event-stream"], True),
        (["Text/Event-Stream"], True),
        (["text/plain, text/event-stream;q=0.5"], True),
        (["text/plain", "text/event-stream"], True),
        (["text/event-stream; q=0.001"], True),
        (["text/event-stream;q=0"], False),
        (["text/event-stream; Q=0.000, text/plain"], False),
        (["*/*"], False),
        (["text/event-streams"], False),
        ([], False),
    ],
)
def test_accept_header_is_parsed(accept: list[str], events: bool) -> None:
    assert wants_events([(b"accept", value.encode()) for value in accept]) is events


def test_a_line_with_carriage_returns_is_one_event() -> None:
    lines = Lines([FollowPage(lines=("1%\r2%", "x\revent: end\rdata: {}"), after=2, ended="ready")])
    with Front(follow_logs=lines.open) as front:
        reply = ask(front, f"GET {BASE}/functions/f/logs?follow=1 HTTP/1.1\r\nhost: x\r\n{AUTH}accept: text/event-stream\r\n\r\n")
    assert reply.body == (
        b'data: 1%\ndata: 2%\n\nid: 2\ndata: x\ndata: event: end\ndata: data: {}\n\nevent: end\ndata: {"state": "ready"}\n\n'
    )


@pytest.mark.parametrize("cursor", ["\xb2", "9" * 19, "-1", "1e3", ""])
def test_an_invalid_cursor_is_ignored(cursor: str) -> None:
    lines = Lines(pages())
    with Front(follow_logs=lines.open) as front, front.connect() as client:
        client.send(f"GET {BASE}/functions/f/logs?follow=1 HTTP/1.1\r\nhost: x\r\n{AUTH}last-event-id: {cursor}\r\n\r\n".encode("latin-1"))
        assert client.reply().status == 200
    assert lines.asked[0].after is None


def test_streams_check_the_token_and_the_name() -> None:
    with Front(follow_logs=Lines([]).open) as front:
        assert ask(front, f"GET {BASE}/functions/f/logs?follow=1 HTTP/1.1\r\nhost: x\r\n\r\n").status == 401
        assert ask(front, f"GET /v1/namespaces/sless-x/functions/f/logs?follow=1 HTTP/1.1\r\nhost: x\r\n{AUTH}\r\n").status == 403
        assert ask(front, f"GET {BASE}/functions/nope/logs?follow=1 HTTP/1.1\r\nhost: x\r\n{AUTH}\r\n").status == 404
        assert b"PATH_INFO" in ask(front, f"GET {BASE}/functions/f/logs?follow=0 HTTP/1.1\r\nhost: x\r\n{AUTH}\r\n").body


def test_an_endless_stream_ends_when_its_caller_leaves_or_the_server_stops() -> None:
    lines = Lines([FollowPage(lines=("one",), after=1)])
    started = time.monotonic()
    with Front(follow_logs=lines.open) as front:
        wire = f"GET {BASE}/functions/f/logs?follow=1 HTTP/1.1\r\nhost: x\r\n{AUTH}\r\n".encode()
        with front.connect() as client:
            client.send(wire)
            client.until(b"one\n")
        until(lambda: not front.server_state.tasks)
        client = front.connect()
        lines.pages.append(FollowPage(lines=("two",), after=2))
        client.send(wire)
        client.until(b"two\n")
    assert client.rest().endswith(b"0\r\n\r\n")
    client.sock.close()
    assert time.monotonic() - started < 8


def test_followed_logs_per_namespace_are_limited() -> None:
    wire = f"GET {BASE}/functions/f/logs?follow=1 HTTP/1.1\r\nhost: x\r\n{AUTH}\r\n"
    with Front(follow_logs=Lines([]).open) as front, contextlib.ExitStack() as stack:
        followers = [stack.enter_context(front.connect()) for _ in range(MOST_PER_NAMESPACE)]
        for client in followers:
            client.send(wire.encode())
            client.until(b"\r\n\r\n")
        refused = ask(front, wire)
        assert (refused.status, json.loads(refused.body)["code"], refused.header("retry-after")) == (429, "too_many_requests", "5")
        assert f"at most {MOST_PER_NAMESPACE} logs" in json.loads(refused.body)["error"]
        followers[0].sock.close()
        until(lambda: len(front.server_state.tasks) < MOST_PER_NAMESPACE)
        again = stack.enter_context(front.connect())
        again.send(wire.encode())
        again.until(b" 200 ")


# --- health and metrics ------------------------------------------------------------------------------------------------------------------


def test_routes_are_read_before_control_loops_start():
    """The first ticks of all loops at once would delay them, and readiness."""
    loaded: list[bool] = []
    front = Front(route_of(), start=lambda: loaded.append(front.plane.routes.loaded))
    with front:
        assert loaded == [True]


def test_health_and_readiness() -> None:
    reasons: list[str | None] = [None]
    with Front(find_unready=lambda: reasons[0]) as front:
        for path in ("/healthz", "/health", "/readyz"):
            assert ask(front, f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").status == 200
        reasons[0] = "the database is away"
        reply = ask(front, "GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert reply.status == 503 and json.loads(reply.body)["reason"] == "the database is away"
        alive = ask(front, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (alive.status, json.loads(alive.body)) == (200, {"status": "ok", "version": __version__})


def test_calls_and_requests_are_counted(upstream_of: UpstreamOf) -> None:
    def value(name: str, **labels: str) -> float:
        return metrics.REGISTRY.get_sample_value(name, labels) or 0.0

    def counted() -> tuple[float, float, float]:
        return (
            value("sless_http_requests_total", part="fn", status="200"),
            value("sless_invocations_total", kind="function", trigger="http", status="succeeded"),
            value("sless_invocation_duration_seconds_count"),
        )

    def handler(peer: Peer) -> None:
        while True:
            peer.request()
            peer.send(OK)

    before = counted()
    with Front(route_of(addresses=[upstream_of(handler).address])) as front:
        for _ in range(5):
            assert front.call().status == 200
    assert [now - then for now, then in zip(counted(), before, strict=True)] == [5, 5, 5]
    assert b"sless_build_info{version=" in metrics.exposition()


# --- log lines ---------------------------------------------------------------------------------------------------------------------------


def test_log_lines_of_an_instance_are_fetched_once_each(upstream_of: UpstreamOf) -> None:
    ring: list[dict[str, object]] = []
    asked: list[str] = []
    lock = threading.Lock()

    def handler(peer: Peer) -> None:
        while True:
            first, headers, _ = peer.request()
            names = dict(headers)
            if names.get("x-sless-control") != "1":
                with lock:
                    seq = len(ring) + 1
                    ring.append({
                        "seq": seq, "time": "2026-01-31T09:26:53.589Z", "stream": "stdout", "id": names["x-sless-invocation-id"],
                        "text": f"line {seq}",
                    })  # fmt: skip
                peer.send(OK)
                continue
            asked.append(first)
            after = int(first.partition("after=")[2].partition(" ")[0])
            page = {"lines": ring[after:], "last": len(ring), "dropped": 0}
            body = json.dumps(page).encode()
            peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    with Front(route_of(addresses=[upstream_of(handler).address])) as front:
        assert asked == []
        ids = [front.call().header("x-request-id") for _ in range(3)]
        until(lambda: len(front.flush().lines) == 3)
        ids.append(front.call().header("x-request-id"))
        front.set_routes()
        until(lambda: len(front.flush().lines) == 4)
    lines = front.fakes.history.lines
    assert [(line.seq, line.invocation_id, line.text) for line in lines] == [(n + 1, ids[n], f"line {n + 1}") for n in range(4)]
    assert {line.source_id for line in lines} == {"f-e0"} and lines[0].at.isoformat() == "2026-01-31T09:26:53.589000+00:00"


def line_item(seq: int) -> dict[str, object]:
    return {"seq": seq, "time": "2026-01-31T09:26:53.589Z", "stream": "stdout", "id": "", "text": f"line {seq}"}


def endless(peer: Peer) -> None:
    """Sends an endless page, a byte now and then."""
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while True:
        time.sleep(0.1)
        peer.send(b" ")


def repeating(peer: Peer) -> None:
    """Sends the same full page every time."""
    body = json.dumps({"lines": [line_item(seq) for seq in range(1, 1001)], "last": 1000, "dropped": 0}).encode()
    peer.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


@pytest.mark.parametrize("answer_logs", [endless, repeating])
def test_a_bad_instance_does_not_delay_the_lines_of_others(upstream_of: UpstreamOf, answer_logs: Callable[[Peer], None]) -> None:
    asked = threading.Event()

    def bad(peer: Peer) -> None:
        while True:
            _, headers = peer.head()
            if ("x-sless-control", "1") in headers:
                asked.set()
                answer_logs(peer)
                return
            peer.send(OK)

    def good(peer: Peer) -> None:
        while True:
            _, headers = peer.head()
            if ("x-sless-control", "1") in headers:
                body = json.dumps({"lines": [line_item(7)], "last": 7, "dropped": 0}).encode()
                peer.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
                return
            peer.send(OK)

    with Front(route_of("bad", [upstream_of(bad).address]), route_of("good", [upstream_of(good).address])) as front:
        front.call(name="bad")
        assert asked.wait(30)
        front.call(name="good")
        until(lambda: any(line.source_id == "good-e0" for line in front.flush().lines))
        time.sleep(1)  # the repeating instance is asked a few more times, for 1,000 lines each
        assert len(front.flush().lines) <= 5_000
