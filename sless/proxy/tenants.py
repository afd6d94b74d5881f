"""Limits on the calls of a tenant."""

from collections import Counter
from collections.abc import Iterable, Mapping
from time import monotonic

from sless.domain.limits import LimitName, TenantLimits, limits_of, refusal_of
from sless.domain.ports import Route
from sless.errors import SlessError
from sless.proxy.policy import Bucket
from sless.proxy.request import BodyLimit

_SMALL_BURST = 100
_BURST_PER_MINUTE = 30
"""A burst may use the calls of 2 s (1/30 of a minute): with those of a whole minute, a flood could occupy the server for seconds."""


class LiveTenant:
    """Lives as long as its namespace has routes, so that a new snapshot does not refill its bucket."""

    def __init__(self, defaults: Mapping[str, int], own: Mapping[str, int]) -> None:
        self.limits = limits_of(defaults, own)
        self.body_limit = BodyLimit(self.limits[LimitName.REQUEST_BYTES], LimitName.REQUEST_BYTES)
        self._bucket = _bucket_of(self.limits)
        self.calls = 0
        """Number of calls admitted by this replica."""
        self.instances_mb = 0

    def update(self, defaults: Mapping[str, int], own: Mapping[str, int]) -> None:
        before, self.limits = self.limits, limits_of(defaults, own)
        self.body_limit = BodyLimit(self.limits[LimitName.REQUEST_BYTES], LimitName.REQUEST_BYTES)
        if before[LimitName.CALLS_PER_MINUTE] != self.limits[LimitName.CALLS_PER_MINUTE]:
            self._bucket = _bucket_of(self.limits)

    def admit(self) -> bool:
        """Counts a call; False when it is over the limit."""
        admitted = self._bucket.spend(monotonic())
        self.calls += admitted
        return admitted

    def charge(self, calls: int) -> None:
        """Counts calls that other replicas of the server have admitted."""
        self._bucket.charge(calls, monotonic())

    def refusal(self) -> SlessError:
        most = self.limits[LimitName.CALLS_PER_MINUTE]
        return refusal_of(LimitName.CALLS_PER_MINUTE, most, most + 1, self._bucket.wait_sec)


def _bucket_of(limits: TenantLimits) -> Bucket:
    most = limits[LimitName.CALLS_PER_MINUTE]
    return Bucket(most, burst=max(min(most, _SMALL_BURST), most // _BURST_PER_MINUTE))


def instance_memory_of(routes: Iterable[Route]) -> Counter[str]:
    """MB of the instances that take calls, by namespace."""
    found: Counter[str] = Counter()
    for route in routes:
        if route.revision is not None:
            found[route.namespace] += route.revision.memory_mb * sum(not item.draining for item in route.endpoints)
    return found
