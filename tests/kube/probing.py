"""The probes of one running container: startup, then readiness and liveness, and their effects."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.kube import probes
from tests.kube.processes import Container

Object = dict[str, Any]
UNREADY_PERIOD_SEC = 0.1
"""Upper limit of a probe's period until the container is ready, to keep tests fast."""


@dataclass(slots=True, kw_only=True)
class Probing:
    """`mark` receives readiness, `report` the texts of events; `grace_sec` is the container's grace period."""

    container: Container
    address: str
    mark: Callable[[bool], None]
    report: Callable[[str, str, str], None]
    grace_sec: float
    _ready: bool = False

    async def run(self, spec: Object) -> None:
        if spec.get("startupProbe") and not await self._startup(spec["startupProbe"]):
            return
        self._mark(not spec.get("readinessProbe"))
        async with asyncio.TaskGroup() as group:
            if spec.get("readinessProbe"):
                group.create_task(self._readiness(spec["readinessProbe"]))
            if spec.get("livenessProbe"):
                group.create_task(self._liveness(spec["livenessProbe"]))

    def _mark(self, ready: bool) -> None:
        self._ready = ready
        self.mark(ready)

    async def _startup(self, probe: Object) -> bool:
        """False if the startup probe never succeeded and the container was ended."""
        period = probe["periodSeconds"]
        deadline = asyncio.get_running_loop().time() + probe.get("initialDelaySeconds", 0) + period * probe["failureThreshold"]
        while (failure := await probes.find_failure(probe, self.container, self.address)) is not None:
            if asyncio.get_running_loop().time() > deadline:
                self.report("Warning", "Unhealthy", f"Startup probe failed: {failure}")
                await self._end()
                return False
            await asyncio.sleep(min(period, UNREADY_PERIOD_SEC))
        return True

    async def _readiness(self, probe: Object) -> None:
        failures = successes = 0
        while True:
            failure = await probes.find_failure(probe, self.container, self.address)
            failures, successes = (failures + 1, 0) if failure is not None else (0, successes + 1)
            if failure is not None:
                self.report("Warning", "Unhealthy", f"Readiness probe failed: {failure}")
            if failure is None and successes >= probe["successThreshold"]:
                self._mark(True)
            elif failures >= probe["failureThreshold"]:
                self._mark(False)
            await asyncio.sleep(probe["periodSeconds"] if self._ready else min(probe["periodSeconds"], UNREADY_PERIOD_SEC))

    async def _liveness(self, probe: Object) -> None:
        failures = 0
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        while True:
            failure = await probes.find_failure(probe, self.container, self.address)
            failures = failures + 1 if failure is not None else 0
            if failures >= probe["failureThreshold"]:
                self.report("Warning", "Unhealthy", f"Liveness probe failed: {failure}")
                await self._end()
                return
            await asyncio.sleep(probe["periodSeconds"])

    async def _end(self) -> None:
        self.report("Normal", "Killing", f"Container {self.container.spec['name']} failed its probe, will be restarted")
        self.container.terminate()
        await asyncio.sleep(min(self.grace_sec, 30))
        self.container.kill()
