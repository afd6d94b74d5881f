"""Keeps the one-off runs of a tenant within its limits: their number, and their memory together with that of the tenant's instances."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sless.domain.demand import RunsUse
from sless.domain.limits import LimitName, TenantLimits


@dataclass(frozen=True, slots=True)
class _Run:
    namespace: str
    memory_mb: int


class RunRoom:
    """Thread-safe. A run starts if it fits next to the tenant's instances; until then it claims memory, so that instances that no call
    needs are stopped."""

    def __init__(self, instances_mb: Callable[[str], int] = lambda namespace: 0) -> None:
        """`instances_mb` returns the memory of a tenant's instances, including those that are starting."""
        self._instances_mb = instances_mb
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._waiting: dict[str, _Run] = {}
        self._others: Mapping[str, RunsUse] = {}

    def take(self, run_id: str, namespace: str, memory_mb: int, limits: TenantLimits | None) -> LimitName | None:
        """None if the run may start; it then counts until `give_back`. Otherwise the limit that it has to wait for. Raises LIMIT_REACHED
        for a run that could never start."""
        if limits is not None:
            limits.check(LimitName.MEMORY_MB, memory_mb)
        instances_mb = self._instances_mb(namespace)
        run = _Run(namespace, memory_mb)
        with self._lock:
            self._waiting.pop(run_id, None)
            used = self._used(namespace)
            if limits is not None and used.runs >= limits[LimitName.RUNS_AT_ONCE]:
                return LimitName.RUNS_AT_ONCE
            if limits is not None and instances_mb + used.memory_mb + memory_mb > limits[LimitName.MEMORY_MB]:
                self._waiting[run_id] = run
                return LimitName.MEMORY_MB
            self._runs[run_id] = run
            return None

    def adopt(self, run_id: str, namespace: str, memory_mb: int) -> None:
        """Counts a run that is already active."""
        with self._lock:
            self._runs[run_id] = _Run(namespace, memory_mb)

    def give_back(self, run_id: str) -> None:
        """Call this when the run has ended, or no longer waits."""
        with self._lock:
            self._runs.pop(run_id, None)
            self._waiting.pop(run_id, None)

    def own(self) -> dict[str, RunsUse]:
        """The runs of this process, by namespace."""
        with self._lock:
            return {namespace: _use_of(self._runs, namespace) for namespace in {run.namespace for run in self._runs.values()}}

    def set_others(self, others: Mapping[str, RunsUse]) -> None:
        """The runs of the other replicas, by namespace."""
        with self._lock:
            self._others = others

    def claimed_mb(self, namespace: str) -> int:
        """Memory of active runs and of those that wait for memory."""
        with self._lock:
            return self._used(namespace).memory_mb + _use_of(self._waiting, namespace).memory_mb

    def _used(self, namespace: str) -> RunsUse:
        return _use_of(self._runs, namespace) + self._others.get(namespace, RunsUse())


def _use_of(runs: Mapping[str, _Run], namespace: str) -> RunsUse:
    own = [run.memory_mb for run in runs.values() if run.namespace == namespace]
    return RunsUse(runs=len(own), memory_mb=sum(own))
