"""Suspects: instances on which a call timed out. They get no other calls until they answer a health check.

If only the call is slow, the runtime answers the check within milliseconds. An instance that is stopped, or whose only thread is busy, does
not answer, and one whose event loop is blocked reports that. New calls wait for it or its replacement, instead of timing out one by one.
"""

import asyncio
import json

from sless.proxy.exchange import BrokenOff, OverTime
from sless.proxy.fetch import control
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.live_route import LiveRoute
from sless.proxy.sweep import Sweep

_ANSWER_SEC = 1.0
_PAUSE_SEC = 0.25
_MAX_BYTES = 64 * 1024


class Suspects:
    """Used on the event loop only."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._checks: set[asyncio.Task[None]] = set()

    def add(self, live: LiveRoute, instance: LiveEndpoint) -> None:
        """Call this before the call releases its slot, or else the next call gets the instance."""
        if instance.suspect or instance.gone:
            return
        instance.suspect = True
        task = asyncio.get_running_loop().create_task(self._check(live, instance))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def stop(self) -> None:
        for task in self._checks:
            task.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)

    async def _check(self, live: LiveRoute, instance: LiveEndpoint) -> None:
        address = instance.endpoint.address
        while not instance.gone:
            try:
                health = await control(address, "/_sless/health", sweep=self._sweep, timeout_sec=_ANSWER_SEC, max_bytes=_MAX_BYTES)
            except (OSError, BrokenOff, OverTime):
                health = b""
            if health and not _is_blocked(health):
                live.trust(instance)
                return
            await asyncio.sleep(_PAUSE_SEC)


def _is_blocked(health: bytes) -> bool:
    """Whether the runtime reports that it cannot run further calls. False for answers that are not the runtime's own."""
    try:
        found = json.loads(health)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("blocked") is True
