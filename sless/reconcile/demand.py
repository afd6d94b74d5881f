"""Collects the load on all replicas of the server: each replica reports its own, the leader adds them up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sless.domain.demand import Load, total_of
from sless.domain.durations import Durations
from sless.domain.ports import Waker
from sless.store import Store


@dataclass(slots=True, kw_only=True)
class DemandLoop:
    """Ticks on every replica. `own` are the loads of this process, `holder` its name."""

    store: Store
    waker: Waker
    holder: str
    is_leader: Callable[[], bool]
    own: Callable[[], Mapping[str, Load]]
    durations: Durations = field(default_factory=Durations)
    _others: Mapping[str, Load] = field(default_factory=dict)
    _reported: bool = False

    def loads(self) -> dict[str, Load]:
        return total_of([self.own(), self._others])

    def changed(self) -> None:
        """Called from any thread when calls of this process wait for instances."""
        self.waker.wake("instances" if self.is_leader() else "demand")

    def tick(self) -> None:
        if self.is_leader():
            others = self.store.demand.of_others(self.holder, self.durations.demand_age_sec)
            fresh = bool(others or self._others)
            self._others = others
            if fresh:
                self.waker.wake("instances")
        else:
            loads = self.own()
            if loads or self._reported:
                self.store.demand.report(self.holder, loads)
            self._reported = bool(loads)
