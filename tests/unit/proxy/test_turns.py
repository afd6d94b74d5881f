"""Long work of tenants takes turns; bytes of bodies are limited."""

import asyncio

import pytest

from sless.errors import SlessError
from sless.proxy.bodies import Bodies, group_of
from sless.proxy.turns import Turns


class Scene:
    """Work that lasts until it is released; `order` is the order in which it began."""

    def __init__(self, **options: float) -> None:
        self.turns = Turns("uploads", at_once=2, **options)  # type: ignore[arg-type]
        self.order: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, *names: str) -> None:
        """`a1` is work of owner a."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._work(name))
        await self.settle()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await self.settle()

    async def leave(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks[name], return_exceptions=True)
        await self.settle()

    def error(self, name: str) -> BaseException | None:
        return self._tasks[name].exception()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _work(self, name: str) -> None:
        async with self.turns.turn(name[0]):
            self.order.append(name)
            await self._ends[name].wait()


async def test_owners_take_turns_with_one_task_at_a_time() -> None:
    scene = Scene()
    await scene.begin("a1", "a2", "a3", "b1", "c1")
    assert scene.order == ["a1", "b1"]
    await scene.end("a1")
    assert scene.order == ["a1", "b1", "a2"], "a has waited longest"
    await scene.end("a2")
    assert scene.order[3:] == ["c1"], "a had its turn"
    await scene.end("b1")
    assert scene.order[4:] == ["a3"]


async def test_cancelled_work_passes_its_turn_to_the_next() -> None:
    scene = Scene()
    await scene.begin("a1", "b1", "c1", "d1")
    await scene.leave("c1")
    await scene.end("a1")
    assert scene.order == ["a1", "b1", "d1"]
    await scene.leave("d1")
    await scene.end("b1")
    await scene.begin("e1", "f1")
    assert scene.order[3:] == ["e1", "f1"], "no slot was lost"


async def test_work_cancelled_as_its_turn_comes_loses_no_slot() -> None:
    scene = Scene()
    await scene.begin("a1", "a2")
    scene._ends["a1"].set()
    await scene._tasks["a1"]
    await scene.leave("a2")
    await scene.begin("a3")
    assert scene.order[-1] == "a3"


async def test_too_many_waiters_and_too_long_waits_are_refused() -> None:
    scene = Scene(waiting_per_owner=1, wait_sec=0.02)
    await scene.begin("a1", "a2", "a3", "b1")
    refused = scene.error("a3")
    assert isinstance(refused, SlessError) and refused.status == 429 and "uploads" in refused.message and refused.retry_after_sec
    await asyncio.wait([scene._tasks["a2"]], timeout=5)
    late = scene.error("a2")
    assert isinstance(late, SlessError) and late.status == 429
    assert scene.order == ["a1", "b1"]


def test_bytes_are_limited_in_all_and_per_owner() -> None:
    bodies = Bodies(400, what="request bodies", setting="max_held_bytes")
    with bodies.hold("a") as first, bodies.hold("b", "ns") as second, bodies.hold("c", "ns") as third:
        first.add(60)
        first.add(40)
        with pytest.raises(SlessError, match=r"100 of at most 100 bytes of request bodies for a \(limit max_held_bytes\)") as caught:
            first.add(1)
        assert caught.value.status == 429 and caught.value.retry_after_sec
        second.add(60)
        with pytest.raises(SlessError, match="for ns"):
            third.add(41)
        third.add(40)
        for owner in "de":
            bodies.hold(owner).add(100)
        with pytest.raises(SlessError, match="400 of at most 400"):
            bodies.hold("f").add(1)
    assert bodies.held == {"": 200, "d": 100, "e": 100}


def test_addresses_of_one_ipv6_client_are_one_owner() -> None:
    assert group_of("2001:db8::1") == group_of("2001:db8::ffff:1") != group_of("2001:db8:0:1::1")
    assert group_of("192.0.2.1") != group_of("192.0.2.2") and group_of("") == ""
