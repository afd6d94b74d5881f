"""Fetching log lines from instances that send slowly."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from sless.domain.model import LogLine
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.logs import LogPuller
from sless.proxy.sweep import Sweep
from tests.proxykit.fakes import endpoint_of

PAGE = b'{"lines": [{"seq": 1, "time": "2026-01-31T09:26:53Z", "stream": "stdout", "id": "", "text": "hello"}], "last": 1, "dropped": 0}'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"


def instances(folder: Path, count: int, workload_id: str) -> Iterator[LiveEndpoint]:
    for number in range(count):
        instance = LiveEndpoint(endpoint_of(f"unix:{folder}/{workload_id}", f"{workload_id}-{number}", workload_id), 1)
        instance.calls = 1
        yield instance


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD % len(PAGE) + PAGE)
    await writer.drain()
    writer.close()


async def test_a_tenant_whose_instances_drip_does_not_starve_others(tmp_path: Path) -> None:
    lines: list[LogLine] = []
    sweep, arrived, over = Sweep(), asyncio.Event(), asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD % len(PAGE))
        await over.wait()
        writer.close()

    def take(some: Iterable[LogLine]) -> None:
        lines.extend(some)
        if lines:
            arrived.set()

    async with AsyncExitStack() as stack:
        for name, serve in (("bad", drip), ("good", answer)):
            server = await asyncio.start_unix_server(serve, tmp_path / name)
            stack.callback(server.close)
        known = [*instances(tmp_path, 200, "bad"), *instances(tmp_path, 1, "good")]
        puller = LogPuller(lambda: known, take, sweep, namespace_of=str)
        sweep.start()
        puller.start()
        try:
            async with asyncio.timeout(4):
                await arrived.wait()
            assert [line.workload_id for line in lines] == ["good"]
        finally:
            over.set()
            await puller.stop()
            await sweep.stop()


async def test_a_flood_is_fetched_at_the_allowed_rate(tmp_path: Path) -> None:
    """Every page is full, as if the function printed faster than lines can be fetched."""
    pages, lines = 0, list[LogLine]()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal pages
        await reader.readuntil(b"\r\n\r\n")
        said = {"time": "2026-01-31T09:26:53Z", "stream": "stdout", "id": "", "text": "x" * 4096}
        shown = [said | {"seq": pages * 1000 + number} for number in range(1, 1001)]
        pages += 1
        page = json.dumps({"lines": shown, "last": pages * 1000, "dropped": 0}).encode()
        writer.write(HEAD % len(page) + page)
        await writer.drain()
        writer.close()

    sweep = Sweep()
    server = await asyncio.start_unix_server(flood, tmp_path / "flood")
    known = list(instances(tmp_path, 2, "flood"))
    puller = LogPuller(lambda: known, lines.extend, sweep, namespace_of=str)
    sweep.start()
    try:
        async with asyncio.timeout(8):
            await puller.freshen("flood")
            assert 2 <= pages <= 4 and len(lines) == pages * 1000 and {line.namespace for line in lines} == {"flood"}
            await puller.freshen("flood", 0)
            assert pages <= 4, "the tenant's instances share the rate"
    finally:
        server.close()
        await puller.stop()
        await sweep.stop()


async def test_readers_wait_for_the_same_polling(tmp_path: Path) -> None:
    """A reader who comes while lines are fetched for another one gets them too."""
    asked, lines = 0, list[LogLine]()
    arrived, release = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        arrived.set()
        await release.wait()
        await answer(reader, writer)

    sweep = Sweep()
    server = await asyncio.start_unix_server(slow, tmp_path / "one")
    known = list(instances(tmp_path, 1, "one"))
    puller = LogPuller(lambda: known, lines.extend, sweep, namespace_of=str)
    try:
        async with asyncio.timeout(20):
            first, second = (asyncio.create_task(puller.freshen("one", 10)) for _ in range(2))
            await arrived.wait()
            assert not second.done(), "the lines have not arrived"
            release.set()
            await asyncio.gather(first, second)
        assert (asked, [line.text for line in lines]) == (1, ["hello"])
    finally:
        server.close()
        await puller.stop()
        await sweep.stop()
