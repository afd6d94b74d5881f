"""Connections that take more than their share: too many of one client, long pipelines, slow readers."""

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from sless.domain.durations import Durations
from sless.domain.ports import HttpPolicy
from tests.proxykit.fakes import NAMESPACE
from tests.proxykit.plugin import Serve, serve, upstream_of
from tests.proxykit.server import SETTINGS, Front, until
from tests.proxykit.upstream import Peer, answering, logs_or

__all__ = ["serve", "upstream_of"]
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


def status(front: Front) -> int:
    with front.connect() as client:
        client.send(HEALTH)
        return client.reply().status


def test_connections_of_one_client_are_limited() -> None:
    with Front(settings=replace(SETTINGS, max_connections_per_client=3)) as front:
        kept = [front.connect() for _ in range(3)]
        until(lambda: len(front.server_state.connections) == 3)
        with front.connect() as client:
            refused = client.reply()
        assert refused.status == 429 and json.loads(refused.body)["code"] == "too_many_requests"
        for client in kept:
            client.send(HEALTH)
            assert client.reply().status == 200, "existing connections stay open"
        kept.pop().sock.close()
        until(lambda: status(front) == 200)
        for client in kept:
            client.sock.close()


def test_a_trusted_proxy_may_have_more_connections() -> None:
    with Front(settings=replace(SETTINGS, max_connections_per_client=1, trusted_proxies=("127.0.0.1",))) as front:
        kept = [front.connect() for _ in range(4)]
        assert status(front) == 200
        for client in kept:
            client.sock.close()


@pytest.mark.parametrize("policy", [HttpPolicy(), HttpPolicy(auth="key")], ids=["open", "key"])
def test_900_pipelined_requests_are_cut_off_and_the_first_ones_answered(serve: Serve, policy: HttpPolicy) -> None:
    front = serve(answering(), route={"http": policy})
    with front.connect() as client:
        client.send(f"GET /fn/{NAMESPACE}/f HTTP/1.1\r\nhost: x\r\n\r\n".encode() * 900)
        answers = client.rest().split(b"HTTP/1.1 ")[1:]
    assert 100 <= len(answers) <= 110, "those of a full pipeline and the refusal; more if some requests arrived after the first answers"
    assert answers[-1].startswith(b"429") and b"wait on this connection" in answers[-1]
    assert {answer[:3] for answer in answers[:-1]} == {b"200" if policy.auth == "none" else b"401"}
    assert status(front) == 200


def test_a_caller_that_does_not_read_is_cut_off(serve: Serve) -> None:
    def endless(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            peer.send(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")

    front = serve(logs_or(endless), durations=Durations(write_sec=0.3))
    with front.connect() as client:
        client.send(f"GET /fn/{NAMESPACE}/f HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        until(lambda: front.server_state.connections)
        until(lambda: not front.server_state.connections)
    until(lambda: front.flush().invocations)
    assert [row.status for row in front.fakes.history.invocations] == ["cancelled"]


def test_a_slow_but_steady_reader_is_not_cut_off(serve: Serve) -> None:
    """Each pause is much shorter than the limit, all of them together are longer."""
    piece, pieces = 2**19, 64
    size = piece * pieces

    def large(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)

    front = serve(logs_or(large), durations=Durations(write_sec=0.8))
    with front.connect() as client:
        client.send(f"GET /fn/{NAMESPACE}/f HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert client.head()[0] == 200
        for _ in range(pieces):
            assert len(client.exactly(piece)) == piece
            time.sleep(0.03)


def test_the_limit_of_open_files_is_raised() -> None:
    code = (
        "import resource; from sless.server.serve import raise_descriptor_limit as raised\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))\n"
        "assert raised() == hard and resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
