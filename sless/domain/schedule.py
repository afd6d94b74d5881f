"""Cron rules: five fields as cron reads them (weekday 0 and 7 are Sunday), in an IANA time zone. The only home of cronsim."""

from collections.abc import Iterator
from datetime import UTC, datetime
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


def zone_of(name: str) -> ZoneInfo:
    """Raises ValueError for a zone that is not in the IANA database of this machine."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"expected an IANA time zone such as Europe/Berlin, found {name!r}") from error


def check_schedule(schedule: str) -> None:
    """Raises ValueError for what cron cannot read, and for a time that never comes (30 February)."""
    if next(firings_of(schedule, ZoneInfo("UTC"), _ANY_START), None) is None:
        raise ValueError(f"expected a time that comes, found {schedule!r}, which never does")


def firings_of(schedule: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """The times after `after`, aware and in UTC. Raises ValueError for a schedule that cron cannot read."""
    text = ALIASES.get(schedule.strip(), schedule.strip())
    if len(text.split()) != 5:
        raise ValueError(f"expected five fields (minute hour day month weekday) or one of {', '.join(ALIASES)}, found {schedule!r}")
    try:
        moments = CronSim(text, after.astimezone(zone))
    except CronSimError as error:
        raise ValueError(f"expected a cron schedule such as 30 4 * * 1-5, found {schedule!r}: {error}") from error
    return (moment.astimezone(UTC) for moment in moments)
