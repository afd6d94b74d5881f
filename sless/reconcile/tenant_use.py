"""Use by tenants over all replicas of the server, so that the limits on calls per minute, and on runs and their memory, apply to all
replicas together.

Decision: replicas exchange their numbers through the database, twice a second. A call does not wait for that: each replica has its own
token bucket, from which the calls of the others are deducted afterwards, so it may go below zero. Consequence: a burst on several replicas
may exceed the limit for half a second, and fewer calls are admitted after that. A single server writes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

from sless.domain.demand import RunsUse, TenantUse
from sless.domain.durations import Durations
from sless.store import Store

_COMPANY_SEC = 30.0
"""How long this replica keeps reporting after the last report of another one."""

Key = tuple[str, str, datetime]


@dataclass(slots=True, kw_only=True)
class TenantUseLoop:
    """Ticks on every replica. `calls` returns this process's calls in total, by namespace; `runs` its active runs. `charge` and `set_runs`
    get the reports of the others."""

    store: Store
    holder: str
    is_leader: Callable[[], bool]
    calls: Callable[[], Mapping[str, int]]
    runs: Callable[[], Mapping[str, RunsUse]]
    charge: Callable[[Mapping[str, int]], None]
    set_runs: Callable[[Mapping[str, RunsUse]], None]
    durations: Durations = field(default_factory=Durations)
    _calls: Mapping[str, int] = field(default_factory=dict)
    """As last reported."""
    _runs: Mapping[str, RunsUse] = field(default_factory=dict)
    _seen: Mapping[Key, TenantUse] = field(default_factory=dict)
    _collected_at: float = float("-inf")

    def tick(self) -> None:
        self._collect()
        # The leader considers itself alone until another replica reports; the others know that there is a leader.
        self._report(silent=self.is_leader() and monotonic() - self._collected_at > _COMPANY_SEC)

    def _collect(self) -> None:
        found = self.store.demand.use_of_others(self.holder, self.durations.demand_age_sec)
        if found:
            self._collected_at = monotonic()
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

    def _report(self, *, silent: bool) -> None:
        calls, runs = self.calls(), self.runs()
        before, self._calls = self._calls, calls
        ran, self._runs = self._runs, runs
        if silent:
            return
        uses = {}
        for namespace in calls.keys() | runs.keys() | ran.keys():
            # The count of a tenant restarts from 0 after its last function was deleted.
            fresh = calls.get(namespace, 0) - before.get(namespace, 0)
            use = TenantUse(calls=fresh if fresh >= 0 else calls[namespace], one_off=runs.get(namespace, RunsUse()))
            if use.calls or namespace in runs or namespace in ran:
                uses[namespace] = use
        if uses:
            self.store.demand.report_use(self.holder, uses, self.durations.demand_age_sec)
