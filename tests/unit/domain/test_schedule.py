"""Cron schedules and daylight saving time, checked against croniter and against a walk of the clock minute by minute."""

import random
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from sless.domain.schedule import ALIASES, check_schedule, count_firings, find_last_firing, firings_of, zone_of

START = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday

# schedule, start, the next two firings; in UTC
PLAIN = [
    ("* * * * *", "2026-01-01 00:00", "01-01 00:01", "01-01 00:02"),
    ("* * * * *", "2026-01-01 00:00:59", "01-01 00:01", "01-01 00:02"),
    ("* * * * *", "2026-12-31 23:59", "01-01 00:00", "01-01 00:01"),
    ("0 * * * *", "2026-01-01 00:00", "01-01 01:00", "01-01 02:00"),
    ("59 23 * * *", "2026-01-01 00:00", "01-01 23:59", "01-02 23:59"),
    ("0 0 * * *", "2026-01-01 00:00", "01-02 00:00", "01-03 00:00"),
    ("*/5 * * * *", "2026-01-01 00:01", "01-01 00:05", "01-01 00:10"),
    ("*/7 * * * *", "2026-01-01 00:50", "01-01 00:56", "01-01 01:00"),
    ("3/20 * * * *", "2026-01-01 00:00", "01-01 00:03", "01-01 00:23"),
    ("10-20/5 * * * *", "2026-01-01 00:12", "01-01 00:15", "01-01 00:20"),
    ("0,30 * * * *", "2026-01-01 00:00", "01-01 00:30", "01-01 01:00"),
    ("5,10-12,50/5 * * * *", "2026-01-01 00:12", "01-01 00:50", "01-01 00:55"),
    ("0 9-17 * * *", "2026-01-01 17:00", "01-02 09:00", "01-02 10:00"),
    ("0 */6 * * *", "2026-01-01 00:00", "01-01 06:00", "01-01 12:00"),
    ("0 8-18/4 * * *", "2026-01-01 00:00", "01-01 08:00", "01-01 12:00"),
    ("30 4 1,15 * *", "2026-01-01 05:00", "01-15 04:30", "02-01 04:30"),
    ("0 0 1 * *", "2026-01-01 00:00", "02-01 00:00", "03-01 00:00"),
    ("0 0 31 * *", "2026-01-31 00:00", "03-31 00:00", "05-31 00:00"),
    ("0 0 30 * *", "2026-01-30 00:00", "03-30 00:00", "04-30 00:00"),
    ("0 0 1 1 *", "2026-01-01 00:00", "01-01 00:00", "01-01 00:00"),
    ("0 0 1 jan *", "2025-06-01 00:00", "01-01 00:00", "01-01 00:00"),
    ("0 0 1 JAN,Jul *", "2026-01-01 00:00", "07-01 00:00", "01-01 00:00"),
    ("0 0 1 mar-may *", "2026-01-01 00:00", "03-01 00:00", "04-01 00:00"),
    ("0 0 1 */3 *", "2026-01-01 00:00", "04-01 00:00", "07-01 00:00"),
    ("0 0 1 2-12/5 *", "2026-01-01 00:00", "02-01 00:00", "07-01 00:00"),
    ("0 0 * * 0", "2026-01-01 00:00", "01-04 00:00", "01-11 00:00"),
    ("0 0 * * 7", "2026-01-01 00:00", "01-04 00:00", "01-11 00:00"),
    ("0 0 * * sun", "2026-01-01 00:00", "01-04 00:00", "01-11 00:00"),
    ("0 0 * * 1", "2026-01-01 00:00", "01-05 00:00", "01-12 00:00"),
    ("0 0 * * MON-fri", "2026-01-02 00:00", "01-05 00:00", "01-06 00:00"),
    ("0 0 * * 1-5", "2026-01-02 00:00", "01-05 00:00", "01-06 00:00"),
    ("0 0 * * 5-7", "2026-01-01 00:00", "01-02 00:00", "01-03 00:00"),
    ("0 0 * * 6,0", "2026-01-01 00:00", "01-03 00:00", "01-04 00:00"),
    ("0 0 * * 0-6/3", "2026-01-01 00:00", "01-03 00:00", "01-04 00:00"),
    ("0 0 * * */2", "2026-01-01 00:00", "01-03 00:00", "01-04 00:00"),
    # With both day fields set, either may match; with one `*`, only the other counts.
    ("0 0 13 * 5", "2026-01-01 00:00", "01-02 00:00", "01-09 00:00"),
    ("0 0 13 * 5", "2026-01-09 00:00", "01-13 00:00", "01-16 00:00"),
    ("0 0 1-7 * 1", "2026-01-07 00:00", "01-12 00:00", "01-19 00:00"),
    ("0 0 31 2 1", "2026-01-01 00:00", "02-02 00:00", "02-09 00:00"),
    ("0 0 * 2 1", "2026-01-01 00:00", "02-02 00:00", "02-09 00:00"),
    ("0 0 15 * *", "2026-01-01 00:00", "01-15 00:00", "02-15 00:00"),
    ("0 0 29 2 *", "2026-01-01 00:00", "02-29 00:00", "02-29 00:00"),  # 2028, 2032
    ("0 0 29 2 *", "2096-03-01 00:00", "02-29 00:00", "02-29 00:00"),  # 2104: 2100 is not a leap year
    ("0 0 28 2 *", "2027-02-28 00:00", "02-28 00:00", "02-28 00:00"),
    ("0 0 29-31 2 *", "2026-01-01 00:00", "02-29 00:00", "02-29 00:00"),
    ("@hourly", "2026-01-01 00:30", "01-01 01:00", "01-01 02:00"),
    ("@daily", "2026-01-01 00:30", "01-02 00:00", "01-03 00:00"),
    ("@midnight", "2026-01-01 00:30", "01-02 00:00", "01-03 00:00"),
    ("@weekly", "2026-01-01 00:30", "01-04 00:00", "01-11 00:00"),
    ("@monthly", "2026-01-01 00:30", "02-01 00:00", "03-01 00:00"),
    ("@yearly", "2026-01-01 00:30", "01-01 00:00", "01-01 00:00"),
    ("@annually", "2026-01-01 00:30", "01-01 00:00", "01-01 00:00"),
    ("@Daily", "2026-01-01 00:30", "01-02 00:00", "01-03 00:00"),
    ("  0   12  *  *  * ", "2026-01-01 00:00", "01-01 12:00", "01-02 12:00"),
    ("0\t12 * * *", "2026-01-01 00:00", "01-01 12:00", "01-02 12:00"),
]

# zone, schedule, start (wall clock), the next two firings (wall clock and offset)
ZONED = [
    ("Europe/Berlin", "30 4 * * *", "2026-01-31 00:00", "31 04:30+01", "01 04:30+01"),
    ("Asia/Kathmandu", "0 6 * * *", "2026-01-01 00:00", "01 06:00+0545", "02 06:00+0545"),
    ("America/New_York", "0 0 * * 0", "2026-01-01 00:00", "04 00:00-05", "11 00:00-05"),
    # Clocks go forward: skipped times fire once, right after the gap.
    ("Europe/Berlin", "30 2 * * *", "2026-03-28 12:00", "29 03:00+02", "30 02:30+02"),
    ("Europe/Berlin", "0 2 * * *", "2026-03-28 12:00", "29 03:00+02", "30 02:00+02"),
    ("Europe/Berlin", "59 2 * * *", "2026-03-28 12:00", "29 03:00+02", "30 02:59+02"),
    ("Europe/Berlin", "0 3 * * *", "2026-03-28 12:00", "29 03:00+02", "30 03:00+02"),
    ("Europe/Berlin", "0 2,3 * * *", "2026-03-28 12:00", "29 03:00+02", "30 02:00+02"),
    ("Europe/Berlin", "*/15 2 * * *", "2026-03-28 12:00", "29 03:00+02", "30 02:00+02"),
    ("Europe/Berlin", "*/30 1,2 * * *", "2026-03-29 01:00", "29 01:30+01", "29 03:00+02"),
    ("Europe/Berlin", "0 */2 * * *", "2026-03-29 00:00", "29 03:00+02", "29 04:00+02"),
    ("Europe/Berlin", "30 2 29 3 *", "2026-03-01 00:00", "29 03:00+02", "29 02:30+02"),
    ("America/New_York", "30 2 * * 0", "2026-03-07 12:00", "08 03:00-04", "15 02:30-04"),
    ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03 12:00", "04 02:30+11", "05 02:15+11"),
    ("Antarctica/Troll", "30 1 * * *", "2026-03-28 12:00", "29 03:00+02", "30 01:30+02"),
    ("America/Sao_Paulo", "0 0 * * *", "2018-11-03 12:00", "04 01:00-02", "05 00:00-02"),
    ("Pacific/Apia", "0 12 * * *", "2011-12-29 11:00", "29 12:00-10", "31 00:00+14"),
    # Clocks go back: repeated times fire at the first of the two.
    ("Europe/Berlin", "30 2 * * *", "2026-10-24 12:00", "25 02:30+02", "26 02:30+01"),
    ("Europe/Berlin", "0 3 * * *", "2026-10-24 12:00", "25 03:00+01", "26 03:00+01"),
    ("Europe/Berlin", "*/30 2 * * *", "2026-10-25 02:10", "25 02:30+02", "26 02:00+01"),
    ("Europe/Berlin", "30 2,3 * * *", "2026-10-25 02:30", "25 03:30+01", "26 02:30+01"),
    ("America/New_York", "30 1 * * *", "2026-10-31 12:00", "01 01:30-04", "02 01:30-05"),
    ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04 12:00", "05 01:45+11", "06 01:45+1030"),
    # Hourly schedules fire as usual through both.
    ("Europe/Berlin", "30 * * * *", "2026-03-29 01:00", "29 01:30+01", "29 03:30+02"),
    ("Europe/Berlin", "0 * * * *", "2026-03-29 01:00", "29 03:00+02", "29 04:00+02"),
    ("Europe/Berlin", "*/20 * * * *", "2026-03-29 01:40", "29 03:00+02", "29 03:20+02"),
    ("Europe/Berlin", "0 0-23 * * *", "2026-10-25 01:30", "25 02:00+02", "25 02:00+01"),
    ("Europe/Berlin", "30 */1 * * *", "2026-10-25 02:00", "25 02:30+02", "25 02:30+01"),
    ("Europe/Berlin", "*/20 * * * *", "2026-10-25 02:40", "25 02:00+01", "25 02:20+01"),
    ("Australia/Lord_Howe", "45 * * * *", "2026-04-05 01:00", "05 01:45+11", "05 01:45+1030"),
]

UNREADABLE = [
    "", "* * * *", "* * * * * *", "60 * * * *", "-1 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *",
    "* * * * 8", "*/0 * * * *", "5-1 * * * *", "1- * * * *", "1,,2 * * * *", "a * * * *", "* * * foo *", "* * * * tues", "1.5 * * * *",
    "@reboot", "@every 5m", "0 0 31 2 *", "0 0 30 feb *", "0 0 31 4,6,9,11 *", "٣ * * * *",
]  # fmt: skip


def moment(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


@pytest.mark.parametrize(("schedule", "after", "first", "second"), PLAIN)
def test_utc(schedule: str, after: str, first: str, second: str) -> None:
    check_schedule(schedule)
    found = list(islice(firings_of(schedule, ZoneInfo("UTC"), moment(after)), 2))
    assert [f"{item:%m-%d %H:%M}" for item in found] == [first, second]
    assert all(item.tzinfo is UTC and not item.second for item in found)


@pytest.mark.parametrize(("zone", "schedule", "after", "first", "second"), ZONED)
def test_time_zones(zone: str, schedule: str, after: str, first: str, second: str) -> None:
    found = islice(firings_of(schedule, ZoneInfo(zone), moment(after, zone)), 2)
    shown = [f"{item.astimezone(ZoneInfo(zone)):%d %H:%M%z}".removesuffix("00") for item in found]
    assert [text if ":" in text else text + "00" for text in shown] == [first, second]


@pytest.mark.parametrize("schedule", UNREADABLE)
def test_invalid_schedules(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"^(expected .*, found|the schedule .* never fires)"):
        check_schedule(schedule)


def test_a_schedule_that_never_fires_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"the schedule '0 0 31 2 \*' never fires"):
        check_schedule("0 0 31 2 *")


def test_unknown_zones() -> None:
    assert zone_of("Europe/Berlin").key == "Europe/Berlin"
    for name in ("", "Mars/Olympus", "../etc/passwd", "Europe", "\0"):
        with pytest.raises(ValueError, match="expected an IANA time zone such as Europe/Berlin, found"):
            zone_of(name)


def _field(rng: random.Random, low: int, high: int) -> str:
    a, b = sorted(rng.sample(range(low, high + 1), 2))
    return rng.choice(["*", f"*/{rng.randint(2, 9)}", str(a), f"{a}-{b}", f"{a},{b}", f"{a}-{b}/{rng.randint(2, 4)}"])


def test_croniter_agrees_without_clock_changes() -> None:
    """Except for `*/n` as one of two day fields: cron needs both to match, croniter either."""
    rng = random.Random(7)
    for _ in range(150):
        fields = [_field(rng, *bounds) for bounds in ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6))]
        if "*/" in fields[2] + fields[4]:
            fields[rng.choice((2, 4))] = "*"
            fields = [field if index not in (2, 4) or not field.startswith("*/") else "*" for index, field in enumerate(fields)]
        schedule = " ".join(fields)
        start = START + timedelta(minutes=rng.randrange(600_000))
        mine = list(islice(firings_of(schedule, ZoneInfo("UTC"), start), 4))
        theirs = croniter(schedule, start)
        assert mine == [theirs.get_next(datetime) for _ in range(4)], schedule


@pytest.mark.parametrize("alias", ALIASES)
def test_croniter_agrees_about_aliases(alias: str) -> None:
    theirs = croniter(alias, START)
    assert list(islice(firings_of(alias, ZoneInfo("UTC"), START), 3)) == [theirs.get_next(datetime) for _ in range(3)]


CHANGES = [
    ("Europe/Berlin", "2026-03-29"), ("Europe/Berlin", "2026-10-25"), ("America/New_York", "2026-03-08"), ("Asia/Beirut", "2026-03-29"),
    ("Australia/Lord_Howe", "2026-04-04"), ("Antarctica/Troll", "2026-10-25"), ("America/Sao_Paulo", "2018-02-17"),
    ("Africa/Casablanca", "2026-02-15"), ("Pacific/Apia", "2011-12-30"), ("Antarctica/Casey", "2018-03-10"), ("Asia/Kolkata", "2026-03-29"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_a_walk_of_the_clock_agrees(zone: str, day: str) -> None:
    rng = random.Random(zone + day)
    for _ in range(4):
        schedule = f"{_field(rng, 0, 59)} {rng.choice(['*', _field(rng, 0, 4)])} * * *"
        after = moment(day) - timedelta(hours=8) + timedelta(minutes=rng.randrange(24 * 60))
        until = after + timedelta(hours=16)
        found = []
        for item in firings_of(schedule, ZoneInfo(zone), after):
            if item > until:
                break
            found.append(item)
        assert found == list(_walk(schedule, ZoneInfo(zone), after, until)), schedule
        for before, behind in pairwise(found[:40]):
            assert next(firings_of(schedule, ZoneInfo(zone), before)) == behind


def _walk(schedule: str, zone: ZoneInfo, after: datetime, until: datetime):
    """Yield the firings, minute by minute: skipped times after the gap, repeated ones once."""
    times = _times_of_day(schedule)
    every_hour = {hour for hour, _ in times} == set(range(24))
    at = (after - timedelta(hours=30)).replace(second=0, microsecond=0)
    wall, shown = at.astimezone(zone).replace(tzinfo=None), set()
    while at <= until:
        left_out = [] if every_hour else _between(wall, at.astimezone(zone).replace(tzinfo=None))
        wall = at.astimezone(zone).replace(tzinfo=None)
        hits = [one for one in [*left_out, wall] if (one.hour, one.minute) in times and (every_hour or one not in shown)]
        if hits and at > after:
            yield at
        shown.add(wall)
        at += timedelta(minutes=1)


def _between(before: datetime, behind: datetime) -> list[datetime]:
    minutes = int((behind - before) / timedelta(minutes=1))
    return [before + timedelta(minutes=number) for number in range(1, minutes)]


def _times_of_day(schedule: str) -> set[tuple[int, int]]:
    theirs = croniter(schedule, START.replace(tzinfo=None) - timedelta(minutes=1), ret_type=datetime)
    found = set()
    while (at := theirs.get_next()).date() == START.date():
        found.add((at.hour, at.minute))
    return found


@pytest.mark.parametrize("schedule", ["* * * * *", "*/7 3 * * *", "0 0 1 * *", "0 0 29 2 *", "30 2 * * *"])
def test_last_firing(schedule: str) -> None:
    zone = ZoneInfo("Europe/Berlin")
    every = list(islice(firings_of(schedule, zone, START), 40))
    for place in (0, 5, 39):
        until = every[place] + timedelta(seconds=30)
        assert find_last_firing(schedule, zone, START, until) == every[place]
        assert count_firings(schedule, zone, START, until, 1000) == place + 1
    assert find_last_firing(schedule, zone, START, every[0] - timedelta(seconds=1)) is None
    assert count_firings(schedule, zone, START, every[39], 10) == 10
