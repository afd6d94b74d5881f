"""The route table follows its source, at once if a caller syncs."""

import asyncio
import threading
from dataclasses import replace

import pytest

from sless import clock
from sless.domain.model import Endpoint, Kind
from sless.domain.ports import Route, RouteSnapshot
from sless.errors import Code, SlessError
from sless.proxy.demand import DemandMeter
from sless.proxy.live_route import LiveRoute
from sless.proxy.routes import RouteTable


class Source:
    """Routes written by a test. Unless `free_running`, each poll waits for `may_end`, like a slow database."""

    def __init__(self) -> None:
        self.revision = 0
        self.routes: tuple[Route, ...] = ()
        self.free_running = True
        self.may_end = threading.Semaphore(0)
        self.begun = threading.Event()
        self.fails = False

    def write(self, name: str) -> None:
        self.routes += (
            Route(workload_id=name, namespace="ns", name=name, kind=Kind.FUNCTION, revision=None, http=None, wants_instances=False,
                  endpoints=(), blocked=None),
        )  # fmt: skip
        self.revision += 1

    def find_snapshot(self, since_revision: int) -> RouteSnapshot | None:
        seen = RouteSnapshot(revision=self.revision, routes=self.routes)
        self.begun.set()
        if not self.free_running:
            self.may_end.acquire(timeout=10)
        if self.fails:
            raise OSError("no database")
        return seen if seen.revision != since_revision else None


@pytest.fixture
async def source():
    return Source()


@pytest.fixture
async def table(source):
    table = RouteTable(source, draining=lambda instance: None, poll_sec=60)
    await table.start()
    yield table
    source.free_running = True
    source.may_end.release(10)
    await table.stop()


async def test_a_sync_sees_earlier_writes(table, source):
    for number in range(20):
        source.write(f"f{number}")
        assert await asyncio.to_thread(table.sync, 10)
        assert table.find("ns", f"f{number}") is not None


async def test_a_poll_that_began_before_the_write_does_not_count(table, source):
    assert await asyncio.to_thread(table.sync, 10)
    source.free_running = False
    source.begun.clear()
    table.wake()
    assert await asyncio.to_thread(source.begun.wait, 10)
    source.write("late")
    waiting = asyncio.create_task(asyncio.to_thread(table.sync, 10))
    await asyncio.sleep(0)
    source.may_end.release()
    done, _ = await asyncio.wait({waiting}, timeout=0.2)
    assert not done
    assert table.find("ns", "late") is None
    source.may_end.release(10)
    assert await waiting
    assert table.find("ns", "late") is not None


async def test_concurrent_syncs_share_the_next_poll(table, source):
    source.write("shared")
    assert await asyncio.gather(*(table.synced(10) for _ in range(50))) == [True] * 50
    assert table.find("ns", "shared") is not None
    source.fails = True
    assert await table.synced(0.05) is False
    assert not table._awaited


async def test_a_sync_gives_up_when_the_source_fails(table, source):
    assert await asyncio.to_thread(table.sync, 10)
    source.fails = True
    assert not await asyncio.to_thread(table.sync, 0.05)


async def test_the_start_waits_for_the_first_snapshot():
    source = Source()
    source.write("early")
    table = RouteTable(source, draining=lambda instance: None, poll_sec=60)
    with pytest.raises(SlessError) as caught:
        table.find_loaded("ns", "early")
    assert caught.value.code is Code.NOT_READY and caught.value.retry_after_sec
    await table.start()
    assert table.find_loaded("ns", "early") is not None
    assert table.find_loaded("ns", "unknown") is None
    await table.stop()


def route_with(*endpoints: Endpoint) -> Route:
    return Route(
        workload_id="w", namespace="ns", name="f", kind=Kind.FUNCTION, revision=None, http=None, wants_instances=True, endpoints=endpoints,
        blocked=None,
    )  # fmt: skip


async def test_only_routes_with_instances_stand(table, source):
    instance = Endpoint(id="i", workload_id="w", version=1, address="127.0.0.1:1", draining=False, created_at=clock.now())
    for route, standing in ((route_with(instance), ["f"]), (route_with(replace(instance, draining=True)), []), (route_with(), [])):
        source.write("idle")
        source.routes = (*source.routes, route)
        assert await asyncio.to_thread(table.sync, 10)
        assert [live.route.name for live in table.standing()] == standing
        assert len(table.instances()) == len(standing)
        source.routes = ()


async def test_a_call_that_waits_for_a_first_instance_is_load(source):
    waiting = asyncio.Event()

    def waits(live: LiveRoute) -> None:
        meter.waits(live)
        waiting.set()

    table = RouteTable(source, draining=lambda instance: None, poll_sec=60, waits=waits)
    meter = DemandMeter(table.standing, lambda: None)
    source.routes = (route_with(),)
    await table.start()
    try:
        call = asyncio.create_task(table.find("ns", "f").take(60))
        await waiting.wait()
        meter.sample()
        assert meter.loads()["w"].waiting == 1
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        meter.sample()
        assert meter.loads()["w"].waiting == 0
    finally:
        await table.stop()
