"""The clock of running calls stops while there are none."""

import asyncio
from time import monotonic

from sless.proxy.exchange import OverTime
from sless.proxy.sweep import Sweep


class Call:
    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        self.failed.set_result(error)


async def test_it_wakes_up_only_for_calls(monkeypatch) -> None:
    ticks: list[float] = []
    tick = Sweep.tick
    monkeypatch.setattr(Sweep, "tick", lambda self, now: (ticks.append(now), tick(self, now)))
    sweep = Sweep()
    sweep.start()
    try:
        await asyncio.sleep(0.2)
        assert ticks == []
        for _ in range(2):  # it stops again after the first
            call = Call(monotonic())
            sweep.add(call, None)
            assert isinstance(await asyncio.wait_for(call.failed, 5), OverTime)
            sweep.discard(call)
            await asyncio.sleep(0.1)
            seen = len(ticks)
            await asyncio.sleep(0.2)
            assert len(ticks) == seen
    finally:
        await sweep.stop()
