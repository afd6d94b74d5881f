"""Sums of calls per workload, version and minute, as stored in `call_stats`. Pure."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

from sless.domain.model import CallStatus, Kind
from sless.domain.statistics import LATENCY_BOUNDS_MS, CallStats

SumsKey = tuple[str, int, int]
"""(workload id, version, minute since the epoch)"""


class RouteFacts(NamedTuple):
    """Facts shared by all calls of one route."""

    workload_id: str
    namespace: str
    kind: str
    name: str
    memory_mb: int
    on_instances: bool = False


class Outcomes(NamedTuple):
    """Figures for the metrics: calls by (kind, trigger, status), and a histogram of durations with the buckets of LATENCY_BOUNDS_MS."""

    calls: dict[tuple[str, str, str], int]
    histogram: list[int]
    duration_ms: float


class CallSums:
    """Sums of the calls with one SumsKey."""

    __slots__ = ("calls", "duration_ms", "errors", "facts", "gb_ms", "histogram", "outcomes", "run_gb_ms", "sent_bytes")

    def __init__(self, facts: RouteFacts) -> None:
        self.facts = facts
        self.calls = 0
        self.errors = 0
        self.duration_ms = 0.0
        self.gb_ms = 0.0
        self.run_gb_ms = 0.0
        self.sent_bytes = 0
        self.histogram = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self.outcomes: dict[tuple[str, str], int] = {}
        """Calls by (trigger, status)."""

    def add(self, facts: RouteFacts, outcome: tuple[str, str], duration_ms: float, sent_bytes: int = 0) -> None:
        self.calls += 1
        if outcome[1] != CallStatus.SUCCEEDED:
            self.errors += 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.duration_ms += duration_ms
        self.histogram[bisect_left(LATENCY_BOUNDS_MS, duration_ms)] += 1
        gb_ms = facts.memory_mb / 1024 * duration_ms
        self.gb_ms += gb_ms
        if not facts.on_instances:
            self.run_gb_ms += gb_ms
        self.sent_bytes += sent_bytes

    def merge(self, other: Self) -> None:
        self.calls += other.calls
        self.errors += other.errors
        self.duration_ms += other.duration_ms
        self.gb_ms += other.gb_ms
        self.run_gb_ms += other.run_gb_ms
        self.sent_bytes += other.sent_bytes
        for outcome, number in other.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + number
        self.histogram = [mine + theirs for mine, theirs in zip(self.histogram, other.histogram, strict=True)]

    def plain(self) -> tuple[Any, ...]:
        """Built-in types only, so that marshal can write it; `of_plain` is the inverse."""
        outcomes = tuple((trigger, status, number) for (trigger, status), number in self.outcomes.items())
        metered = (self.gb_ms, self.run_gb_ms, self.sent_bytes)
        return tuple(self.facts), self.calls, self.errors, self.duration_ms, metered, tuple(self.histogram), outcomes

    @classmethod
    def of_plain(cls, plain: tuple[Any, ...]) -> Self:
        facts, calls, errors, duration_ms, metered, histogram, outcomes = plain
        made = cls(RouteFacts._make(facts))
        made.calls, made.errors, made.duration_ms, made.histogram = calls, errors, duration_ms, list(histogram)
        made.gb_ms, made.run_gb_ms, made.sent_bytes = metered
        made.outcomes = {(trigger, status): number for trigger, status, number in outcomes}
        return made

    def row(self, key: SumsKey) -> CallStats:
        facts = self.facts
        return CallStats(
            namespace=facts.namespace, workload_id=key[0], kind=Kind(facts.kind), name=facts.name, version=key[1],
            minute=datetime.fromtimestamp(key[2] * 60, UTC), calls=self.calls, errors=self.errors, gb_ms=self.gb_ms,
            duration_ms=self.duration_ms, histogram=tuple(self.histogram),
            run_gb_ms=self.run_gb_ms, sent_bytes=self.sent_bytes,
        )  # fmt: skip


def merge_into(all_sums: dict[SumsKey, CallSums], more: dict[SumsKey, CallSums]) -> None:
    for key, sums in more.items():
        if key in all_sums:
            all_sums[key].merge(sums)
        else:
            all_sums[key] = sums


def outcomes_of(all_sums: Iterable[CallSums]) -> Outcomes:
    calls: Counter[tuple[str, str, str]] = Counter()
    histogram, duration_ms = [0] * (len(LATENCY_BOUNDS_MS) + 1), 0.0
    for sums in all_sums:
        for (trigger, status), number in sums.outcomes.items():
            calls[sums.facts.kind, trigger, status] += number
        histogram = [mine + theirs for mine, theirs in zip(histogram, sums.histogram, strict=True)]
        duration_ms += sums.duration_ms
    return Outcomes(dict(calls), histogram, duration_ms)
