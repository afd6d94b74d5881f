"""Call statistics for charts: time slots with counts and percentiles. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sless.domain.model import CallStatus, Kind

LATENCY_BOUNDS_MS: tuple[float, ...] = (
    0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000,
    7500, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 900_000,
)  # fmt: skip
"""Upper bounds of the latency histogram in `call_stats`; one more bucket holds the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStats:
    """Counts for one version of a workload in one minute, as seen by one server process."""

    namespace: str
    workload_id: str
    kind: Kind
    name: str
    version: int
    minute: datetime
    calls: int
    errors: int
    gb_ms: float
    duration_ms: float
    """Sum over the calls."""
    histogram: tuple[int, ...]
    """len(LATENCY_BOUNDS_MS) + 1 counts."""
    run_gb_ms: float = 0.0
    """The part of `gb_ms` from one-off runs, which use no instance."""
    sent_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUsage:
    """Usage of a namespace in one UTC day (`2026-01-31`)."""

    day: str
    invocations: int
    errors: int
    gb_seconds: float
    """Memory × duration of all calls."""
    instance_gb_seconds: float = 0.0
    """Memory × lifetime of instances, with or without calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCall:
    """The newest call of a workload; `at` is when it started."""

    status: CallStatus
    http_status: int | None
    at: datetime


_SLOT_SECS = (60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400)
MAX_SLOTS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """`at` is its start. Percentiles are None without calls."""

    at: datetime
    calls: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """`total` covers the whole window. Slots without calls are included. `cold`: calls that waited for an instance or process to start, of
    those that history still has."""

    slot_sec: int
    total: Slot
    slots: tuple[Slot, ...]
    cold: int = 0


def series_of(stats: Iterable[CallStats], window: timedelta, now: datetime) -> Series:
    """Slots are aligned to round times, so that charts do not jitter; the last one contains `now`."""
    slot_sec = next((sec for sec in _SLOT_SECS if window.total_seconds() / sec <= MAX_SLOTS), _SLOT_SECS[-1])
    last = int(now.timestamp()) // slot_sec
    first = last - max(1, -(-int(window.total_seconds()) // slot_sec)) + 1
    kept: dict[int, list[CallStats]] = {index: [] for index in range(first, last + 1)}
    for item in stats:
        slot = kept.get(int(item.minute.timestamp()) // slot_sec)
        if slot is not None:
            slot.append(item)
    slots = tuple(_slot_of(datetime.fromtimestamp(index * slot_sec, UTC), items) for index, items in kept.items())
    return Series(slot_sec=slot_sec, total=_slot_of(slots[0].at, [item for items in kept.values() for item in items]), slots=slots)


def percentile_of(histogram: Sequence[int], share: float) -> float | None:
    """Interpolates linearly within a bucket; returns the lower bound of the last, open one. `share` is from 0 to 1; None without calls."""
    total = sum(histogram)
    if total == 0:
        return None
    wanted, below = share * total, 0
    for index, count in enumerate(histogram):
        if count and below + count >= wanted:
            lower = LATENCY_BOUNDS_MS[index - 1] if index else 0.0
            if index == len(LATENCY_BOUNDS_MS):
                return lower
            return round(lower + (LATENCY_BOUNDS_MS[index] - lower) * (wanted - below) / count, 3)
        below += count
    return LATENCY_BOUNDS_MS[-1]


def _slot_of(at: datetime, items: Sequence[CallStats]) -> Slot:
    histogram = [sum(counts) for counts in zip(*(item.histogram for item in items), strict=True)] if items else []
    return Slot(
        at=at,
        calls=sum(item.calls for item in items),
        errors=sum(item.errors for item in items),
        p50_ms=percentile_of(histogram, 0.5),
        p95_ms=percentile_of(histogram, 0.95),
        p99_ms=percentile_of(histogram, 0.99),
    )
