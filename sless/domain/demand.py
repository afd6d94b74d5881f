"""Load of a workload: its calls that wait or run at one moment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NEVER_SEC = float("inf")
TARGET = 0.7
"""Share of an instance's concurrency in use above which more instances are started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`waiting`: calls without an instance; `in_flight`: calls on instances that take more; `idle_sec`: time since the last call."""

    waiting: int = 0
    in_flight: int = 0
    idle_sec: float = NEVER_SEC

    @property
    def calls(self) -> int:
        return self.waiting + self.in_flight


NO_LOAD = Load()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsUse:
    """Number of active one-off runs, and their total memory."""

    runs: int = 0
    memory_mb: int = 0

    def __add__(self, other: "RunsUse") -> "RunsUse":
        return RunsUse(runs=self.runs + other.runs, memory_mb=self.memory_mb + other.memory_mb)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUse:
    """Use by a tenant on one replica of the server. `calls`: number admitted since the replica's last report."""

    calls: int = 0
    one_off: RunsUse = RunsUse()


def total_of(loads: Iterable[Mapping[str, Load]]) -> dict[str, Load]:
    """Adds up the loads that the server's replicas report. By workload id."""
    sums: dict[str, Load] = {}
    for part in loads:
        for workload_id, load in part.items():
            have = sums.get(workload_id, NO_LOAD)
            sums[workload_id] = Load(
                waiting=have.waiting + load.waiting, in_flight=have.in_flight + load.in_flight, idle_sec=min(have.idle_sec, load.idle_sec)
            )
    return sums
