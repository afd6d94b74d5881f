"""Sharing of connections, and retries of failed ones."""

import asyncio
import socket
import struct
import threading

import pytest

from sless.broker import BrokerError, BrokerLimits, Pool
from sless.broker.connection import open_connection
from sless.broker.pool import CHANNELS_PER_CONNECTION
from sless.broker.reader import BoundedReader, Budget
from sless.domain.addresses import parse_allowed
from sless.domain.amqp import parse_broker_url
from sless.outbound import Outbound, outbound_of

URL = parse_broker_url("amqp://u:p@h/")


async def test_tenants_do_not_share_connections() -> None:
    pool = Pool(outbound_of(()))
    one = pool.join("ns", URL, trusted=True)
    assert pool.join("ns", URL, trusted=True) is one
    assert pool.join("other", URL, trusted=True) is not one
    assert pool.join("ns", URL, trusted=False) is not one
    assert pool.join("ns", parse_broker_url("amqp://u:q@h/"), trusted=True) is not one


async def test_users_per_connection_are_limited() -> None:
    pool = Pool(outbound_of(()))
    links = [pool.join("ns", URL, trusted=True) for _ in range(CHANNELS_PER_CONNECTION + 1)]
    assert len(set(map(id, links))) == 2
    await pool.leave(links[0])
    assert pool.join("ns", URL, trusted=True) is links[0]
    for link in links:
        await pool.leave(link)
    assert pool.join("ns", URL, trusted=True) not in links


async def test_a_failed_connection_backs_off_and_repeats_its_error() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readexactly(8)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pool = Pool(outbound_of(("127.0.0.0/8",)))
    link = pool.join("ns", parse_broker_url(f"amqp://u:p@127.0.0.1:{port}/"), trusted=False)
    texts = []
    for _ in range(3):
        with pytest.raises(BrokerError) as raised:
            await pool.connection(link)
        texts.append(str(raised.value))
    assert texts == [f"cannot connect to amqp://127.0.0.1:{port}: the server there does not speak AMQP 0-9-1"] * 3
    assert connections == 1
    server.close()
    await server.wait_closed()


async def test_a_tenant_opens_few_connections_at_a_time() -> None:
    """Names are resolved in few threads; slow names of one tenant must leave some to others."""
    may_go = threading.Event()
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        may_go.wait(10)
        raise OSError("no such host")

    pool = Pool(Outbound(resolve=resolve))
    urls = [parse_broker_url(f"amqp://u:p@{name}.example/") for name in (*"abcdefghijkl", "other")]
    links = [pool.join("other" if url.host == "other.example" else "ns", url, trusted=False) for url in urls]
    opening = [asyncio.create_task(pool.connection(link)) for link in links]
    try:
        async with asyncio.timeout(5):
            while "other.example" not in asked:  # noqa: ASYNC110 - it is filled by threads
                await asyncio.sleep(0.01)
        assert len(asked) == 3
    finally:
        may_go.set()
        failed = await asyncio.gather(*opening, return_exceptions=True)
    assert all(isinstance(error, BrokerError) for error in failed) and len(asked) == 13
    assert not pool._opening, "a tenant leaves no lock"


async def test_dns_rebinding_reaches_only_checked_addresses() -> None:
    """127.0.0.1 stands for a public address, 127.0.0.2 for an internal one with the same port open."""
    reached: list[str] = []
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(writer.get_extra_info("sockname")[0])
        await reader.readexactly(8)
        writer.close()
        await writer.wait_closed()

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    outside = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = outside.sockets[0].getsockname()[1]
    inside = await asyncio.start_server(serve, "127.0.0.2", port)
    outbound = Outbound(allowed=parse_allowed(["127.0.0.1/32"]), resolve=resolve)
    texts = []
    for _ in range(2):
        with pytest.raises(BrokerError) as raised:
            await open_connection(parse_broker_url(f"amqp://u:p@rebound.example:{port}/"), outbound, BrokerLimits())
        texts.append(str(raised.value))
    assert "does not speak AMQP" in texts[0] and "127.0.0.2" not in texts[1] and "not a public address" in texts[1]
    assert (reached, asked) == (["127.0.0.1"], ["rebound.example"] * 2)
    for server in (outside, inside):
        server.close()
        await server.wait_closed()


async def test_a_body_over_the_limit_is_not_read() -> None:
    reader = BoundedReader(Budget(BrokerLimits(message_bytes=1000)), asyncio.get_running_loop())

    async def frame(size: int) -> None:
        payload = struct.pack(">HHQH", 60, 0, size, 0)
        reader.feed_data(b"\x02" + struct.pack(">HI", 1, len(payload)) + payload + b"\xce")
        for part in (1, 6, len(payload) + 1):
            await reader.readexactly(part)

    await frame(1000)
    with pytest.raises(OSError, match="1,001 bytes is over the limit of 1,000"):
        await frame(1001)


async def test_reading_pauses_while_over_the_memory_limit() -> None:
    budget = Budget(BrokerLimits(held_bytes=10))
    reader = BoundedReader(budget, asyncio.get_running_loop())
    reader.feed_data(b"ab")
    budget.take(11)
    reading = asyncio.create_task(reader.readexactly(2))
    await asyncio.sleep(0.01)
    assert not reading.done()
    budget.give(1)
    assert await reading == b"ab"


def test_the_error_names_an_unreachable_broker() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    async def connect() -> str:
        pool = Pool(outbound_of(()))
        try:
            await pool.connection(pool.join("ns", parse_broker_url(f"amqp://u:p@127.0.0.1:{port}/"), trusted=True))
        except BrokerError as error:
            return str(error)
        return ""

    assert asyncio.run(connect()).startswith(f"cannot connect to amqp://127.0.0.1:{port}: Connect")
