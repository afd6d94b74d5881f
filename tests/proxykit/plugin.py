"""Fixtures for tests of the proxy; import them where they are used."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.proxykit.fakes import route_of
from tests.proxykit.server import Front
from tests.proxykit.upstream import Peer, Upstream

UpstreamOf = Callable[[Callable[[Peer], None]], Upstream]
Serve = Callable[..., Front]


@pytest.fixture
def upstream_of() -> Iterator[UpstreamOf]:
    """Creates upstreams that end with the test. A failure in a handler fails the test."""
    opened: list[Upstream] = []

    def make(handler: Callable[[Peer], None]) -> Upstream:
        opened.append(Upstream(handler))
        return opened[-1]

    yield make
    for upstream in opened:
        upstream.close()


@pytest.fixture(params=["fast", "slow"])
def serve(request: pytest.FixtureRequest, upstream_of: UpstreamOf) -> Iterator[Serve]:
    """Starts a server whose function "f" is served by handlers. Each test runs twice: with and without the fast path."""
    with contextlib.ExitStack() as stack:

        def start(*handlers: Callable[[Peer], None], route: dict[str, object] | None = None, **options: object) -> Front:
            addresses = [upstream_of(handler).address for handler in handlers]
            served = route_of(addresses=addresses, **(route or {}))  # type: ignore[arg-type]
            front = Front(served, fast_path=request.param == "fast", **options)  # type: ignore[arg-type]
            return stack.enter_context(front)

        yield start
