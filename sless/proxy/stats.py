"""Calls per workload, version and minute, as `call_stats` keeps them."""

from bisect import bisect_left
from datetime import UTC, datetime

from sless.domain.model import CallStatus
from sless.domain.statistics import LATENCY_BOUNDS_MS, CallStats
from sless.proxy.request import CallRecord

StatsKey = tuple[str, int, int]
"""(workload id, version, minute since the epoch)"""


class MinuteStats:
    """The sums of one key."""

    __slots__ = ("call", "calls", "duration_ms", "errors", "gb_ms", "histogram", "outcomes")

    def __init__(self, call: CallRecord) -> None:
        self.call = call
        self.calls = 0
        self.errors = 0
        self.duration_ms = 0.0
        self.gb_ms = 0.0
        self.histogram = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self.outcomes: dict[tuple[str, str], int] = {}
        """Calls by (trigger, status), for the metrics."""

    def add(self, call: CallRecord) -> None:
        self.calls += 1
        if call.status is not CallStatus.SUCCEEDED:
            self.errors += 1
        outcome = (call.trigger, call.status or CallStatus.FAILED)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.duration_ms += call.duration_ms
        self.histogram[bisect_left(LATENCY_BOUNDS_MS, call.duration_ms)] += 1
        revision = call.route.revision
        if revision is not None:
            self.gb_ms += revision.memory_mb / 1024 * call.duration_ms

    def merge(self, other: "MinuteStats") -> None:
        self.calls += other.calls
        self.errors += other.errors
        self.duration_ms += other.duration_ms
        self.gb_ms += other.gb_ms
        for outcome, number in other.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + number
        self.histogram = [mine + theirs for mine, theirs in zip(self.histogram, other.histogram, strict=True)]

    def row(self, key: StatsKey) -> CallStats:
        route = self.call.route
        return CallStats(
            namespace=route.namespace, workload_id=key[0], kind=route.kind, name=route.name, version=key[1],
            minute=datetime.fromtimestamp(key[2] * 60, UTC), calls=self.calls, errors=self.errors, gb_ms=self.gb_ms,
            duration_ms=self.duration_ms, histogram=tuple(self.histogram),
        )  # fmt: skip


def stats_key_of(call: CallRecord) -> StatsKey:
    return call.route.workload_id, call.version or 0, int(call.started_at) // 60
