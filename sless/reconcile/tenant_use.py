"""What tenants use on all replicas of the server: calls per minute, and runs with their memory, have one limit, not one per
replica.

Decision: replicas tell each other through the database, twice a second. Calls ask nobody: each replica spends from a bucket of its own, and
what the others have spent is taken from it afterwards, so it may go below zero. Consequence: a burst on several replicas may exceed the
limit for half a second, and the calls that follow have less. A server that is alone writes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

from sless.domain.demand import RunsUse, TenantUse
from sless.domain.durations import Durations
from sless.store import Store

_COMPANY_SEC = 30.0
"""How long after its last word another replica is still told."""

Key = tuple[str, str, datetime]


@dataclass(slots=True, kw_only=True)
class TenantUseLoop:
    """Ticks on every replica. `calls` of this process by namespace, in total; `runs` that go on. `charge` and `set_runs` get what the
    others have told."""

    store: Store
    holder: str
    is_leader: Callable[[], bool]
    calls: Callable[[], Mapping[str, int]]
    runs: Callable[[], Mapping[str, RunsUse]]
    charge: Callable[[Mapping[str, int]], None]
    set_runs: Callable[[Mapping[str, RunsUse]], None]
    durations: Durations = field(default_factory=Durations)
    _calls: Mapping[str, int] = field(default_factory=dict)
    """As last told."""
    _runs: Mapping[str, RunsUse] = field(default_factory=dict)
    _seen: Mapping[Key, TenantUse] = field(default_factory=dict)
    _heard_at: float = float("-inf")

    def tick(self) -> None:
        self._hear()
        # The leader is alone until another replica has told something; the others know that there is a leader.
        self._tell(silent=self.is_leader() and monotonic() - self._heard_at > _COMPANY_SEC)

    def _hear(self) -> None:
        found = self.store.demand.use_of_others(self.holder, self.durations.demand_age_sec)
        if found:
            self._heard_at = monotonic()
        if not found and not self._seen:
            return
        calls: dict[str, int] = {}
        newest: dict[tuple[str, str], RunsUse] = {}
        for (replica, namespace, at), use in found.items():
            newest[replica, namespace] = use.one_off
            if (replica, namespace, at) not in self._seen and use.calls:
                calls[namespace] = calls.get(namespace, 0) + use.calls
        self._seen = found
        runs: dict[str, RunsUse] = {}
        for (_, namespace), one_off in newest.items():
            runs[namespace] = runs.get(namespace, RunsUse()) + one_off
        self.set_runs(runs)
        if calls:
            self.charge(calls)

    def _tell(self, *, silent: bool) -> None:
        calls, runs = self.calls(), self.runs()
        before, self._calls = self._calls, calls
        ran, self._runs = self._runs, runs
        if silent:
            return
        uses = {}
        for namespace in calls.keys() | runs.keys() | ran.keys():
            # A tenant whose last function was deleted starts again from 0.
            fresh = calls.get(namespace, 0) - before.get(namespace, 0)
            use = TenantUse(calls=fresh if fresh >= 0 else calls[namespace], one_off=runs.get(namespace, RunsUse()))
            if use.calls or namespace in runs or namespace in ran:
                uses[namespace] = use
        if uses:
            self.store.demand.report_use(self.holder, uses, self.durations.demand_age_sec)
