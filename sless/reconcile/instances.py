"""Standing instances: services, and functions with an enabled http or event trigger or an upcoming cron firing."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sless import clock, metrics
from sless.domain.instance_shares import Wish, shares_of
from sless.domain.limits import limits_of
from sless.domain.model import Kind, Trigger, Workload
from sless.domain.ports import Backend, BackendUnavailable, CodeStore, Deployment, ObservedDeployment, Waker
from sless.reconcile.backoff import Backoff
from sless.reconcile.decide import Apply, Forget, InstanceAction, Remove, decide_instances, deployment_of, observed_of
from sless.store import Store

_log = logging.getLogger(__name__)

FULL_TICK_SEC = 10
"""A tick without news from database or backend is skipped, but at most for this long."""


@dataclass(slots=True, kw_only=True)
class InstancesLoop:
    """`held` returns ids of workloads that builds or runs still use."""

    store: Store
    backend: Backend
    code: CodeStore
    waker: Waker
    held: Callable[[], Iterable[str]]
    limits: Mapping[str, int]
    """The defaults of tenants."""
    backoff: Backoff = field(default_factory=Backoff)
    _short: dict[str, str] = field(default_factory=dict)
    """Workloads that the limits of their tenant leave without any instance, with the reason."""
    _shared: dict[str, int] = field(default_factory=dict)
    _applied: set[str] = field(default_factory=set)
    """Workloads that this server has applied once; from then on the backend detects manual edits."""
    _revision: int = -1
    _changed: bool = True
    _full_at: datetime = field(default_factory=clock.now)

    def changed(self) -> None:
        """Called by the backend when it has news, from any thread."""
        self._changed = True
        self.waker.wake("instances")

    def tick(self) -> None:
        now = clock.now()
        revision = self.store.routes.revision()
        if revision == self._revision and not self._changed and now < self._full_at:
            return
        self._changed = False
        observed = self.backend.observe()
        workloads = {item.id: item for item in self.store.workloads.list_all(tuple(Kind))}
        self.backend.keep_namespaces({item.namespace for item in workloads.values()})
        desired = self._desired(workloads)
        actions = decide_instances(workloads, desired, observed, applied=self._applied, busy=self.held())
        for action in actions:
            self._apply(action, now)
        self._applied &= desired.keys()
        self._record(workloads, desired, observed)
        self._full_at = now + timedelta(seconds=1 if actions else FULL_TICK_SEC)
        # The revision from before the tick: the next tick looks at what this one wrote, and finds nothing to do.
        self._revision = revision

    def _desired(self, workloads: dict[str, Workload]) -> dict[str, Deployment]:
        active = self.store.versions.active_of(list(workloads))
        triggers: dict[tuple[str, str], list[Trigger]] = {}
        for trigger in self.store.triggers.list_standing():
            triggers.setdefault((trigger.namespace, trigger.function_ref), []).append(trigger)
        desired = {}
        for workload in workloads.values():
            wanted = deployment_of(workload, active.get(workload.id), triggers.get((workload.namespace, workload.name), ()))
            if wanted is not None:
                desired[workload.id] = wanted
        return self._within_limits(desired)

    def _within_limits(self, desired: dict[str, Deployment]) -> dict[str, Deployment]:
        own = self.store.tenants.set_limits_of_all()
        wishes = [
            Wish(workload_id=key, namespace=item.revision.namespace, instances=item.replicas, memory_mb=item.revision.memory_mb)
            for key, item in desired.items()
        ]
        shares = shares_of(wishes, lambda namespace: limits_of(self.limits, own.get(namespace, {})))
        # A changed share is no new generation, so what it concerns is applied once more.
        shared = {key: share.instances for key, share in shares.items()}
        self._applied -= {key for key, number in shared.items() if self._shared.get(key, number) != number}
        self._shared = shared
        self._short = {key: share.short for key, share in shares.items() if share.instances == 0}
        return {key: replace(item, replicas=shares[key].instances) for key, item in desired.items() if shares[key].instances}

    def _apply(self, action: InstanceAction, now: datetime) -> None:
        workload_id = action.deployment.revision.workload_id if isinstance(action, Apply) else action.workload_id
        if self.backoff.rests(workload_id, now):
            return
        try:
            match action:
                case Apply(deployment=deployment):
                    self.backend.apply(deployment)
                    self._applied.add(workload_id)
                case Remove():
                    self.backend.remove(workload_id)
                case Forget():
                    self._forget(workload_id)
            self.backoff.succeeded(workload_id)
        except BackendUnavailable:
            raise
        except Exception:
            metrics.reconcile_errors.labels("instances").inc()
            delay_sec = self.backoff.failed(workload_id, now)
            _log.exception("workload %s: %s failed; next attempt in %.0f s", workload_id, type(action).__name__, delay_sec)

    def _forget(self, workload_id: str) -> None:
        """Removes the code first and the row last: a crash in between leaves a row to remove again, never an unreferenced blob."""
        for key in {version.code_key for version in self.store.versions.list_of(workload_id)}:
            self.code.delete(key)
        self.store.workloads.remove(workload_id)

    def _record(self, workloads: dict[str, Workload], desired: dict[str, Deployment], observed: dict[str, ObservedDeployment]) -> None:
        for workload_id, workload in workloads.items():
            if workload.kind is Kind.JOB:
                continue
            seen = observed.get(workload_id)
            self.store.routes.set_endpoints(workload_id, seen.endpoints if seen else ())
            now = observed_of(workload, desired.get(workload_id), seen)
            if workload_id in self._short:
                now = replace(now, generation=0, version=None, failing=True, message=self._short[workload_id])
            self.store.workloads.set_observed(workload_id, now)
        self.waker.wake("routes")
