"""Connections that repeat a request, and instances that repeat an answer head: only the parsing is skipped the second time."""

import time
from dataclasses import replace

import pytest

from sless.proxy.known_answer import KnownAnswers
from tests.proxykit.fakes import NAMESPACE, revision_of, route_of
from tests.proxykit.plugin import Serve, serve, upstream_of
from tests.proxykit.server import Client, Reply, until
from tests.proxykit.upstream import OK, Peer, logs_or

__all__ = ["serve", "upstream_of"]
PATH = f"/fn/{NAMESPACE}/f"


def post(body: bytes, path: str = "/", extra: str = "") -> bytes:
    return f"POST {PATH}{path} HTTP/1.1\r\nhost: h\r\ncontent-length: {len(body)}\r\n{extra}\r\n".encode() + body


class Scripted:
    """An instance that echoes bodies, or sends the next answer of `script` in its pieces."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.script: list[list[bytes]] = []

    def __call__(self, peer: Peer) -> None:
        logs_or(self._answer)(peer)

    def _answer(self, peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        body = peer.body(headers)
        self.requests.append((first, dict(headers), body))
        if not self.script:
            peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nx-a: 1\r\n\r\n%b" % (len(body), body))
            return
        for piece in self.script.pop(0):
            peer.send(piece)
            time.sleep(0.02)  # so that each piece is a separate packet


@pytest.fixture
def instance() -> Scripted:
    return Scripted()


def ask(client: Client, data: bytes) -> Reply:
    client.send(data)
    return client.reply(head_only=data.startswith(b"HEAD"))


def test_repeated_requests_are_separate_calls(serve: Serve, instance: Scripted) -> None:
    front = serve(instance)
    with front.connect() as client:
        replies = [ask(client, post(b"body%d" % number)) for number in range(5)]
    assert [reply.body for reply in replies] == [b"body%d" % number for number in range(5)]
    assert [body for _, _, body in instance.requests] == [b"body%d" % number for number in range(5)]
    ids = [reply.header("x-request-id") for reply in replies]
    assert len(set(ids)) == 5
    assert [headers["x-request-id"] for _, headers, _ in instance.requests] == ids
    assert {row.id for row in front.flush().invocations} == set(ids)
    assert {row.request_bytes for row in front.flush().invocations} == {5}


def test_other_requests_between_repeated_ones(serve: Serve, instance: Scripted) -> None:
    front = serve(instance)
    with front.connect() as client:
        for data in (post(b"a"), post(b"b"), post(b"longer"), post(b"c", "/other"), post(b"a"), post(b"d", extra="x-b: 1\r\n"), post(b"a")):
            assert ask(client, data).body == data.rpartition(b"\r\n\r\n")[2]
        whole = post(b"xyz")
        assert ask(client, whole).body == b"xyz"
        # The same bytes again, split at any position; then twice in one packet.
        for at in (5, len(whole) - 3, len(whole) - 1):
            client.send(whole[:at])
            time.sleep(0.02)
            assert ask(client, whole[at:]).body == b"xyz"
        client.send(whole + whole)
        assert (client.reply().body, client.reply().body) == (b"xyz", b"xyz")
        assert ask(client, whole).body == b"xyz"
        closing = post(b"xyz", extra="connection: close\r\n")
        assert ask(client, closing).header("connection") == "close"
        assert client.rest() == b""
    paths = [first.split()[1] for first, _, _ in instance.requests]
    assert paths.count("/other") == 1 and len(paths) == 15


def test_a_repeated_request_follows_its_route(serve: Serve, instance: Scripted) -> None:
    front = serve(instance)
    with front.connect() as client:
        for _ in range(3):
            ask(client, post(b"a"))
        [route] = front.fakes.routes.find_snapshot(0).routes  # type: ignore[union-attr]
        front.fakes.routes.set(replace(route, revision=revision_of(timeout_sec=7)))
        front.plane.routes.wake()
        until(lambda: (ask(client, post(b"a")), instance.requests[-1][1]["x-sless-timeout-ms"] == "7000")[1])
        front.fakes.routes.set(route_of("g"))
        front.plane.routes.wake()
        until(lambda: ask(client, post(b"a")).status == 404)


def test_known_answer_heads_with_other_bodies(serve: Serve, instance: Scripted) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nX-Kept: a\r\nx-sless-secret: b\r\nconnection: x-hop\r\nx-hop: 1\r\n\r\n"
    instance.script = [[head + b"aaaa"], [head + b"bbbb"], [head, b"cc", b"cc"], [head[:30], head[30:] + b"dddd"], [head + b"eeee"]]
    front = serve(instance)
    with front.connect() as client:
        replies = [ask(client, post(b"q")) for _ in range(5)]
        assert [reply.body for reply in replies] == [b"aaaa", b"bbbb", b"cccc", b"dddd", b"eeee"]
        for reply in replies:
            names = [name for name, _ in reply.headers]
            assert names.count("x-kept") == names.count("content-length") == names.count("x-request-id") == 1
            assert not {"x-sless-secret", "x-hop", "connection"} & set(names)
        assert len({reply.header("x-request-id") for reply in replies}) == 5
        # Data beyond the announced length belongs to no answer.
        instance.script = [[head + b"ffff" + OK], [head + b"gggg"]]
        assert [ask(client, post(b"q")).body for _ in range(2)] == [b"ffff", b"gggg"]
        # The answer to a HEAD has no body, whatever its length.
        instance.script = [[head], [head + b"hhhh"]]
        assert ask(client, f"HEAD {PATH} HTTP/1.1\r\nhost: h\r\n\r\n".encode()).body == b""
        assert ask(client, post(b"q")).body == b"hhhh"


def test_known_answers_are_recorded_like_others(serve: Serve, instance: Scripted) -> None:
    fault = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 1\r\nx-sless-fault: bad_result\r\nx-sless-error-message: no%20good\r\n\r\nx"
    instance.script = [[fault], [fault], [b"HTTP/1.1 204 No Content\r\n\r\n"], [b"HTTP/1.1 204 No Content\r\n\r\n"], [fault]]
    front = serve(instance)
    with front.connect() as client:
        replies = [ask(client, post(b"q")) for _ in range(5)]
    assert [reply.status for reply in replies] == [502, 502, 204, 204, 502]
    assert [reply.header("x-sless-error") for reply in replies] == ["bad_result", "bad_result", None, None, "bad_result"]
    rows = front.flush().invocations
    assert [(row.status, row.http_status, row.error, row.response_bytes) for row in rows] == [
        ("failed", 502, "no good", 1), ("failed", 502, "no good", 1), ("succeeded", 204, None, 0), ("succeeded", 204, None, 0),
        ("failed", 502, "no good", 1),
    ]  # fmt: skip


def test_only_heads_with_one_length_are_known_and_not_too_many() -> None:
    known = KnownAnswers()
    for head, status in (
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", 200),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", 200),
        (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 5000 + b"\r\ncontent-length: 2\r\n\r\n", 200),
        (b"HTTP/1.1 200 OK\r\n\r\n", 200),
    ):
        pairs = [tuple(line.split(b": ")) for line in head.split(b"\r\n") if b": " in line]
        known.learn(head + b"ok", status, pairs)  # type: ignore[arg-type]
        assert known.find(head) is None and known.find(head[: head.find(b"\r\n\r\n") + 4]) is None
    for number in range(1000):
        known.learn(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: %d\r\n\r\nok" % number, 200, [(b"content-length", b"2")])
    assert known.find(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: 999\r\n\r\n") is not None
    assert known.find(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: 1\r\n\r\n") is None
