"""Applies the rule of `scaling` to all workloads of this installation, on the leader."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sless import metrics
from sless.domain.demand import NO_LOAD, Load
from sless.domain.durations import Durations
from sless.domain.instance_bounds import MOST, bounds_of
from sless.domain.instance_shares import InstanceDemand, shares_of
from sless.domain.limits import LimitName, TenantLimits, limits_of, short_text_of
from sless.domain.model import Endpoint
from sless.domain.ports import ObservedDeployment
from sless.reconcile.decide import ScaleTarget, is_proven
from sless.reconcile.scaling import Claim, Observation, Scale, fitted


@dataclass(slots=True, kw_only=True)
class Scaler:
    """`most` is the server's maximum per workload. `memory_mb` limits the memory of all instances together; None: no limit."""

    durations: Durations = field(default_factory=Durations)
    most: int = MOST
    memory_mb: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    """Default limits of tenants; none if empty."""
    runs_mb: Callable[[str], int] = lambda namespace: 0
    """Memory that one-off runs of a tenant have or wait for; its instances get the rest, but those that calls need stay."""
    monotonic: Callable[[], float] = time.monotonic
    notes: dict[str, str] = field(default_factory=dict)
    """Why a workload has fewer instances than its calls need, by id."""
    _scales: dict[str, Scale] = field(default_factory=dict)

    def forget(self) -> None:
        """Call this when leadership begins, since another server may have led in the meantime."""
        self._scales.clear()

    def numbers_of(
        self,
        targets: Mapping[str, ScaleTarget],
        observed: Mapping[str, ObservedDeployment],
        loads: Mapping[str, Load],
        own_limits: Mapping[str, Mapping[str, int]],
    ) -> dict[str, int]:
        """The desired number of instances of each workload that may have any. `own_limits`: limits set by operators, by namespace."""
        now, claims, cold = self.monotonic(), [], []
        for workload_id, item in targets.items():
            observation = self._observation_of(item, observed.get(workload_id), loads.get(workload_id, NO_LOAD))
            scale = self._scales.get(workload_id)
            if scale is None:
                scale = self._scales[workload_id] = Scale.resume(observation.ready, now, self.durations.stable_window_sec)
            before = scale.desired
            if not scale.rests(observation):
                scale.step(observation, now)
            if scale.desired and not before and observation.load.calls and not observation.needed:
                cold.append(scale)
            if scale.desired:
                claims.append(_claim_of(item, observation, scale, before))
        for workload_id in self._scales.keys() - targets.keys():
            del self._scales[workload_id]
        self._fit(claims, own_limits)
        # Without room nothing starts, and the next tick desires it again.
        metrics.cold_starts.inc(sum(scale.desired > 0 for scale in cold))
        return {workload_id: self._scales[workload_id].desired for workload_id in targets}

    def _observation_of(self, item: ScaleTarget, observed: ObservedDeployment | None, load: Load) -> Observation:
        workload = item.workload
        return Observation(
            load=load,
            bounds=bounds_of(workload.kind, workload.spec, self.most),
            concurrency=workload.spec.concurrency,
            idle_sec=workload.spec.idle_seconds,
            ready=len(current_of(item, observed)),
            needed=item.warm or not is_proven(workload),
        )

    def _fit(self, claims: list[Claim], own: Mapping[str, Mapping[str, int]]) -> None:
        """Lowers numbers to the limits of the tenants and the memory of the machine."""
        self.notes = {}
        of_tenant: dict[str, list[Claim]] = {}
        for item in claims:
            of_tenant.setdefault(item.namespace, []).append(item)
        left = []
        for namespace, mine in of_tenant.items():
            left += self._within_tenant(namespace, mine, limits_of(self.limits, own.get(namespace, {}))) if self.limits else mine
        if self.memory_mb is not None:
            left = self._within_machine(left, self.memory_mb)
        for item in left:
            self._scales[item.workload_id].desired = item.number

    def _within_tenant(self, namespace: str, claims: list[Claim], limits: TenantLimits) -> list[Claim]:
        number, memory_mb = sum(item.number for item in claims), sum(item.number * item.memory_mb for item in claims)
        room_mb = limits[LimitName.MEMORY_MB] - self.runs_mb(namespace)
        if number <= limits[LimitName.INSTANCES] and memory_mb <= room_mb:
            return claims
        # First give up instances that no call needs, then share the rest.
        left = _with(claims, fitted([replace(item, memory_mb=1) for item in claims], limits[LimitName.INSTANCES]))
        left = _with(left, fitted(left, room_mb))
        demands = [
            InstanceDemand(workload_id=item.workload_id, namespace=item.namespace, instances=item.number, memory_mb=item.memory_mb)
            for item in left
        ]
        shares = shares_of(demands, lambda _: limits)
        over = LimitName.INSTANCES if number > limits[LimitName.INSTANCES] else LimitName.MEMORY_MB
        left = [replace(item, number=shares[item.workload_id].instances) for item in left]
        for item in left:
            if item.number < item.kept:
                self.notes[item.workload_id] = shares[item.workload_id].short or short_text_of(over, limits)
        return left

    def _within_machine(self, claims: list[Claim], memory_mb: int) -> list[Claim]:
        changed = fitted(claims, memory_mb)
        left = _with(claims, changed)
        used_mb = sum(item.number * item.memory_mb for item in left)
        for item in left:
            if item.workload_id in changed and item.number < item.kept:
                self.notes[item.workload_id] = (
                    f"not enough memory for another instance: it needs {item.memory_mb} MB, and instances have {used_mb} of "
                    f"{memory_mb} MB (SLESS_MAX_MEMORY_MB)"
                )
        return left


def _with(claims: list[Claim], numbers: Mapping[str, int]) -> list[Claim]:
    return [replace(item, number=numbers.get(item.workload_id, item.number)) for item in claims]


def current_of(item: ScaleTarget, observed: ObservedDeployment | None) -> list[Endpoint]:
    """Endpoints of the active version that take calls."""
    endpoints = observed.endpoints if observed else ()
    return [one for one in endpoints if not one.draining and one.version == item.revision.version]


def _claim_of(item: ScaleTarget, observation: Observation, scale: Scale, before: int) -> Claim:
    kept = max(observation.bounds.least, scale.wanted(observation), int(observation.needed))
    return Claim(
        workload_id=item.workload.id, namespace=item.workload.namespace, memory_mb=item.revision.memory_mb,
        number=scale.desired, current=before,
        kept=min(kept, observation.bounds.most), called_at=scale.called_at,
    )  # fmt: skip
