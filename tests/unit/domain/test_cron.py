"""Cron triggers: firings due after a pause, their outcomes, and when to pre-warm."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sless.domain.cron import (
    MISSED_COUNTED,
    CronPlan,
    Due,
    Facts,
    advance,
    attention_at,
    cron_plan_of,
    firing_id_of,
    is_rescheduled,
    is_warm_time,
    next_time_of,
    outcome_of,
)
from sless.domain.model import CallStatus, TriggerType
from tests.builders import make_trigger

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SPEC = {
    "schedule": "*/10 * * * *", "timezone": "UTC", "event_json": "{}", "pre_warm_seconds": 300, "overlap": "allow",
    "misfire_grace_seconds": 60,
}  # fmt: skip


def sec(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def trigger_of(since: datetime = NOON, **changes):
    """`spec` is a dict of changes."""
    spec = SPEC | changes.pop("spec", {})
    return make_trigger(type=TriggerType.CRON, id="t1", spec=spec, scheduled_since=since, **changes)


def plan(since: datetime = NOON, **changes) -> CronPlan:
    return cron_plan_of(trigger_of(since, **changes))


def every_minute(grace_sec: int = 60) -> CronPlan:
    return plan(spec={"schedule": "* * * * *", "misfire_grace_seconds": grace_sec})


class TestPlan:
    def test_the_next_firing_counts_from_when_it_was_set_or_last_due(self) -> None:
        assert plan().next_at == NOON + sec(600)
        assert plan(last_schedule_time=NOON + sec(600)).next_at == NOON + sec(1200)
        assert plan(NOON + sec(1900), last_schedule_time=NOON + sec(600)).next_at == NOON + sec(2400)
        assert cron_plan_of(replace(trigger_of(), scheduled_since=None, updated_at=NOON)).next_at == NOON + sec(600)

    def test_timezone(self) -> None:
        assert plan(spec={"schedule": "0 14 * * *", "timezone": "Europe/Berlin"}).next_at == NOON + sec(3600)

    def test_an_unknown_timezone_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="Mars"):
            plan(spec={"timezone": "Mars/Olympus"})

    def test_only_enabled_cron_triggers_show_a_next_firing(self) -> None:
        assert next_time_of(trigger_of(), NOON) == NOON + sec(600)
        assert next_time_of(trigger_of(enabled=False), NOON) is None
        assert next_time_of(make_trigger(), NOON) is None
        assert next_time_of(trigger_of(spec={"timezone": "Mars/Olympus"}), NOON) is None


class TestDue:
    @pytest.mark.parametrize("late", [0, 0.001, 4, 60])
    def test_fires_on_time_and_within_the_grace_period(self, late: float) -> None:
        dues, behind = advance(plan(), NOON + sec(600 + late))
        assert [(due.due_at, due.missed) for due in dues] == [(NOON + sec(600), "")]
        assert (behind.next_at, behind.fired_at) == (NOON + sec(1200), NOON + sec(600))

    def test_nothing_is_due_early(self) -> None:
        assert advance(plan(), NOON + sec(599.999)) == ((), plan())

    def test_missed_after_the_grace_period(self) -> None:
        dues, behind = advance(plan(), NOON + sec(661))
        assert [(due.due_at, due.count) for due in dues] == [(NOON + sec(600), 1)]
        assert dues[0].missed == ("missed: due at 2026-01-31T12:10:00.000Z, noticed 61 s later, over misfire_grace_seconds (60)")
        assert (behind.next_at, behind.fired_at) == (NOON + sec(1200), None)

    def test_grace_of_0_still_fires_on_time(self) -> None:
        strict = plan(spec={"misfire_grace_seconds": 0})
        assert advance(strict, NOON + sec(603))[0][0].missed == ""
        assert advance(strict, NOON + sec(606))[0][0].missed != ""

    def test_fires_once_after_a_pause_within_the_grace_period(self) -> None:
        dues, behind = advance(every_minute(grace_sec=600), NOON + sec(310))
        assert [(due.due_at, due.missed, due.count) for due in dues] == [(NOON + sec(300), "", 1)]
        assert behind.next_at == NOON + sec(360)

    def test_firings_missed_in_a_longer_pause_are_one_entry(self) -> None:
        dues, behind = advance(every_minute(), NOON + sec(3610))
        assert [(due.due_at, due.count) for due in dues] == [(NOON + sec(3540), 59), (NOON + sec(3600), 1)]
        assert dues[0].missed.startswith("59 firings missed: due at 2026-01-31T12:59:00.000Z, noticed 70 s later")
        assert dues[1].missed == "" and behind.next_at == NOON + sec(3660)

    def test_firings_missed_in_a_year_are_one_entry_and_cheap(self) -> None:
        dues, _ = advance(every_minute(), NOON + timedelta(days=365, seconds=10))
        assert [due.count for due in dues] == [MISSED_COUNTED, 1]
        assert dues[0].missed.startswith("1000 or more firings missed:")

    def test_nothing_fires_twice_when_the_clock_goes_back(self) -> None:
        _, behind = advance(plan(), NOON + sec(600))
        assert advance(behind, NOON + sec(599))[0] == () and advance(behind, NOON + sec(600))[0] == ()

    def test_a_schedule_that_never_fires_again(self) -> None:
        assert advance(replace(plan(), next_at=None), NOON + sec(9000))[0] == ()


class TestOutcome:
    DUE = Due(trigger_id="t1", generation=1, due_at=NOON)
    FACTS = Facts(target='function "f"', has_version=True, overlap="allow", running=False)

    @pytest.mark.parametrize(
        ("facts", "status", "message"),
        [
            ({}, CallStatus.QUEUED, ""),
            ({"running": True}, CallStatus.QUEUED, ""),
            ({"overlap": "forbid"}, CallStatus.QUEUED, ""),
            (
                {"overlap": "forbid", "running": True}, CallStatus.SKIPPED,
                "skipped: due at 2026-01-31T12:00:00.000Z, but the previous run had not ended (overlap is forbid)",
            ),
            (
                {"has_version": False}, CallStatus.SKIPPED,
                'skipped: due at 2026-01-31T12:00:00.000Z, but function "f" had no ready version',
            ),
        ],
    )  # fmt: skip
    def test_outcomes(self, facts: dict, status: CallStatus, message: str) -> None:
        assert outcome_of(self.DUE, replace(self.FACTS, **facts)) == (status, message)

    def test_missed_wins_over_other_outcomes(self) -> None:
        due = replace(self.DUE, missed="missed: x")
        assert outcome_of(due, replace(self.FACTS, has_version=False)) == (CallStatus.MISSED, "missed: x")

    def test_the_id_depends_on_trigger_and_time(self) -> None:
        found = firing_id_of("t1", NOON)
        assert found == firing_id_of("t1", NOON) and len(found) == 20 and found.isalnum() and found.islower()
        assert len({found, firing_id_of("t2", NOON), firing_id_of("t1", NOON + sec(60))}) == 3


class TestWarm:
    """`*/10` from noon: due at 12:10, warm from five minutes before to a minute after."""

    @pytest.mark.parametrize(
        ("at", "fired", "warm"),
        [(0, None, False), (299, None, False), (300, None, True), (599, None, True), (0, 0, True), (59, 0, True), (60, 0, False)],
    )
    def test_times(self, at: float, fired: float | None, warm: bool) -> None:
        item = replace(plan(), fired_at=None if fired is None else NOON + sec(fired))
        assert is_warm_time(item, NOON + sec(at)) is warm

    def test_never_warm_without_pre_warm(self) -> None:
        item = replace(plan(spec={"pre_warm_seconds": 0}), fired_at=NOON)
        assert not any(is_warm_time(item, NOON + sec(at)) for at in range(0, 600, 10))
        assert attention_at(replace(item, warm=True), NOON + sec(1)) == NOON + sec(1)

    def test_a_short_interval_stays_warm(self) -> None:
        item, now = every_minute(), NOON + sec(1)
        for _ in range(300):
            now += sec(1)
            _, item = advance(item, now)
            assert is_warm_time(item, now)

    def test_attention_comes_once_per_change(self) -> None:
        """Cold → warm → fires → cold, with no wake-up in between."""
        item, now, seen = plan(spec={"schedule": "10 12 * * *"}), NOON, []
        for _ in range(4):
            now = attention_at(item, now)
            dues, item = advance(item, now)
            item = replace(item, warm=is_warm_time(item, now))
            seen.append(((now - NOON).total_seconds(), bool(dues), item.warm))
        assert seen == [(300, False, True), (600, True, True), (660, False, False), (86400 + 300, False, True)]

    def test_overdue_or_wrongly_warm_triggers_need_attention_now(self) -> None:
        assert attention_at(plan(), NOON + sec(700)) == NOON + sec(700)
        assert attention_at(replace(plan(), warm=True), NOON) == NOON
        assert attention_at(replace(plan(), next_at=None), NOON) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"spec": {"event_json": "[]", "overlap": "forbid", "pre_warm_seconds": 0}}, False),
        ({"spec": {"schedule": "@daily"}}, True),
        ({"spec": {"timezone": "Europe/Berlin"}}, True),
        ({"function_ref": "other"}, True),
        ({"enabled": False}, False),
    ],
)
def test_rescheduled(changes: dict, expected: bool) -> None:
    assert is_rescheduled(trigger_of(), trigger_of(**changes)) is expected


def test_enabling_reschedules() -> None:
    assert is_rescheduled(trigger_of(enabled=False), trigger_of())
