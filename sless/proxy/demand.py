"""Measures the load of each workload in this process, by which its instances are scaled.

Sampled every SAMPLE_SEC, and immediately when a call finds no free instance. Costs nothing per call on the fast path, and nothing for
workloads without instances and calls.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from sless.domain.demand import TARGET, Load
from sless.proxy.live_route import LiveRoute

SAMPLE_SEC = 0.25
_KEPT_SEC = 5.0
"""How long a workload without calls is still reported, so that every reader learns of its last call."""
_REPORT_SEC = 0.1
"""Minimum time between two reports for a workload with instances; calls that wait for a first instance are reported immediately."""


class DemandMeter:
    """Used on the event loop; `loads` may be called from any thread. Calls `changed` when a workload needs more instances."""

    def __init__(self, standing: Callable[[], Iterable[LiveRoute]], changed: Callable[[], None]) -> None:
        """`standing` returns the routes with instances."""
        self._standing = standing
        self._changed = changed
        self._called: dict[str, LiveRoute] = {}
        """Routes with calls now or a moment ago."""
        self._called_at: dict[str, float] = {}
        self._reported: dict[str, tuple[float, int]] = {}
        self._loads: dict[str, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="demand")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def loads(self) -> Mapping[str, Load]:
        """Loads of workloads that have calls now or had some a moment ago, by id."""
        now, numbers = monotonic(), self._loads
        return {
            workload_id: Load(waiting=waiting, in_flight=running, idle_sec=now - self._called_at.get(workload_id, now))
            for workload_id, (waiting, running) in numbers.items()
        }

    def waits(self, live: LiveRoute) -> None:
        """Called when a call of this workload begins to wait."""
        now, workload_id = monotonic(), live.route.workload_id
        self._called[workload_id] = live
        reported_at, reported = self._reported.get(workload_id, (0.0, 0))
        if now - reported_at < _REPORT_SEC and (live.instances or live.waiting < 2 * reported):
            return
        self._reported[workload_id] = (now, live.waiting)
        self._called_at[workload_id] = now
        self._loads = {**self._loads, workload_id: (live.waiting, live.in_flight)}
        self._changed()

    def sample(self) -> None:
        now, loads, urgent = monotonic(), {}, False
        routes = self._called | {live.route.workload_id: live for live in self._standing()}
        for workload_id, live in routes.items():
            waiting, running = live.waiting, live.in_flight
            if live.count_calls() or waiting or running:
                self._called_at[workload_id] = now
            elif now - self._called_at.get(workload_id, float("-inf")) > _KEPT_SEC:
                continue
            loads[workload_id] = (waiting, running)
            urgent = urgent or waiting > 0 or (running > 1 and running > TARGET * live.slots)
        self._loads = loads
        self._called = {key: routes[key] for key in loads}
        self._called_at = {key: at for key, at in self._called_at.items() if key in loads}
        self._reported = {key: report for key, report in self._reported.items() if key in loads}
        if urgent:
            self._changed()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SEC)
            self.sample()
