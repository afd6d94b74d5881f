"""Malformed and hostile HTTP from clients: contract §3 limits, design §4."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sless.domain.durations import Durations
from tests.proxykit.fakes import NAMESPACE, route_of
from tests.proxykit.server import Client, Front
from tests.proxykit.upstream import Peer, Upstream, logs_or

PATH = f"/fn/{NAMESPACE}/f"


def echo(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
    body = peer.body(headers)
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


@pytest.fixture(scope="module", params=["fast", "slow"])
def front(request: pytest.FixtureRequest) -> Iterator[Front]:
    with started(request.param) as front:
        yield front


@pytest.fixture(scope="module", params=["fast", "slow"])
def hurried(request: pytest.FixtureRequest) -> Iterator[Front]:
    """With short limits."""
    with started(request.param, durations=Durations(head_sec=0.5, body_sec=3)) as front:
        yield front


@contextmanager
def started(path: str, **changes: Any) -> Iterator[Front]:
    upstream = Upstream(logs_or(echo))
    with Front(route_of(addresses=[upstream.address]), fast_path=path == "fast", **changes) as front:
        front.call()
        yield front
    upstream.close()


def fields(count: int, size: int = 1) -> str:
    return "".join(f"x-{number}: {'v' * size}\r\n" for number in range(count))


GET = f"GET {PATH} HTTP/1.1\r\n"
POST = f"POST {PATH} HTTP/1.1\r\n"
HOST = "host: x\r\n"
REFUSED = {
    "length and chunks": (400, POST + HOST + "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunks and length": (400, POST + HOST + "transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n"),
    "two lengths": (400, POST + HOST + "content-length: 5\r\ncontent-length: 6\r\n\r\nhello"),
    "the same length twice": (400, POST + HOST + "content-length: 5\r\ncontent-length: 5\r\n\r\nhello"),
    "length with a sign": (400, POST + HOST + "content-length: +5\r\n\r\nhello"),
    "length too long for a number": (400, POST + HOST + f"content-length: {'9' * 40}\r\n\r\nhello"),
    "chunk size with a sign": (400, POST + HOST + "transfer-encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"),
    "unknown transfer coding": (501, POST + HOST + "transfer-encoding: gzip\r\n\r\n"),
    "two transfer codings": (501, POST + HOST + "transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "chunks in HTTP/1.0": (400, f"POST {PATH} HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    "no host": (400, GET + "\r\n"),
    "two hosts": (400, GET + HOST + "host: y\r\n\r\n"),
    "two hosts in HTTP/1.0": (400, f"GET {PATH} HTTP/1.0\r\n" + HOST + HOST + "\r\n"),
    "two Authorization headers": (400, GET + HOST + "authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"),
    "bare LF": (400, GET.replace("\r", "") + "host: x\n\n"),
    "bare LF between fields": (400, GET + "host: x\nx-a: 1\r\n\r\n"),
    "bare CR in a field": (400, GET + HOST + "x-a: 1\rx-b: 2\r\n\r\n"),
    "folded field": (400, GET + HOST + "x-a: 1\r\n  2\r\n\r\n"),
    "space before the colon": (400, GET + HOST + "x-a : 1\r\n\r\n"),
    "no colon": (400, GET + HOST + "x-a\r\n\r\n"),
    "NUL in a field": (400, GET + HOST + "x-a: \0\r\n\r\n"),
    "empty field name": (400, GET + HOST + ": 1\r\n\r\n"),
    "raw UTF-8 path": (400, f"GET {PATH}/ü HTTP/1.1\r\n{HOST}\r\n"),
    "space in the path": (400, f"GET {PATH}/a b HTTP/1.1\r\n{HOST}\r\n"),
    "unknown method": (400, f"STEAL {PATH} HTTP/1.1\r\n{HOST}\r\n"),
    "HTTP/2 preface": (400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/2.0 named": (400, f"GET {PATH} HTTP/2.0\r\n{HOST}\r\n"),
    "HTTP/0.9": (400, f"GET {PATH}\r\n\r\n"),
    "TLS hello": (400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "CONNECT": (405, "CONNECT x:443 HTTP/1.1\r\nhost: x:443\r\n\r\n"),
    "101 fields": (431, GET + HOST + fields(100) + "\r\n"),
    "65 KB of fields": (431, GET + HOST + fields(65, 1020) + "\r\n"),
    "a 70 KB field": (431, GET + HOST + f"x: {'v' * 70_000}\r\n\r\n"),
    "17 KB URL": (414, f"GET {PATH}/{'a' * 17 * 1024} HTTP/1.1\r\n{HOST}\r\n"),
    "17 KB query": (414, f"GET {PATH}?{'a' * 17 * 1024} HTTP/1.1\r\n{HOST}\r\n"),
    "dot segments": (400, f"GET {PATH}/../g HTTP/1.1\r\n{HOST}connection: close\r\n\r\n"),
    "encoded dot segments": (400, f"GET {PATH}/%2e%2E/g HTTP/1.1\r\n{HOST}connection: close\r\n\r\n"),
    "dot segment behind an encoded slash": (400, f"GET {PATH}/a%2f.. HTTP/1.1\r\n{HOST}connection: close\r\n\r\n"),
    "one dot": (400, f"GET {PATH}/. HTTP/1.1\r\n{HOST}connection: close\r\n\r\n"),
    "websocket": (501, GET + HOST + "connection: Upgrade, close\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\r\n"),
}


@pytest.mark.parametrize(("status", "wire"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_requests_are_rejected_with_a_reason(front: Front, status: int, wire: str) -> None:
    answer = front.raw(wire.encode("utf-8" if "ü" in wire else "latin-1"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:300]
    error = json.loads(body)
    assert set(error) == {"error", "code", "details", "request_id"}
    assert b"x-request-id: " + error["request_id"].encode() in head
    assert b"connection: close" in head
    assert front.call("/", method="POST", body=b"alive").body == b"alive"


SERVED = {
    "100 fields": GET + HOST + fields(98) + "connection: close\r\n\r\n",
    "60 KB of fields": GET + HOST + fields(60, 1000) + "connection: close\r\n\r\n",
    "15 KB URL": f"GET {PATH}/{'a' * 15 * 1024} HTTP/1.1\r\n{HOST}connection: close\r\n\r\n",
    "HTTP/1.0 without host": f"GET {PATH} HTTP/1.0\r\n\r\n",
    "absolute URL": f"GET http://other{PATH} HTTP/1.1\r\n{HOST}connection: close\r\n\r\n",
    "empty lines before the request": "\r\n\r\n" + GET + HOST + "connection: close\r\n\r\n",
    "dots within segments": f"GET {PATH}/a..b/.c/... HTTP/1.1\r\n{HOST}connection: close\r\n\r\n",
    "mixed case": GET + "HoSt: x\r\nCONNECTION: Close\r\n\r\n",
}


@pytest.mark.parametrize("wire", SERVED.values(), ids=SERVED.keys())
def test_unusual_but_valid_requests_are_served(front: Front, wire: str) -> None:
    answer = front.raw(wire.encode())
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:300]


@pytest.mark.parametrize("upgrade", ["h2c", "TLS/1.2", "foo/2"])
@pytest.mark.parametrize("framing", ["content-length: 5\r\n\r\nhello", "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"])
def test_an_upgrade_offer_is_ignored_and_the_body_kept(front: Front, upgrade: str, framing: str) -> None:
    with front.connect() as client:
        for _ in range(2):
            offer = f"connection: Upgrade, HTTP2-Settings\r\nupgrade: {upgrade}\r\nhttp2-settings: AAMA\r\n"
            client.send(f"{POST}{HOST}{offer}{framing}".encode())
            reply = client.reply()
            assert (reply.status, reply.body) == (200, b"hello")


def test_an_upgrade_offer_in_pieces(front: Front) -> None:
    with front.connect() as client:
        for piece in (POST, HOST, "connection: upgrade\r\nupgr", "ade: h2c\r\ncontent-length: 5\r\n\r", "\nhel", "lo"):
            client.send(piece.encode())
            time.sleep(0.02)
        assert client.reply().body == b"hello"


def test_a_100_mb_header_is_rejected_early(front: Front) -> None:
    with front.connect() as client:
        client.send((GET + HOST + "x-big: ").encode())
        sent = 0
        try:
            for _ in range(1600):
                client.send(b"v" * 65536)
                sent += 65536
        except ConnectionError:
            pass
        assert b"HTTP/1.1 431 " in client.rest() or sent < 100 * 2**20
    assert front.call().status == 200


def test_the_error_reaches_a_client_that_keeps_sending(front: Front) -> None:
    with front.connect() as client:
        client.send((GET + HOST + f"x: {'v' * 70_000}").encode())
        time.sleep(0.3)
        for _ in range(20):
            client.send(b"v" * 50_000)
        assert client.rest().startswith(b"HTTP/1.1 431 ")


def test_garbage_after_a_valid_request_does_not_affect_its_response(front: Front) -> None:
    wire = front.raw((POST + HOST + "content-length: 4\r\n\r\ngood" + "GARBAGE\r\n\r\n").encode())
    assert wire.startswith(b"HTTP/1.1 200 ") and b"good" in wire
    assert b"HTTP/1.1 400 " in wire.partition(b"good")[2]


def test_a_smuggled_request_is_not_served(front: Front) -> None:
    inner = f"GET {PATH}/smuggled HTTP/1.1\r\n{HOST}\r\n"
    wire = front.raw((POST + HOST + f"content-length: {len(inner)}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{inner}").encode())
    assert wire.count(b"\r\n\r\n") == 1 and wire.startswith(b"HTTP/1.1 400 ")


def test_bytes_one_by_one(front: Front) -> None:
    with front.connect() as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in (POST + HOST + "content-length: 5\r\n\r\nhello").encode():
            client.send(bytes([byte]))
        assert client.reply().body == b"hello"


def test_two_and_a_half_requests_in_one_packet(front: Front) -> None:
    one = (POST + HOST + "content-length: 3\r\n\r\n").encode()
    with front.connect() as client:
        client.send(one + b"aaa" + one + b"bbb" + one[:20])
        assert [client.reply().body, client.reply().body] == [b"aaa", b"bbb"]
        client.send(one[20:] + b"ccc")
        assert client.reply().body == b"ccc"


class TestSlowHeads:
    """Request heads that arrive slowly, with a short limit."""

    def test_half_a_head_is_408(self, hurried: Front) -> None:
        answer = hurried.raw((GET + "host: ").encode())
        assert answer.startswith(b"HTTP/1.1 408 ") and b"request_timeout" in answer

    def test_a_head_that_trickles_is_408(self, hurried: Front) -> None:
        with hurried.connect() as client:
            client.send(GET.encode())
            client.sock.setblocking(False)
            answer = b""
            for _ in range(400):
                try:
                    client.send(b"x-a: 1\r\n")
                    answer += client.sock.recv(4096)
                except BlockingIOError:
                    pass
                except ConnectionError:
                    break
                if answer:
                    break
                time.sleep(0.05)
            assert answer.startswith(b"HTTP/1.1 408 ")

    def test_half_a_head_on_a_reused_connection_is_408(self, hurried: Front) -> None:
        with hurried.connect() as client:
            client.send((GET + HOST + "\r\n").encode())
            assert client.reply().status == 200
            client.send(b"GET /")
            assert client.reply().status == 408

    def test_a_silent_connection_is_closed(self, hurried: Front) -> None:
        assert hurried.raw(b"") == b""
        assert hurried.raw(b"\r\n\r\n") == b""

    def test_an_idle_connection_is_kept_much_longer(self, hurried: Front) -> None:
        with hurried.connect() as client:
            for _ in range(2):
                client.send((GET + HOST + "\r\n").encode())
                assert client.reply().status == 200
                time.sleep(0.8)

    def test_a_slow_body_is_not_a_slow_head(self, hurried: Front) -> None:
        with hurried.connect() as client:
            client.send((POST + HOST + "content-length: 5\r\n\r\nhe").encode())
            time.sleep(0.8)
            client.send(b"llo")
            assert client.reply().body == b"hello"


def test_an_idle_connection_is_closed_after_a_while(front: Front) -> None:
    client: Client
    with front.connect() as client:
        client.send((GET + HOST + "\r\n").encode())
        client.reply()
        for connection in list(front.server_state.connections):
            connection.timeout_keep_alive = 0.2
        client.send((GET + HOST + "\r\n").encode())
        client.reply()
        started = time.monotonic()
        client.sock.settimeout(20)
        for connection in list(front.server_state.connections):
            front.on_loop(connection._check_idle)
        time.sleep(0.3)
        for connection in list(front.server_state.connections):
            front.on_loop(connection._check_idle)
        assert client.rest() == b""
        assert time.monotonic() - started < 3


def test_a_body_that_never_comes_is_408(hurried: Front) -> None:
    with hurried.connect() as client:
        client.send((POST + HOST + "content-length: 5\r\n\r\nhe").encode())
        assert client.reply().status == 408
