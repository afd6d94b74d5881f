"""Reuse of connections to one instance, and when it must not happen."""

import asyncio
import time

import pytest

from sless.proxy.exchange import Exchange
from sless.proxy.live_endpoint import LiveEndpoint
from tests.proxykit.fakes import endpoint_of
from tests.proxykit.plugin import UpstreamOf, upstream_of
from tests.proxykit.upstream import OK, Peer

__all__ = ["upstream_of"]
REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


async def exchange_on(instance: LiveEndpoint) -> Exchange:
    connection = await instance.connection()
    exchange = Exchange(connection, 5)
    connection.begin(exchange, head_only=False)
    connection.write(REQUEST)
    await exchange.head()
    while await exchange.read():
        pass
    instance.give_back(connection)
    return exchange


def twice(peer: Peer) -> None:
    for _ in range(2):
        peer.request()
        peer.send(OK)


async def test_a_connection_is_reused(upstream_of: UpstreamOf) -> None:
    upstream = upstream_of(twice)
    instance = LiveEndpoint(endpoint_of(upstream.address), 5)
    for _ in range(2):
        await exchange_on(instance)
    assert upstream.connections == 1
    instance.retire()


async def test_a_close_the_loop_has_not_processed_is_noticed(upstream_of: UpstreamOf) -> None:
    def once(peer: Peer) -> None:
        peer.request()
        peer.send(OK)

    instance = LiveEndpoint(endpoint_of(upstream_of(once).address), 5)
    await exchange_on(instance)
    # The instance closes while the loop is blocked, as by a long callback.
    time.sleep(0.3)  # noqa: ASYNC251
    assert instance.find_idle() is None


async def test_unsolicited_bytes_end_a_connection(upstream_of: UpstreamOf) -> None:
    def talkative(peer: Peer) -> None:
        peer.request()
        peer.send(OK)
        time.sleep(0.05)
        peer.send(OK)
        peer.wait_for_close()

    instance = LiveEndpoint(endpoint_of(upstream_of(talkative).address), 5)
    await exchange_on(instance)
    time.sleep(0.3)  # noqa: ASYNC251
    assert instance.find_idle() is None


async def test_reading_a_paused_connection_resumes(upstream_of: UpstreamOf) -> None:
    upstream = upstream_of(twice)
    instance = LiveEndpoint(endpoint_of(upstream.address), 5)
    await exchange_on(instance)
    connection = instance.find_idle()
    assert connection is not None
    connection.pause_reading()
    connection.reusable = True
    instance.give_back(connection)
    async with asyncio.timeout(3):
        await exchange_on(instance)
    assert upstream.connections == 1
    instance.retire()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ],
)
async def test_a_connection_the_instance_will_close_is_not_reused(upstream_of: UpstreamOf, answer: bytes) -> None:
    def closing(peer: Peer) -> None:
        peer.request()
        peer.send(answer)
        peer.wait_for_close()

    instance = LiveEndpoint(endpoint_of(upstream_of(closing).address), 5)
    await exchange_on(instance)
    assert instance.find_idle() is None


async def test_a_retired_endpoint_keeps_no_connection(upstream_of: UpstreamOf) -> None:
    instance = LiveEndpoint(endpoint_of(upstream_of(twice).address), 5)
    instance.retire()
    await exchange_on(instance)
    assert instance.find_idle() is None
