"""Uptime of instances, billed separately from calls. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sless.domain.model import Kind
from sless.domain.statistics import DayUsage

MB_PER_GB = 1024
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One instance that a leader observed from `since` to `until`. `since` is None if the time before has been counted. `memory_mb` is its
    memory at the first observation."""

    endpoint_id: str
    workload_id: str
    namespace: str
    kind: Kind
    name: str
    memory_mb: int
    since: datetime | None
    until: datetime


def days_between(start: datetime, end: datetime) -> Iterator[tuple[str, float]]:
    """Milliseconds between `start` and `end` per UTC day; empty if `end` is not later."""
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    while start < end:
        midnight = datetime(start.year, start.month, start.day, tzinfo=UTC) + timedelta(days=1)
        until = min(end, midnight)
        yield start.date().isoformat(), (until - start) / _MS
        start = until


def with_uptime(days: Iterable[DayUsage], uptime: Mapping[str, float]) -> list[DayUsage]:
    """Days with calls or instances, oldest first. `uptime`: GB-seconds by day."""
    empty = {day: DayUsage(day=day, invocations=0, errors=0, gb_seconds=0.0) for day in uptime}
    found = empty | {item.day: item for item in days}
    return [replace(found[day], instance_gb_seconds=uptime.get(day, 0.0)) for day in sorted(found)]
