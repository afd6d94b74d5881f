"""Counts the uptime of instances (memory × time) and stores it in small sums."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sless.domain.model import Workload
from sless.domain.ports import ObservedDeployment
from sless.domain.uptime import Sighting
from sless.store import Store

WRITE_EVERY = timedelta(seconds=10)
"""Maximum time that is lost of instances that end together with a killed server."""
WRITE_CHANGES_EVERY = timedelta(seconds=1)
"""A new instance is stored soon, so that its time counts if this server is killed."""
_NEVER = timedelta.max


@dataclass(slots=True, kw_only=True)
class UptimeMeter:
    store: Store
    _sightings: dict[str, Sighting] = field(default_factory=dict)
    """Sightings that are not written yet, by instance, including instances that have ended."""
    _running: frozenset[str] = frozenset()
    _written_at: datetime | None = None
    _is_changed: bool = False

    def note(self, workloads: Mapping[str, Workload], observed: Mapping[str, ObservedDeployment], now: datetime) -> None:
        """Counts the `observed` instances until now."""
        running = {
            one.id: workloads[workload_id] for workload_id, seen in observed.items() if workload_id in workloads for one in seen.endpoints
        }
        self._is_changed = self._is_changed or running.keys() != self._running
        self._running = frozenset(running)
        for endpoint_id, workload in running.items():
            known = self._sightings.get(endpoint_id)
            self._sightings[endpoint_id] = replace(known, until=now) if known else _sighting_of(endpoint_id, workload, now)
        passed = _NEVER if self._written_at is None else now - self._written_at
        if (self._is_changed and passed >= WRITE_CHANGES_EVERY) or (self._sightings and passed >= WRITE_EVERY):
            self.write()
            self._written_at = now

    def write(self) -> None:
        """Raises SlessError, and keeps what was not written."""
        if self._sightings or self._is_changed:
            self.store.uptime.count(list(self._sightings.values()), self._running)
        self._sightings = {key: replace(one, since=None) for key, one in self._sightings.items() if key in self._running}
        self._is_changed = False

    def forget(self) -> None:
        """Call this when leadership begins, since another server may have led and counted in the meantime."""
        self._sightings, self._running, self._is_changed = {}, frozenset(), False


def _sighting_of(endpoint_id: str, workload: Workload, now: datetime) -> Sighting:
    return Sighting(
        endpoint_id=endpoint_id, workload_id=workload.id, namespace=workload.namespace, kind=workload.kind, name=workload.name,
        memory_mb=workload.spec.memory_mb, since=now, until=now,
    )  # fmt: skip
