"""Slots for one-off runs, per tenant."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from sless.domain.limits import LimitName, TenantLimits
from sless.domain.model import CallStatus, CallTrigger
from sless.domain.ports import ObservedRun, RunSpec
from sless.errors import SlessError
from sless.proxy.oneoff import OneOffRunner
from sless.proxy.run_room import RunRoom
from sless.proxy.wait_queue import WaitQueue
from tests.proxykit.fakes import revision_of
from tests.services.product import wait_until


@dataclass
class Backend:
    """Keeps runs going until a test ends them."""

    going: dict[str, Callable[[ObservedRun], None]] = field(default_factory=dict)

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None:
        self.going[run.id] = done

    def remove_run(self, run_id: str) -> None:
        self.going.pop(run_id, None)

    def end(self, run_id: str) -> None:
        self.going[run_id](ObservedRun(id=run_id, status=CallStatus.SUCCEEDED))


def spec(run_id: str, namespace: str) -> RunSpec:
    return RunSpec(id=run_id, revision=revision_of(namespace=namespace), event="{}", request_id=run_id, trigger=CallTrigger.INVOKE)


async def until(check: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, check, "as many runs as expected", 10)


def test_a_tenant_with_many_calls_leaves_slots_to_others() -> None:
    async def run() -> None:
        backend = Backend()
        runner = OneOffRunner(backend, WaitQueue(), max_runs=4, wait_sec=30)
        greedy = [asyncio.create_task(runner.run(spec(f"g{number}", "greedy"))) for number in range(10)]
        await until(lambda: set(backend.going) == {"g0", "g1"})
        late = asyncio.create_task(runner.run(spec("late", "other")))
        await until(lambda: "late" in backend.going)
        backend.end("late")
        assert (await late).status is CallStatus.SUCCEEDED
        backend.end("g0")
        await until(lambda: set(backend.going) == {"g1", "g2"})
        for task in greedy:
            task.cancel()
        await asyncio.gather(*greedy, return_exceptions=True)
        runner.close()

    asyncio.run(run())


def test_a_timeout_error_gives_the_tenants_share() -> None:
    async def run() -> None:
        backend = Backend()
        runner = OneOffRunner(backend, WaitQueue(), max_runs=2, wait_sec=0.05)
        first = asyncio.create_task(runner.run(spec("first", "one")))
        await until(lambda: "first" in backend.going)
        with pytest.raises(SlessError, match=r"no run slot became free within 0\.05 s \(this namespace may use 1 of 2\)"):
            await runner.run(spec("second", "one"))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        runner.close()

    asyncio.run(run())


def test_runs_wait_for_memory_of_their_tenant() -> None:
    limits = TenantLimits({LimitName.MEMORY_MB: 300, LimitName.RUNS_AT_ONCE: 10})

    async def run() -> None:
        instances = [0]
        backend, room = Backend(), RunRoom(lambda namespace: instances[0])
        runner = OneOffRunner(backend, WaitQueue(), max_runs=40, wait_sec=30, limits_of=lambda namespace: limits, room=room)
        tasks = [asyncio.create_task(runner.run(spec(f"r{number}", "one"))) for number in range(3)]
        await until(lambda: set(backend.going) == {"r0", "r1"} and room.claimed_mb("one") == 3 * 128)
        instances[0] = 300
        backend.end("r0")
        assert (await tasks[0]).status is CallStatus.SUCCEEDED
        assert "r2" not in backend.going
        instances[0] = 0  # which nothing in this process reports
        await until(lambda: "r2" in backend.going)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert room.claimed_mb("one") == 0
        runner.close()

    asyncio.run(run())


def test_a_run_that_finds_no_memory_in_time_says_so() -> None:
    limits = TenantLimits({LimitName.MEMORY_MB: 128, LimitName.RUNS_AT_ONCE: 10})

    async def run() -> None:
        room = RunRoom(lambda namespace: 1)
        runner = OneOffRunner(Backend(), WaitQueue(), max_runs=40, wait_sec=0.05, limits_of=lambda namespace: limits, room=room)
        with pytest.raises(SlessError, match=r"no run slot became free within 0\.05 s \(limit memory_mb of the namespace: at most 128 MB"):
            await runner.run(spec("first", "one"))
        assert room.claimed_mb("one") == 0
        runner.close()

    asyncio.run(run())
