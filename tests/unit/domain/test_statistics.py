from datetime import UTC, datetime, timedelta

import pytest

from sless.domain.model import Kind
from sless.domain.statistics import LATENCY_BOUNDS_MS, MAX_SLOTS, CallStats, percentile_of, series_of

NOW = datetime(2026, 1, 31, 9, 26, 30, tzinfo=UTC)


def stats(minutes_ago: int, calls: int, errors: int = 0, bucket: int = 0, version: int = 1) -> CallStats:
    histogram = [0] * (len(LATENCY_BOUNDS_MS) + 1)
    histogram[bucket] = calls
    minute = NOW.replace(second=0) - timedelta(minutes=minutes_ago)
    return CallStats(
        namespace="n",
        workload_id="w",
        kind=Kind.FUNCTION,
        name="f",
        version=version,
        minute=minute,
        calls=calls,
        errors=errors,
        gb_ms=0,
        duration_ms=0,
        histogram=tuple(histogram),
    )


def test_slots_cover_the_window_and_sum_to_the_total() -> None:
    series = series_of([stats(0, 2), stats(0, 3, version=2), stats(5, 1, errors=1), stats(59, 4), stats(60, 100)], timedelta(hours=1), NOW)
    assert series.slot_sec == 60 and len(series.slots) == 60
    assert (series.slots[-1].calls, series.slots[-6].errors, series.slots[0].calls) == (5, 1, 4)
    assert (series.total.calls, series.total.errors) == (10, 1)
    assert series.slots[1].p50_ms is None and series.slots[-1].at == NOW.replace(second=0)


@pytest.mark.parametrize(
    "window", [timedelta(minutes=1), timedelta(minutes=90), timedelta(hours=24), timedelta(days=7), timedelta(days=400)]
)
def test_slots_are_bounded_and_aligned(window: timedelta) -> None:
    series = series_of([], window, NOW)
    assert 1 <= len(series.slots) <= MAX_SLOTS
    assert all(slot.at.timestamp() % series.slot_sec == 0 for slot in series.slots)
    assert series.slots[-1].at <= NOW < series.slots[-1].at + timedelta(seconds=series.slot_sec)


def test_percentiles() -> None:
    histogram = [0] * (len(LATENCY_BOUNDS_MS) + 1)
    assert percentile_of(histogram, 0.5) is None
    histogram[1] = 100  # 0.5 to 1 ms
    assert percentile_of(histogram, 0.5) == 0.75 and percentile_of(histogram, 1.0) == 1.0
    histogram[-1] = 100
    assert percentile_of(histogram, 0.99) == LATENCY_BOUNDS_MS[-1]
    assert percentile_of(histogram, 0.5) == 1.0
