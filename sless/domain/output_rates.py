"""Rate limits of output, as one token bucket per owner. Pure."""

from collections import OrderedDict

BYTES_PER_SEC = 2 * 2**20
BURST_BYTES = 8 * 2**20
"""Limits per tenant, so that reading, parsing and the interpreter lock remain available to others."""
_OWNERS = 10_000


class OutputRates:
    def __init__(self, bytes_per_sec: float = BYTES_PER_SEC, burst_bytes: float = BURST_BYTES) -> None:
        self._bytes_per_sec = bytes_per_sec
        self._burst_bytes = burst_bytes
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """owner → bytes left, and the time of that number; full buckets may be missing."""

    def spend(self, owner: str, size_bytes: int, now: float) -> float:
        """Takes bytes that were read; returns for how many seconds to pause reading, 0 to continue."""
        left, at = self._left.pop(owner, (self._burst_bytes, now))
        left = min(self._burst_bytes, left + (now - at) * self._bytes_per_sec) - size_bytes
        self._left[owner] = left, now
        while len(self._left) > _OWNERS:
            self._left.popitem(last=False)
        return max(0.0, -left / self._bytes_per_sec)

    def rest_sec(self, owner: str, now: float) -> float:
        """For how many seconds reading has to pause."""
        return self.spend(owner, 0, now) if owner in self._left else 0.0
