"""Instances on which a call went over its time: none gets another call before it has answered a health check.

Its runtime may be well and only the call slow; then it answers within milliseconds. One that is stopped, or whose only thread spins,
answers nothing: calls that come meanwhile wait for it, or for the instance that takes its place, instead of going over their time one
after another.
"""

import asyncio

from sless.proxy.exchange import BrokenOff, OverTime
from sless.proxy.fetch import control
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.live_route import LiveRoute
from sless.proxy.sweep import Sweep

_ANSWER_SEC = 1.0
_PAUSE_SEC = 0.25
_MAX_BYTES = 64 * 1024


class Suspects:
    """Used on the event loop alone."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._asking: set[asyncio.Task[None]] = set()

    def add(self, live: LiveRoute, instance: LiveEndpoint) -> None:
        """To be told before the call gives its slot back, or the next one has it."""
        if instance.suspect or instance.gone:
            return
        instance.suspect = True
        task = asyncio.get_running_loop().create_task(self._ask(live, instance))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def stop(self) -> None:
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def _ask(self, live: LiveRoute, instance: LiveEndpoint) -> None:
        address = instance.endpoint.address
        while not instance.gone:
            try:
                await control(address, "/_sless/health", sweep=self._sweep, timeout_sec=_ANSWER_SEC, max_bytes=_MAX_BYTES)
            except (OSError, BrokenOff, OverTime):
                await asyncio.sleep(_PAUSE_SEC)
            else:
                live.trust(instance)
                return
