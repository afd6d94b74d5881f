"""Counts the uptime of instances (memory × time) and stores it in small sums."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sless import clock
from sless.domain.model import Workload
from sless.domain.ports import ObservedDeployment
from sless.domain.statistics import Uptime
from sless.store import Store

WRITE_SEC = 10.0
_LONGEST_SEC = 5.0
"""Maximum time counted between two observations: if this server did not lead in between, another one counted."""
MB_PER_GB = 1024


@dataclass(slots=True, kw_only=True)
class UptimeMeter:
    store: Store
    _seen_at: float | None = None
    _written_at: float = 0.0
    _gb_ms: dict[str, float] = field(default_factory=dict)

    def note(self, workloads: Mapping[str, Workload], observed: Mapping[str, ObservedDeployment], now: float) -> None:
        """Counts the `observed` instances since the last call; `now` is in seconds of a monotonic clock."""
        passed_sec = 0.0 if self._seen_at is None else min(now - self._seen_at, _LONGEST_SEC)
        self._seen_at = now
        for workload_id, seen in observed.items():
            workload = workloads.get(workload_id)
            if workload is not None and seen.endpoints:
                gb = len(seen.endpoints) * workload.spec.memory_mb / MB_PER_GB
                self._gb_ms[workload_id] = self._gb_ms.get(workload_id, 0.0) + gb * passed_sec * 1000
        if self._gb_ms and now - self._written_at >= WRITE_SEC:
            self._written_at = now
            sums, self._gb_ms = self._gb_ms, {}
            self.store.uptime.add([_uptime_of(workloads[key], gb_ms) for key, gb_ms in sums.items() if key in workloads], clock.now())


def _uptime_of(workload: Workload, gb_ms: float) -> Uptime:
    return Uptime(workload_id=workload.id, namespace=workload.namespace, kind=workload.kind, name=workload.name, gb_ms=gb_ms)
