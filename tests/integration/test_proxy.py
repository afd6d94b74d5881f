"""The proxy over real sockets: contract §5 from the caller's socket to the instance's."""

from collections.abc import Callable, Iterator

import pytest

from tests.proxykit.fakes import NAMESPACE, route_of
from tests.proxykit.server import Front
from tests.proxykit.upstream import Peer, Upstream, answering

UpstreamOf = Callable[[Callable[[Peer], None]], Upstream]


@pytest.fixture
def upstream_of() -> Iterator[UpstreamOf]:
    opened: list[Upstream] = []

    def make(handler: Callable[[Peer], None]) -> Upstream:
        opened.append(Upstream(handler))
        return opened[-1]

    yield make
    for upstream in opened:
        upstream.close()


def test_a_call_is_answered_and_recorded(upstream_of: UpstreamOf) -> None:
    upstream = upstream_of(answering())
    with Front(route_of(addresses=[upstream.address])) as front:
        reply = front.call("/a/b?x=1")
        assert (reply.status, reply.body) == (200, b"ok")
        history = front.flush()
    [row] = history.invocations
    assert (row.status, row.http_status, row.path, row.version) == ("succeeded", 200, f"/fn/{NAMESPACE}/f/a/b", 3)
    assert row.id == reply.header("x-request-id")
