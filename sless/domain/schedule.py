"""Cron schedules: the usual five fields (weekday 0 and 7 are Sunday), in an IANA time zone. The only module that imports cronsim.

Daylight saving time: a schedule that names hours (`30 2 * * *`, `*/15 2 * * *`, `0 */2 * * *`) fires once per wall-clock time. A time that
the clock skips fires at the first instant after the gap, one that occurs twice fires the first time. A schedule for every hour
(`*/5 * * * *`, `0 * * * *`) is treated as an interval and fires at every instant whose wall-clock time matches.
"""

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_ANY_START = datetime(2024, 1, 1, tzinfo=UTC)
_EVERY_HOUR = frozenset(range(24))
_MOST_REPEATED = timedelta(hours=4)
"""No current time zone sets its clock back further (Antarctica/Casey: 3 hours)."""


def zone_of(name: str) -> ZoneInfo:
    """Raises ValueError for a zone missing from this machine's IANA database."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"expected an IANA time zone such as Europe/Berlin, found {name!r}") from error


def check_schedule(schedule: str) -> None:
    """Raises ValueError for a malformed schedule, and for one that never fires (30 February)."""
    if next(firings_of(schedule, ZoneInfo("UTC"), _ANY_START), None) is None:
        raise _never(schedule)


def firings_of(schedule: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """The firings after `after`, in order, as aware UTC times. Raises ValueError for a malformed schedule."""
    after = after.astimezone(UTC)
    start = after.astimezone(zone).replace(tzinfo=None)
    times = _wall_times(schedule, start)
    moments: Iterator[datetime]
    if times.hours != _EVERY_HOUR:
        moments = (_first_of(wall, zone) for wall in times)
    elif _offset(after - _MOST_REPEATED, zone) == _offset(after + _MOST_REPEATED, zone):
        moments = _each_of(times, zone)
    else:  # Near a change, the clock may repeat times that it showed before `after`.
        moments = _each_of(_wall_times(schedule, start - _MOST_REPEATED), zone)
    return _rising(moments, after)


@functools.lru_cache(maxsize=1024)
def find_next_firing(schedule: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    """The first firing after `after`. Cached, since many triggers share a schedule."""
    return next(firings_of(schedule, zone, after), None)


def find_last_firing(schedule: str, zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The last firing in (after, until]. Cheap, however long the span."""
    span = timedelta(hours=1)
    while True:
        start = max(after, until - span)
        newest = None
        for moment in firings_of(schedule, zone, start):
            if moment > until:
                break
            newest = moment
        if newest is not None or start == after:
            return newest
        span *= 8


def count_firings(schedule: str, zone: ZoneInfo, after: datetime, until: datetime, most: int) -> int:
    """The number of firings in (after, until], at most `most`."""
    return sum(1 for moment in islice(firings_of(schedule, zone, after), most) if moment <= until)


def _wall_times(schedule: str, start: datetime) -> CronSim:
    """Naive wall-clock times after `start`, including those that the clock skips."""
    text = ALIASES.get(schedule.strip().lower(), schedule.strip())
    if len(text.split()) != 5:
        raise ValueError(f"expected five fields (minute hour day month weekday) or one of {', '.join(ALIASES)}, found {schedule!r}")
    try:
        return CronSim(text, start)
    except CronSimError as error:
        if _is_readable_in_any_month(text, start):
            raise _never(schedule) from error
        raise ValueError(f"expected a cron schedule such as 30 4 * * 1-5, found {schedule!r}: {error}") from error


def _is_readable_in_any_month(text: str, start: datetime) -> bool:
    """If so, the schedule is valid except that its months are too short for its days."""
    minute, hour, day, month, weekday = text.split()
    try:
        CronSim(f"0 0 1 {month} *", start)
        CronSim(f"{minute} {hour} {day} * {weekday}", start)
    except CronSimError:
        return False
    return True


def _never(schedule: str) -> ValueError:
    return ValueError(f"the schedule {schedule!r} never fires")


def _first_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant of a wall-clock time: the first one if it occurs twice, the end of the gap if it is skipped."""
    moment = wall.replace(tzinfo=zone).astimezone(UTC)
    return moment if _shows(moment, zone, wall) else _end_of_gap(wall, zone)


def _each_of(times: Iterator[datetime], zone: ZoneInfo) -> Iterator[datetime]:
    """Every instant at which the clock shows one of `times`, in order."""
    again: list[datetime] = []
    for wall in times:
        first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if not _shows(first, zone, wall):
            continue
        while again and again[0] < first:
            yield again.pop(0)
        yield first
        if second != first:
            again.append(second)
    yield from again


def _rising(moments: Iterator[datetime], after: datetime) -> Iterator[datetime]:
    """Those after `after`, without duplicates: skipped times all map to the end of the gap."""
    last = after
    for moment in moments:
        if moment > last:
            yield moment
            last = moment


def _shows(moment: datetime, zone: ZoneInfo, wall: datetime) -> bool:
    return moment.astimezone(zone).replace(tzinfo=None) == wall


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta | None:
    return moment.astimezone(zone).utcoffset()


def _end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """Bisects for the clock change, which lies between the two interpretations (fold 0 and 1) of a skipped time."""
    before, behind = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    offset = _offset(behind, zone)
    while behind - before > timedelta(seconds=1):
        middle = before + (behind - before) // 2
        middle = middle.replace(microsecond=0)
        before, behind = (before, middle) if _offset(middle, zone) == offset else (middle, behind)
    return behind
