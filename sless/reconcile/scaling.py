"""The rule of scaling: observation → desired number of instances of a workload. Pure.

Scales up in one step: waiting and running calls, divided by the number that an instance should take, TARGET of its concurrency. Scales down
only to the highest number needed within the stable window, so that a fluctuating load does not start and stop instances all the time. The
last ones stop when there has been no call for the idle time.

Decision: as long as desired instances are not ready, an instance counts with its whole concurrency, and the waiting time of calls never
counts. Consequence: a function that starts slowly gets the instances that its waiting calls need, but not ever more of them.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sless.domain.demand import NO_LOAD, TARGET, Load
from sless.domain.instance_bounds import InstanceBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One workload at one moment. `ready`: number of instances that take calls. `needed`: one instance is needed even without calls,
    because the version is not proven yet, or a firing is due soon."""

    load: Load = NO_LOAD
    bounds: InstanceBounds
    concurrency: int
    idle_sec: float
    ready: int
    needed: bool = False


@dataclass(slots=True, kw_only=True)
class Scale:
    """Scaling state of one workload. Times are seconds of a monotonic clock."""

    stable_sec: float = 60.0
    desired: int = 0
    called_at: float = -math.inf
    """Time of the last call."""
    _peaks: deque[tuple[float, int]] = field(default_factory=deque)
    """(time, needed number) within the stable window, each higher than all later ones."""

    @classmethod
    def resume(cls, number: int, now: float, stable_sec: float) -> "Scale":
        """For a new leader that finds instances: keeps them as if they had been needed until now."""
        scale = cls(stable_sec=stable_sec, desired=number, called_at=now if number else -math.inf)
        scale._note(number, now)
        return scale

    def step(self, observation: Observation, now: float) -> int:
        """The desired number. Call it at least once a second while there is load or the number is above the minimum."""
        if observation.load.calls or observation.needed:
            self.called_at = now
        self.called_at = max(self.called_at, now - observation.load.idle_sec)
        idle = now - self.called_at >= observation.idle_sec
        if idle:
            self._peaks.clear()
        self._note(self.wanted(observation), now)
        least = max(observation.bounds.least, 0 if idle else 1)
        self.desired = min(max(self._peaks[0][1], least), observation.bounds.most)
        return self.desired

    def wanted(self, observation: Observation) -> int:
        """The number needed at this moment, without the stable window."""
        full = float(observation.concurrency)
        per_instance = full if observation.ready < self.desired or not observation.ready else max(1.0, TARGET * full)
        return math.ceil(observation.load.calls / per_instance)

    def rests(self, observation: Observation) -> bool:
        """Whether nothing would change, so that `step` need not be called."""
        return (
            not observation.load.calls
            and not observation.needed
            and self.desired == observation.bounds.least
            and observation.load.idle_sec >= observation.idle_sec
        )

    def _note(self, wanted: int, now: float) -> None:
        while self._peaks and self._peaks[0][0] <= now - self.stable_sec:
            self._peaks.popleft()
        while self._peaks and self._peaks[-1][1] <= wanted:
            self._peaks.pop()
        self._peaks.append((now, wanted))


# --- memory of one machine ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Demand of a workload for memory of the machine. `number`: desired instances; `current`: the number it had before; `kept`: the number
    that its calls and its minimum need now."""

    workload_id: str
    namespace: str = ""
    memory_mb: int
    number: int
    current: int
    kept: int
    called_at: float


def fitted(claims: Sequence[Claim], limit_mb: int) -> dict[str, int]:
    """Numbers that fit into `limit_mb`, for workloads that get fewer instances than they claim. First gives up instances that no call
    needs, starting with the workload whose last call was longest ago. Then growing workloads get less, the largest first, so that the first
    instance of one comes before the second of another. Keeps existing instances that are needed."""
    numbers = {item.workload_id: item.number for item in claims}
    over_mb = sum(item.number * item.memory_mb for item in claims) - limit_mb
    for item in sorted(claims, key=lambda item: item.called_at):
        if over_mb > 0 and (spare := min(item.number, item.current) - item.kept) > 0:
            leaving = min(spare, math.ceil(over_mb / item.memory_mb))
            numbers[item.workload_id] -= leaving
            over_mb -= leaving * item.memory_mb
    growing = [replace(item, number=numbers[item.workload_id]) for item in claims if numbers[item.workload_id] > item.current]
    steps = [(number, item.called_at, item) for item in growing for number in range(item.current + 1, item.number + 1)]
    for _, _, item in sorted(steps, key=lambda step: step[:2], reverse=True):
        if over_mb > 0:
            numbers[item.workload_id] -= 1
            over_mb -= item.memory_mb
    return {item.workload_id: numbers[item.workload_id] for item in claims if numbers[item.workload_id] != item.number}
