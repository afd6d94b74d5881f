"""Shares a tenant's limits among its workloads when together they need more instances. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sless.domain.limits import LimitName, TenantLimits, short_text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceDemand:
    """`instances` is the number the workload needs by its own settings and load."""

    workload_id: str
    namespace: str
    instances: int
    memory_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`short` says why `instances` is less than the demand; "" if it is not."""

    instances: int
    short: str = ""


def shares_of(demands: Iterable[InstanceDemand], limits_of: Callable[[str], TenantLimits]) -> dict[str, Share]:
    """Shares by workload id. The workloads of a tenant get one instance each, in the given order, then a second one, and so on. Keep the
    order stable, since it decides which workloads get fewer. `limits_of` takes a namespace."""
    of_tenant: dict[str, list[InstanceDemand]] = {}
    for demand in demands:
        of_tenant.setdefault(demand.namespace, []).append(demand)
    found: dict[str, Share] = {}
    for namespace, mine in of_tenant.items():
        found |= _shares_of_one(mine, limits_of(namespace))
    return found


def _shares_of_one(demands: list[InstanceDemand], limits: TenantLimits) -> dict[str, Share]:
    got = {demand.workload_id: 0 for demand in demands}
    short: dict[str, str] = {}
    left = limits[LimitName.INSTANCES]
    left_mb = limits[LimitName.MEMORY_MB]
    open_demands = [demand for demand in demands if demand.instances > 0]
    while open_demands:
        for demand in open_demands:
            over = LimitName.INSTANCES if left < 1 else LimitName.MEMORY_MB if left_mb < demand.memory_mb else None
            if over is not None:
                short[demand.workload_id] = short_text_of(over, limits)
                continue
            got[demand.workload_id] += 1
            left, left_mb = left - 1, left_mb - demand.memory_mb
        open_demands = [demand for demand in open_demands if demand.workload_id not in short and got[demand.workload_id] < demand.instances]
    return {key: Share(instances=number, short=short.get(key, "")) for key, number in got.items()}
