"""Streams of a namespace's list: one reader for all, what is sent, when they end."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from sless.asgi import overviews
from sless.asgi.overviews import Overviews
from sless.asgi.paths import FoundPath, PathKind
from sless.errors import Code, SlessError

FOUND = FoundPath(PathKind.OVERVIEW, "ns")
SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "headers": [(b"authorization", b"Bearer x")]}


@dataclass
class Tenant:
    expires_at: float = float("inf")

    def check(self, namespace: str) -> None:
        if namespace != "ns":
            raise SlessError(Code.FORBIDDEN, "not yours")


@dataclass
class Source:
    """What the reader finds; counts its reads."""

    items: dict[str, str] = field(default_factory=lambda: {"function/a": '{"name": "a"}', "function/b": '{"name": "b"}'})
    reads: int = 0

    def read(self, namespace: str) -> dict[str, str]:
        self.reads += 1
        return dict(self.items)


class Client:
    """One stream; `events()` parses what has arrived."""

    def __init__(self) -> None:
        self.text = ""
        self.status = 0
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self.stuck = asyncio.Event()
        self.ended = False

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        self.text += message["body"].decode()
        self.ended = not message["more_body"]
        self.arrived.set()
        if self.stuck.is_set():
            await asyncio.sleep(3600)

    def events(self) -> list[tuple[str, Any]]:
        blocks = [block.split("\n") for block in self.text.split("\n\n") if block.startswith("event: ")]
        return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]

    async def until(self, count: int) -> list[tuple[str, Any]]:
        async with asyncio.timeout(10):
            while len(self.events()) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return self.events()


@asynccontextmanager
async def following(
    source: Source, clients: int = 1, tenant: Tenant | None = None
) -> AsyncIterator[tuple[list[Client], list[Any], asyncio.Event]]:
    stopping = asyncio.Event()

    async def verify(authorization: str | None) -> Tenant:
        return tenant or Tenant()

    lists = Overviews(verify=verify, read=source.read, stopping=stopping)
    made = [Client() for _ in range(clients)]
    tasks = [asyncio.create_task(lists(SCOPE, client.receive, client.send, FOUND)) for client in made]
    try:
        yield made, tasks, stopping
    finally:
        stopping.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        lists.close()


async def test_a_stream_sends_the_list_and_then_only_changes() -> None:
    source = Source()
    async with following(source) as ((client,), _, _):
        assert (await client.until(1))[0] == ("items", [{"name": "a"}, {"name": "b"}])
        del source.items["function/a"]
        source.items["function/b"] = '{"name": "b", "phase": "Ready"}'
        assert (await client.until(3))[1:] == [("items", [{"name": "b", "phase": "Ready"}]), ("gone", ["function/a"])]


async def test_many_consoles_cost_one_reader() -> None:
    source = Source()
    started_at = time.monotonic()
    async with following(source, clients=200) as (clients, _, _):
        for client in clients:
            await client.until(1)
        source.items["function/c"] = '{"name": "c"}'
        for client in clients:
            assert (await client.until(2))[1] == ("items", [{"name": "c"}])
    assert source.reads <= 2 + (time.monotonic() - started_at) / overviews.PERIOD_SEC


async def test_the_reader_pauses_ten_times_as_long_as_it_computes() -> None:
    source = Source()
    busy_sec = 0.15

    def read(namespace: str) -> dict[str, str]:
        until = time.thread_time() + busy_sec
        while time.thread_time() < until:
            pass
        return Source.read(source, namespace)

    source.read = read  # type: ignore[method-assign]
    async with following(source) as ((client,), _, _):
        await client.until(1)
        await asyncio.sleep(busy_sec * overviews.REST_SHARE * 0.8)
        assert source.reads == 1


async def test_a_read_that_waits_delays_changes_little() -> None:
    """On a busy machine a read of a few milliseconds may take seconds by the clock."""
    source = Source()
    waits_sec = 0.6

    def read(namespace: str) -> dict[str, str]:
        time.sleep(waits_sec)
        return Source.read(source, namespace)

    source.read = read  # type: ignore[method-assign]
    async with following(source) as ((client,), _, _):
        await client.until(1)
        source.items["function/c"] = '{"name": "c"}'
        async with asyncio.timeout(waits_sec * overviews.REST_SHARE / 2):
            assert (await client.until(2))[1] == ("items", [{"name": "c"}])


@pytest.mark.parametrize("error", [SlessError(Code.UNAVAILABLE, "the database is away"), RuntimeError("unexpected")])
async def test_a_failed_read_does_not_end_the_updates(error: Exception) -> None:
    source = Source()

    def read(namespace: str) -> dict[str, str]:
        source.reads += 1
        if source.reads == 1:
            raise error
        return dict(source.items)

    source.read = read  # type: ignore[method-assign]
    async with following(source) as ((client,), _, _):
        assert (await client.until(1))[0] == ("items", [{"name": "a"}, {"name": "b"}])


async def test_the_reader_pauses_after_sending_much() -> None:
    clients = 20
    size = int(overviews.SENT_BYTES_PER_SEC * overviews.PERIOD_SEC * 4 / clients)
    source = Source({"function/a": json.dumps({"name": "a" * size})})
    async with following(source, clients=clients) as (followers, _, _):
        for client in followers:
            await client.until(1)
        await asyncio.sleep(overviews.PERIOD_SEC * 2)
        assert source.reads == 1


async def test_a_client_that_does_not_read_is_dropped() -> None:
    source = Source()
    async with following(source, clients=2) as ((slow, quick), (task, _), _):
        slow.stuck.set()
        await quick.until(1)
        follower = overviews._Follower()
        for number in range(overviews._QUEUED + 1):
            follower.put(b"%d" % number)
        assert follower.dropped.is_set() and not task.done()
        source.items["function/c"] = '{"name": "c"}'
        assert (await quick.until(2))[1] == ("items", [{"name": "c"}]), "other clients are not delayed"


async def test_a_stream_ends_with_its_token() -> None:
    async with following(Source(), tenant=Tenant(expires_at=time.time() + 0.3)) as ((client,), (task,), _):
        async with asyncio.timeout(5):
            assert await task == 200
        assert client.ended


async def test_a_stream_ends_when_the_client_leaves_or_the_server_stops() -> None:
    async with following(Source(), clients=2) as ((one, two), (first, second), stopping):
        await one.until(1)
        one.left.set()
        async with asyncio.timeout(5):
            await first
        assert not second.done()
        stopping.set()
        async with asyncio.timeout(5):
            await second
        assert two.ended


async def test_another_namespace_is_refused() -> None:
    async def verify(authorization: str | None) -> Tenant:
        return Tenant()

    lists, client = Overviews(verify=verify, read=Source().read, stopping=asyncio.Event()), Client()
    with pytest.raises(SlessError) as caught:
        await lists(SCOPE, client.receive, client.send, FoundPath(PathKind.OVERVIEW, "other"))
    assert caught.value.code is Code.FORBIDDEN and client.status == 0
    lists.close()
