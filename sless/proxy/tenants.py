"""What the proxy knows about a tenant: the limits of its calls."""

from collections.abc import Mapping
from time import monotonic

from sless.domain.limits import LimitName, limits_of, refusal_of
from sless.errors import SlessError
from sless.proxy.policy import Bucket
from sless.proxy.request import BodyLimit


class LiveTenant:
    """Lives as long as its namespace has routes, so that a new snapshot does not refill its bucket."""

    def __init__(self, defaults: Mapping[str, int], own: Mapping[str, int]) -> None:
        self.limits = limits_of(defaults, own)
        self.body_limit = BodyLimit(self.limits[LimitName.REQUEST_BYTES], LimitName.REQUEST_BYTES)
        self._bucket = Bucket(self.limits[LimitName.CALLS_PER_MINUTE])

    def update(self, defaults: Mapping[str, int], own: Mapping[str, int]) -> None:
        before, self.limits = self.limits, limits_of(defaults, own)
        self.body_limit = BodyLimit(self.limits[LimitName.REQUEST_BYTES], LimitName.REQUEST_BYTES)
        if before[LimitName.CALLS_PER_MINUTE] != self.limits[LimitName.CALLS_PER_MINUTE]:
            self._bucket = Bucket(self.limits[LimitName.CALLS_PER_MINUTE])

    def admit(self) -> bool:
        """Counts a call; False when it is over the limit."""
        return self._bucket.spend(monotonic())

    def refusal(self) -> SlessError:
        most = self.limits[LimitName.CALLS_PER_MINUTE]
        return refusal_of(LimitName.CALLS_PER_MINUTE, most, most + 1, self._bucket.wait_sec)
