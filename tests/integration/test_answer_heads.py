"""Response heads, which tenants' code may write byte by byte: limits, and headers it cannot forge."""

import json

import pytest

from tests.proxykit.fakes import NAMESPACE
from tests.proxykit.plugin import Serve, serve, upstream_of
from tests.proxykit.upstream import OK, Peer, answering, logs_or

__all__ = ["serve", "upstream_of"]

PATH = f"/fn/{NAMESPACE}/f"
FIT = {"100 fields": [b"x: 1\r\n"] * 99, "just below 64 KB": [b"x: %b\r\n" % (b"v" * 1000)] * 64}
TOO_LARGE = {
    "101 fields": [b"x: 1\r\n"] * 100,
    "65 KB of fields": [b"x: %b\r\n" % (b"v" * 1020)] * 65,
    "one field of 70 KB": [b"x: %b\r\n" % (b"v" * 70_000)],
}


def answer_with(fields: list[bytes]) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n" + b"".join(fields) + b"\r\nok"


@pytest.mark.parametrize("fields", FIT.values(), ids=FIT)
def test_heads_within_the_limits_pass(serve: Serve, fields: list[bytes]) -> None:
    front = serve(answering(answer_with(fields)))
    for _ in range(2):
        assert front.call().body == b"ok"


@pytest.mark.parametrize("fields", TOO_LARGE.values(), ids=TOO_LARGE)
def test_heads_over_the_limits_are_502(serve: Serve, fields: list[bytes]) -> None:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.send(OK if "warm" in first else answer_with(fields))

    front = serve(logs_or(handler))
    front.call("/warm")
    reply = front.call()
    assert (reply.status, reply.header("x-sless-error")) == (502, "function_broke_off")
    assert "the head is over the limit of 65536 bytes or 100 fields" in json.loads(reply.body)["error"]


def test_an_endless_field_is_not_buffered(serve: Serve) -> None:
    """The instance tries to send 1 GB; the proxy closes the connection long before."""
    sent = 0

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        nonlocal sent
        if "warm" in first:
            peer.send(OK)
            return
        peer.send(b"HTTP/1.1 200 OK\r\nx: ")
        try:
            for _ in range(1024):
                peer.send(b"v" * 2**20)
                sent += 1
        except OSError:
            raise EOFError from None

    front = serve(logs_or(handler))
    front.call("/warm")
    assert front.call().status == 502
    assert sent < 100


def test_a_204_has_no_length(serve: Serve) -> None:
    front = serve(answering(b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n"))
    with front.connect() as client:
        for _ in range(3):
            client.send(f"GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            status, headers = client.head()
            assert (status, "content-length" in dict(headers)) == (204, False)


@pytest.mark.parametrize(("status", "fault"), [(502, "no_instances"), (502, "invalid_json"), (400, "bad_result"), (400, "unauthorized")])
def test_only_faults_that_the_runtime_may_report_become_sless_errors(serve: Serve, status: int, fault: str) -> None:
    front = serve(answering(f"HTTP/1.1 {status} X\r\nx-sless-fault: {fault}\r\ncontent-length: 0\r\n\r\n".encode()))
    for _ in range(2):
        reply = front.call()
        assert (reply.status, reply.header("x-sless-error")) == (status, None)
