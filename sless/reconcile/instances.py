"""Instances of services, and of functions with an enabled http or event trigger or an upcoming cron firing. Their number follows the calls
(`scaling`)."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sless import clock, metrics
from sless.domain.demand import Load
from sless.domain.model import Kind, Trigger, Workload
from sless.domain.ports import Backend, BackendUnavailable, CodeStore, Deployment, ObservedDeployment, Waker
from sless.reconcile.decide import Apply, Forget, InstanceAction, Remove, ScaleTarget, decide_instances, observed_of, scale_target_of
from sless.reconcile.failures import Backoff, note_failure
from sless.reconcile.scaler import Scaler
from sless.reconcile.uptime import UptimeMeter
from sless.store import Store

_log = logging.getLogger(__name__)

FULL_TICK_SEC = 10
"""Maximum time between full ticks. Without changes in database, backend or calls, ticks in between change nothing and read little."""
READ_SEC = 60
"""How often rows are read without a new revision. Each change of a workload, version, trigger or limit makes one."""


@dataclass(slots=True, kw_only=True)
class InstancesLoop:
    """`held` returns ids of workloads that builds or runs still use, `loads` the load of each workload."""

    store: Store
    backend: Backend
    code: CodeStore
    waker: Waker
    held: Callable[[], Iterable[str]]
    loads: Callable[[], Mapping[str, Load]] = dict
    scaler: Scaler = field(default_factory=Scaler)
    backoff: Backoff = field(default_factory=Backoff)
    memory_mb: Mapping[str, int] = field(default_factory=dict)
    """Memory of instances, desired or running, by namespace."""
    _applied: dict[str, int] = field(default_factory=dict)
    """Numbers of instances that this server has applied since it leads; from then on the backend detects manual edits."""
    _workloads: dict[str, Workload] = field(default_factory=dict)
    _targets: dict[str, ScaleTarget] = field(default_factory=dict)
    _observed: dict[str, ObservedDeployment] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _notes: dict[str, str] = field(default_factory=dict)
    _uptime: UptimeMeter = field(init=False)
    _limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    _revision: int = -1
    _read_revision: int = -1
    """The revision of the rows in memory."""
    _read_at: datetime = field(default_factory=clock.now)
    """When they are read again."""
    _changed: bool = True
    _full_at: datetime = field(default_factory=clock.now)

    def __post_init__(self) -> None:
        self._uptime = UptimeMeter(store=self.store)

    def changed(self) -> None:
        """Called by the backend when its observations change, from any thread."""
        self._changed = True
        self.waker.wake("instances")

    def lead(self) -> None:
        """Called when this server becomes the leader, since another one may have changed anything."""
        self._applied = {}
        self._revision = self._read_revision = -1
        self.scaler.forget()
        self._uptime.forget()
        self.waker.wake("instances")

    def stop(self) -> None:
        """Stores what is only in memory."""
        self._uptime.write()

    def tick(self) -> None:
        now = clock.now()
        revision = self.store.routes.revision()
        is_due = self._changed or revision != self._revision or now >= self._full_at
        if is_due:
            self._observe()
            if revision != self._read_revision or now >= self._read_at:
                self._read()
                self._read_revision, self._read_at = revision, now + timedelta(seconds=READ_SEC)
        self._uptime.note(self._workloads, self._observed, now)
        numbers = self.scaler.numbers_of(self._targets, self._observed, self.loads(), self._limits)
        self.memory_mb = self._memory_of(numbers)
        if not is_due and numbers == self._numbers and self.scaler.notes == self._notes:
            return
        self._numbers, self._notes = numbers, self.scaler.notes
        actions = self._act(now)
        self._full_at = now + timedelta(seconds=1 if actions else FULL_TICK_SEC)
        # The revision from before the tick, so that the next tick also reads what this one wrote (and finds nothing to do).
        self._revision = revision

    def _observe(self) -> None:
        self._changed = False
        try:
            self._observed = self.backend.observe()
        except BaseException:
            self._changed = True
            raise

    def _read(self) -> None:
        self._workloads = {item.id: item for item in self.store.workloads.list_all(tuple(Kind))}
        self._targets = self._read_targets()
        self._limits = self.store.tenants.set_limits_of_all()

    def _memory_of(self, numbers: Mapping[str, int]) -> dict[str, int]:
        found: Counter[str] = Counter()
        for workload_id, item in self._targets.items():
            deployment = self._observed.get(workload_id)
            serving = sum(not one.draining for one in deployment.endpoints) if deployment else 0
            found[item.workload.namespace] += max(numbers[workload_id], serving) * item.revision.memory_mb
        return found

    def _act(self, now: datetime) -> list[InstanceAction]:
        self.backend.keep_namespaces({item.namespace for item in self._workloads.values()})
        desired = {workload_id: item.deployment(self._numbers[workload_id]) for workload_id, item in self._targets.items()}
        actions = decide_instances(self._workloads, desired, self._observed, applied=self._applied, busy=self.held())
        for action in actions:
            self._apply(action, now)
        self._applied = {key: number for key, number in self._applied.items() if key in desired}
        self._record(desired)
        return actions

    def _read_targets(self) -> dict[str, ScaleTarget]:
        active = self.store.versions.active_of(list(self._workloads))
        triggers: dict[tuple[str, str], list[Trigger]] = {}
        for trigger in self.store.triggers.list_affecting_instances():
            triggers.setdefault((trigger.namespace, trigger.function_ref), []).append(trigger)
        found = {}
        for workload in self._workloads.values():
            target = scale_target_of(workload, active.get(workload.id), triggers.get((workload.namespace, workload.name), ()))
            if target is not None:
                found[workload.id] = target
        return found

    def _apply(self, action: InstanceAction, now: datetime) -> None:
        workload_id = action.deployment.revision.workload_id if isinstance(action, Apply) else action.workload_id
        if self.backoff.rests(workload_id, now):
            return
        try:
            match action:
                case Apply(deployment=deployment):
                    self.backend.apply(deployment)
                    self._applied[workload_id] = deployment.replicas
                case Remove():
                    self.backend.remove(workload_id)
                case Forget():
                    self._forget(workload_id)
            self.backoff.succeeded(workload_id)
        except BackendUnavailable:
            raise
        except Exception as error:
            note_failure(self.store, "instances", error, workload_id)
            delay_sec = self.backoff.failed(workload_id, now)
            _log.exception("workload %s: %s failed; next attempt in %.0f s", workload_id, type(action).__name__, delay_sec)

    def _forget(self, workload_id: str) -> None:
        """Removes the code first and the row last: a crash in between leaves a row to remove again, never an unreferenced blob."""
        for key in {version.code_key for version in self.store.versions.list_of(workload_id)}:
            self.code.delete(key)
        self.store.workloads.remove(workload_id)

    def _record(self, desired: Mapping[str, Deployment]) -> None:
        known = self.store.routes.all_endpoints()
        for workload_id, workload in self._workloads.items():
            if workload.kind is Kind.JOB:
                continue
            deployment = self._observed.get(workload_id)
            endpoints = deployment.endpoints if deployment else ()
            if sorted(known.get(workload_id, ()), key=lambda one: one.id) != sorted(endpoints, key=lambda one: one.id):
                self.store.routes.set_endpoints(workload_id, endpoints)
            observed = observed_of(workload, desired.get(workload_id), deployment, self._notes.get(workload_id, ""))
            if replace(workload.observed, observed_at=None) != observed:
                self.store.workloads.set_observed(workload_id, observed)
        for state, number in states_of(desired, self._observed).items():
            metrics.instances.labels(state).set(number)
        self.waker.wake("routes")


def states_of(desired: Mapping[str, Deployment], observed: Mapping[str, ObservedDeployment]) -> dict[str, int]:
    """Number of instances of all workloads, by state."""
    endpoints = [one for deployment in observed.values() for one in deployment.endpoints]
    draining = sum(one.draining for one in endpoints)
    starting = 0
    for workload_id, wanted in desired.items():
        deployment = observed.get(workload_id)
        current = [one for one in deployment.endpoints if not one.draining and one.version == wanted.revision.version] if deployment else []
        starting += max(0, wanted.replicas - len(current))
    return {"ready": len(endpoints) - draining, "starting": starting, "draining": draining}
