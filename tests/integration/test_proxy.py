"""The proxy over real sockets on the fast path and the slow path: contract §5."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest

from sless.config import Settings
from sless.domain.messages import MessageCall
from tests.proxykit.fakes import NAMESPACE, revision_of
from tests.proxykit.plugin import Serve, serve, upstream_of
from tests.proxykit.server import SETTINGS, Reply, until
from tests.proxykit.upstream import OK, Peer, answering, logs_or, path_of

__all__ = ["serve", "upstream_of"]
PATH = f"/fn/{NAMESPACE}/f"


class Seen:
    """A handler that records its requests."""

    def __init__(self, answer: bytes = OK) -> None:
        self.requests: list[tuple[str, list[tuple[str, str]], bytes]] = []
        self._answer = answer

    def __call__(self, peer: Peer) -> None:
        def handle(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
            self.requests.append((first, headers, peer.body(headers)))
            peer.send(self._answer)

        logs_or(handle)(peer)

    def headers(self, name: str) -> list[str]:
        return [value for key, value in self.requests[-1][1] if key == name]


# --- what reaches the instance -----------------------------------------------------------------------------------------------------------


def test_a_call_is_answered_and_recorded(serve: Serve) -> None:
    front = serve(answering())
    for _ in range(3):
        reply = front.call("/a/b?x=1")
        assert (reply.status, reply.body) == (200, b"ok")
    row = front.flush().invocations[-1]
    assert (row.status, row.http_status, row.path, row.version) == ("succeeded", 200, f"{PATH}/a/b", 3)
    assert (row.id, row.response_bytes, row.trigger) == (reply.header("x-request-id"), 2, "http")
    assert sum(stats.calls for stats in front.fakes.history.stats) == 3


def test_path_and_query_arrive_byte_for_byte(serve: Serve) -> None:
    seen = Seen()
    front = serve(seen)
    front.call("/")
    for target in ("/a%2Fb//c;d=%20?q=%2F&q=b+c&&=x", "/%C3%BC?%", "/?", "?a=1", "", "/a?b?c"):
        front.call(target)
        wanted = target if target.startswith("/") else f"/{target}"
        assert path_of(seen.requests[-1][0]) == (wanted if wanted != "/?" else "/")
    assert seen.headers("x-sless-full-path") == [f"{PATH}/a"]


def test_repeated_headers_and_cookies_keep_their_order(serve: Serve) -> None:
    seen = Seen()
    front = serve(seen)
    for _ in range(2):
        front.call(head="x-a: 1\r\ncookie: b=2\r\nx-a: 2\r\ncookie: a=1\r\nX-Odd:  v\r\n")
        assert seen.headers("x-a") == ["1", "2"]
        assert seen.headers("cookie") == ["b=2", "a=1"]
        assert seen.headers("x-odd") == ["v"]


def test_hop_by_hop_and_platform_headers_are_removed(serve: Serve) -> None:
    seen = Seen()
    front = serve(seen)
    for _ in range(2):
        front.call(
            head="connection: keep-alive, X-Named\r\nx-named: 1\r\nkeep-alive: 5\r\nte: trailers\r\nx_under: 1\r\nx-sless-key: k\r\n"
            "x-sless-client-ip: 9.9.9.9\r\nproxy-authorization: p\r\nx-forwarded-for: 8.8.8.8\r\nx-forwarded-host: evil\r\n"
            "forwarded: for=1\r\n"
        )
        names = [name for name, _ in seen.requests[-1][1]]
        for name in ("connection", "x-named", "keep-alive", "te", "x_under", "x-sless-key", "proxy-authorization", "forwarded"):
            assert name not in names, name
        assert seen.headers("x-sless-client-ip") == ["127.0.0.1"]
        assert seen.headers("x-forwarded-for") == ["127.0.0.1"]
        assert seen.headers("x-forwarded-host") == ["sless.test"]
        assert seen.headers("x-forwarded-proto") == ["http"]
        assert seen.headers("host") == ["sless.test"]
        assert seen.headers("x-sless-trigger") == ["http"]
        assert seen.headers("x-sless-timeout-ms") == ["30000"]


def test_forwarded_headers_of_a_trusted_proxy_are_used(serve: Serve) -> None:
    seen = Seen()
    front = serve(seen, settings=replace(SETTINGS, trusted_proxies=("127.0.0.0/8", "10.0.0.1")))
    for _ in range(2):
        front.call(head="x-forwarded-for: 6.6.6.6, 7.7.7.7, 10.0.0.1\r\nx-forwarded-proto: https\r\nx-forwarded-host: shop.test\r\n")
        assert seen.headers("x-forwarded-for") == ["6.6.6.6, 7.7.7.7, 10.0.0.1, 127.0.0.1"]
        assert seen.headers("x-sless-client-ip") == ["7.7.7.7"]
        assert seen.headers("x-forwarded-proto") == ["https"]
        assert seen.headers("x-forwarded-host") == ["shop.test"]


def test_a_valid_request_id_is_kept(serve: Serve) -> None:
    seen = Seen()
    front = serve(seen)
    for _ in range(2):
        assert front.call(head="x-request-id: abc-1\r\n").header("x-request-id") == "abc-1"
        assert seen.headers("x-request-id") == ["abc-1"]
        own = front.call(head="x-request-id: not valid\r\n").header("x-request-id")
        assert seen.headers("x-request-id") == [own] == seen.headers("x-sless-invocation-id")
    assert [row.request_id for row in front.flush().invocations][::2] == ["abc-1", "abc-1"]


@pytest.mark.parametrize("size", [0, 1, 5000, 300_000])
def test_bodies_arrive_whole(serve: Serve, size: int) -> None:
    seen = Seen()
    front = serve(seen)
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    for _ in range(2):
        front.call(method="POST", body=body)
        assert seen.requests[-1][2] == body
        assert seen.headers("content-length") == [str(size)]
    assert front.flush().invocations[-1].request_bytes == size


def test_a_chunked_request_is_streamed(serve: Serve) -> None:
    first_chunk_arrived = threading.Event()

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        assert ("transfer-encoding", "chunked") in headers
        assert peer.exactly(8) == b"3\r\nabc\r\n"
        first_chunk_arrived.set()
        assert peer.body(headers) == b"defg"
        peer.send(OK)

    front = serve(logs_or(handler))
    with front.connect() as client:
        client.send(f"POST {PATH} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n".encode())
        assert first_chunk_arrived.wait(30)
        client.send(b"4\r\ndefg\r\n0\r\n\r\n")
        assert client.reply().body == b"ok"


def test_expect_100_continue_is_answered_before_the_body_is_sent(serve: Serve) -> None:
    seen = Seen()
    front = serve(seen)
    with front.connect() as client:
        client.send(f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n".encode())
        assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        client.send(b"abc")
        assert client.reply().body == b"ok"
    assert seen.requests[-1][2] == b"abc" and not seen.headers("expect")
    with front.connect() as client:
        client.send(f"POST /fn/{NAMESPACE}/nope HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n".encode())
        assert client.reply().status == 404


# --- what reaches the caller -------------------------------------------------------------------------------------------------------------


def test_response_headers_pass_except_hop_by_hop_and_forged_ones(serve: Serve) -> None:
    answer = (
        b"HTTP/1.1 302 Found\r\nSet-Cookie: b=2\r\nLocation: /x\r\nset-cookie: a=1\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
        b"x_u: 1\r\nX-Sless-Error: forged\r\nX-Sless-Function-Error: 1\r\nX-Request-Id: other\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: 2\r\n\r\n\x1f\x8b"
    )
    front = serve(answering(answer))
    for _ in range(2):
        reply = front.call()
        assert (reply.status, reply.body) == (302, b"\x1f\x8b")
        names = [name for name, _ in reply.headers]
        assert [value for name, value in reply.headers if name == "set-cookie"] == ["b=2", "a=1"]
        assert not {"connection", "x-hop", "x_u", "x-sless-error"} & set(names)
        assert reply.header("x-sless-function-error") == "1" and names.count("x-request-id") == 1
        assert reply.header("x-request-id") != "other" and reply.header("content-encoding") == "gzip"


@pytest.mark.parametrize(
    ("status", "fault", "shown"), [(502, "bad_result", "bad_result"), (400, "invalid_json", "invalid_json"), (500, "x", None)]
)
def test_runtime_faults_become_errors(serve: Serve, status: int, fault: str, shown: str | None) -> None:
    answer = (
        f"HTTP/1.1 {status} X\r\nX-Sless-Fault: {fault}\r\nX-Sless-Error-Message: bad%20%C3%BC\r\ncontent-length: 0\r\n\r\n".encode()
    )  # fmt: skip
    front = serve(answering(answer))
    for _ in range(2):
        reply = front.call()
        assert (reply.status, reply.header("x-sless-error")) == (status, shown)
        assert reply.header("x-sless-fault") is None and reply.header("x-sless-error-message") is None
    row = front.flush().invocations[-1]
    assert (row.error, row.status) == ("bad ü", "failed")


@pytest.mark.parametrize("framing", ["length", "chunked", "eof"])
def test_response_bodies_arrive_whole(serve: Serve, framing: str) -> None:
    body = bytes(range(256)) * 2000

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        match framing:
            case "length":
                peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            case "chunked":
                peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                for at in range(0, len(body), 77_777):
                    piece = body[at : at + 77_777]
                    peer.send(b"%x;ext=1\r\n%b\r\n" % (len(piece), piece))
                peer.send(b"0\r\ntrailer: 1\r\n\r\n")
            case "eof":
                peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + body)
                raise EOFError

    front = serve(logs_or(handler))
    for _ in range(3):
        assert front.call().body == body
    assert front.flush().invocations[-1].response_bytes == len(body)


def test_the_first_byte_is_not_delayed(serve: Serve) -> None:
    release = threading.Event()

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        if first.startswith("GET /warm"):
            peer.send(b"0\r\n\r\n")
            return
        peer.send(b"9\r\ndata: 1\n\n\r\n")
        assert release.wait(30)
        peer.send(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    front = serve(logs_or(handler))
    front.call("/warm")
    with front.connect() as client:
        client.send(f"GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        status, headers = client.head()
        assert (status, dict(headers)["transfer-encoding"]) == (200, "chunked")
        assert client.exactly(14) == b"9\r\ndata: 1\n\n\r\n"
        release.set()
        assert client.exactly(14) == b"9\r\ndata: 2\n\n\r\n"


def test_head_has_no_body_and_keeps_both_connections_open(serve: Serve) -> None:
    peers: list[Peer] = []

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peers.append(peer)
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n" + (b"" if first.startswith("HEAD") else b"hello"))

    front = serve(logs_or(handler))
    with front.connect() as client:
        for _ in range(3):
            client.send(f"HEAD {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            reply = client.reply(head_only=True)
            assert (reply.status, reply.header("content-length")) == (200, "5")
            client.send(f"GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            assert client.reply().body == b"hello"
    assert len(peers) == 6 and set(peers) == {peers[0]}, "all calls use one connection to the instance"


def test_1xx_responses_are_ignored(serve: Serve) -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + OK
    front = serve(answering(answer))
    for _ in range(2):
        reply = front.call()
        assert (reply.status, reply.body, reply.header("link")) == (200, b"ok", None)


def test_204_and_304_have_no_body(serve: Serve) -> None:
    for status in (b"204 No Content", b"304 Not Modified"):
        front = serve(answering(b"HTTP/1.1 %b\r\netag: 1\r\n\r\n" % status))
        with front.connect() as client:
            for _ in range(2):
                client.send(f"GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
                status_code, headers = client.head()
                assert str(status_code).encode() == status[:3]
                assert "transfer-encoding" not in dict(headers)


def test_pipelined_calls_are_answered_in_order(serve: Serve) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        number = path_of(first)[1:]
        if number == "1":
            time.sleep(0.2)
        body = f"{number}:{peer.body(headers).decode()}".encode()
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    front = serve(logs_or(handler))
    front.call("/warm")
    with front.connect() as client:
        wire = b"".join(
            f"POST {PATH}/{number} HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nb{number:02}".encode() for number in range(1, 12)
        )
        client.send(wire)
        assert [client.reply().body for _ in range(11)] == [f"{number}:b{number:02}".encode() for number in range(1, 12)]


@pytest.mark.parametrize("answer", [OK, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"])
def test_http_1_0_gets_no_chunks_and_the_connection_closes(serve: Serve, answer: bytes) -> None:
    front = serve(answering(answer))
    reply = front.raw(f"GET {PATH} HTTP/1.0\r\n\r\n".encode())
    head, _, body = reply.partition(b"\r\n\r\n")
    assert body == b"ok" and b"chunked" not in head and b"connection: close" in head


def test_connection_close_is_honoured(serve: Serve) -> None:
    front = serve(answering())
    for _ in range(2):
        reply = front.raw(f"GET {PATH} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        assert reply.endswith(b"\r\n\r\nok") and b"connection: close" in reply


def test_a_response_before_the_end_of_the_body_closes_the_connection(serve: Serve) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        assert first.startswith(("POST /early", "POST /late")), first
        if "late" in first:
            peer.body(headers)
        peer.send(OK)

    front = serve(logs_or(handler))
    with front.connect() as client:
        for _ in range(3):
            client.send(f"POST {PATH}/early HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n".encode() + b"x" * 70_000)
            assert client.reply().status == 200
            client.send(b"x" * 30_000)
            assert front.call("/late", method="POST", body=b"y").status == 200


# --- what goes wrong ---------------------------------------------------------------------------------------------------------------------


def test_a_caller_that_leaves_cancels_its_call(serve: Serve) -> None:
    began, left = threading.Event(), threading.Event()

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        if "warm" in first:
            peer.send(OK)
            return
        began.set()
        if peer.wait_for_close():
            left.set()

    front = serve(logs_or(handler))
    front.call("/warm")
    with front.connect() as client:
        client.send(f"GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert began.wait(30)
    assert left.wait(30)
    until(lambda: any(row.status == "cancelled" for row in front.flush().invocations))
    assert front.call("/warm").status == 200


def test_a_caller_that_leaves_while_sending_its_body_cancels_its_call(serve: Serve) -> None:
    left = threading.Event()

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        if peer.wait_for_close():
            left.set()

    front = serve(logs_or(handler))
    with front.connect() as client:
        client.send(f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 300000\r\n\r\n".encode() + b"x" * 100_000)
        until(lambda: any(instance.calls for instance in front.plane.routes.instances()))
    assert left.wait(30)
    until(lambda: [row.status for row in front.flush().invocations] == ["cancelled"])


def test_a_connection_closed_by_the_instance_is_not_reused(serve: Serve) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.body(headers)
        peer.send(OK)
        raise EOFError

    front = serve(logs_or(handler))
    for _ in range(20):
        assert front.call(method="POST", body=b"x").status == 200
        time.sleep(0.003)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_request_is_never_sent_twice(serve: Serve, method: str) -> None:
    requests: list[str] = []

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.body(headers)
        if "warm" in first:
            peer.send(OK)
            return
        requests.append(first)
        raise EOFError

    front = serve(logs_or(handler))
    front.call("/warm")
    reply = front.call("/x", method=method, body=b"x" if method == "POST" else b"")
    assert (reply.status, reply.header("x-sless-error")) == (502, "function_broke_off")
    assert b"closed the connection before it answered" in reply.body
    assert len(requests) == 1
    until(lambda: front.flush().invocations[-1].status == "failed")


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("out of memory: used 140 of 128 MB", "out_of_memory"),
        ("function exited with code 3", "function_exited"),
        (None, "function_broke_off"),
    ],
)
def test_the_reason_from_the_backend_is_reported(serve: Serve, reason: str | None, code: str) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        raise EOFError

    front = serve(logs_or(handler))
    if reason:
        threading.Timer(0.1, lambda: front.fakes.backend.reasons.__setitem__("f-e0", reason)).start()
    reply = front.call()
    assert (reply.status, reply.header("x-sless-error")) == (502, code)
    assert reason is None or reason.encode() in reply.body


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 600 What\r\ncontent-length: 0\r\n\r\n",
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
)
def test_an_invalid_response_is_502(serve: Serve, answer: bytes) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.send(OK if "warm" in first else answer)

    front = serve(logs_or(handler))
    front.call("/warm")
    reply = front.call()
    assert (reply.status, reply.header("x-sless-error")) == (502, "function_broke_off")
    assert front.call("/warm").body == b"ok"


def test_an_extra_response_never_reaches_the_next_caller(serve: Serve) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        extra = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen" if "two" in first else b""
        peer.send(OK + extra)

    front = serve(logs_or(handler))
    front.call("/one")
    assert front.call("/two").body == b"ok"
    for _ in range(3):
        assert front.call("/one").body == b"ok"


@pytest.mark.parametrize("framing", [b"content-length: 10", b"transfer-encoding: chunked"])
def test_a_truncated_response_is_truncated_for_the_caller(serve: Serve, framing: bytes) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        if "warm" in first:
            peer.send(OK)
            return
        peer.send(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n5\r\nhello")
        raise EOFError

    front = serve(logs_or(handler))
    front.call("/warm")
    wire = front.raw(f"GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    assert not wire.endswith(b"0\r\n\r\n")
    assert wire == b"" or wire.startswith(b"HTTP/1.1 200")
    until(lambda: front.flush().invocations[-1].status == "failed")


SHORT_TIME = {"revision": revision_of(timeout_sec=1)}


def test_a_timeout_is_504(serve: Serve) -> None:
    gone = threading.Event()

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        if "warm" in first:
            peer.send(OK)
        elif peer.wait_for_close():
            gone.set()

    front = serve(logs_or(handler), route=SHORT_TIME)
    front.call("/warm")
    started = time.monotonic()
    reply = front.call()
    assert (reply.status, reply.header("x-sless-error")) == (504, "timeout")
    assert 0.9 < time.monotonic() - started < 3
    assert gone.wait(30)
    assert front.fakes.backend.unresponsive == ["f-e0"]
    assert front.flush().invocations[-1].status == "timeout"
    assert front.call("/warm").status == 200


class Stopped:
    """An instance that does not respond, not even to health checks, until `resumed` is set."""

    def __init__(self) -> None:
        self.resumed = threading.Event()
        self.calls = 0

    def __call__(self, peer: Peer) -> None:
        while True:
            _, headers = peer.head()
            self.calls += ("x-sless-control", "1") not in headers
            assert self.resumed.wait(30)
            peer.send(OK)


def test_an_unresponsive_instance_gets_no_further_calls(serve: Serve) -> None:
    stopped = Stopped()
    front = serve(stopped, route=SHORT_TIME, settings=replace(SETTINGS, instance_wait_sec=20))
    stopped.resumed.set()
    front.call("/warm")
    stopped.resumed.clear()
    replies: list[Reply] = []
    other = threading.Thread(target=lambda: replies.append(front.call()))
    other.start()
    assert front.call().status == 504
    other.join(30)
    before = stopped.calls
    later = [threading.Thread(target=lambda: replies.append(front.call())) for _ in range(3)]
    for thread in later:
        thread.start()
    until(lambda: front.plane.routes.live_routes()[0].waiting == 3)
    time.sleep(1.2)  # longer than a call may take
    assert stopped.calls == before, "a call was sent to an instance that hangs"
    stopped.resumed.set()
    for thread in later:
        thread.join(30)
    assert [reply.status for reply in replies] == [504, 200, 200, 200]


def test_each_chunk_restarts_the_timeout_which_aborts_the_response(serve: Serve) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        if "warm" in first:
            peer.send(OK)
            return
        peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(4):
            time.sleep(0.6)  # more than the timeout in all
            peer.send(b"1\r\nx\r\n")
        peer.wait_for_close()

    front = serve(logs_or(handler), route={"revision": revision_of(timeout_sec=2)})
    front.call("/warm")
    wire = front.raw(f"GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    assert wire.count(b"1\r\nx\r\n") == 4 and not wire.endswith(b"0\r\n\r\n")
    assert front.flush().invocations[-1].status == "timeout"


@pytest.mark.parametrize(
    ("content_type", "seen"),
    [("text/plain", "text/plain"), ("text/plain\r\nx-sless-control: 1", None), ("a\0b", None), ("\u2713", None), ("", None)],
)
def test_a_message_content_type_cannot_inject_headers(serve: Serve, content_type: str, seen: str | None) -> None:
    """Publishers choose the content type, but must not be able to send sless's control headers to an instance."""
    heads: list[dict[str, str]] = []

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        heads.append(dict(headers))
        peer.body(headers)
        peer.send(OK)

    front = serve(logs_or(handler))
    call = MessageCall(
        workload_id="w-f", request_id="r1", content_type=content_type, body=b"x", shown="{}", attempt=1, last=False
    )  # fmt: skip
    assert front.plane.loop is not None
    outcome = asyncio.run_coroutine_threadsafe(front.plane.messages.deliver(call), front.plane.loop).result(30)
    assert outcome.ok and [head.get("content-type") for head in heads] == [seen]


def test_a_body_over_the_limit_is_413(serve: Serve) -> None:
    seen = Seen()
    front = serve(seen, settings=replace(SETTINGS, max_call_body_bytes=100_000))
    reply = front.call(method="POST", body=b"x" * 100_001)
    assert (reply.status, reply.header("x-sless-error")) == (413, "too_large")
    assert b"100000" in reply.body and b"request_bytes" in reply.body
    with front.connect() as client:
        client.send(
            f"POST {PATH} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode() + b"8000\r\n" + b"x" * 32768 + b"\r\n"
        )
        client.send((b"8000\r\n" + b"x" * 32768 + b"\r\n") * 4)
        assert client.reply().status == 413
    assert front.call(method="POST", body=b"x" * 100_000).status == 200


def test_a_small_body_limit_applies_on_the_fast_path(serve: Serve) -> None:
    front = serve(answering(), settings=Settings(instance_wait_sec=2, max_call_body_bytes=10))
    front.call()
    assert front.call(method="POST", body=b"x" * 11).status == 413
    assert front.call(method="POST", body=b"x" * 10).status == 200
