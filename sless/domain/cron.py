"""Cron triggers: which firings are due, what happens to them, and when to keep an instance warm. Pure."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from sless.clock import rfc3339_of
from sless.domain.model import CallStatus, Trigger, TriggerType
from sless.domain.schedule import count_firings, find_last_firing, find_next_firing, firings_of, zone_of

WARM_AFTER = timedelta(seconds=60)
"""How long an instance that was pre-warmed for a firing is kept after it."""
SLACK = timedelta(seconds=5)
"""A firing this late still counts as on time, so a grace of 0 disables catching up but not firing."""
MISSED_COUNTED = 1000
"""Upper limit when counting missed firings."""
_TIMING = ("schedule", "timezone")


@dataclass(frozen=True, slots=True, kw_only=True)
class CronPlan:
    """The scheduler's in-memory state of an enabled trigger. Firings up to `handled` are done; `next_at` is the first one after it (None
    if there is none). `fired_at` is the time of the latest firing, `warm` whether an instance is kept warm."""

    trigger_id: str
    generation: int
    schedule: str
    zone: ZoneInfo
    pre_warm: timedelta
    grace: timedelta
    handled: datetime
    next_at: datetime | None
    fired_at: datetime | None
    warm: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A firing that is due. `missed` is non-empty if it is too late, and says why; it then stands for `count` firings (more than one
    after a pause)."""

    trigger_id: str
    generation: int
    due_at: datetime
    missed: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Database state when a firing is claimed. `running`: a run of this trigger has not ended."""

    target: str
    """`function "report"`."""
    has_version: bool
    overlap: str
    running: bool
    suspended: bool = False


def cron_plan_of(trigger: Trigger) -> CronPlan:
    """Raises ValueError if the schedule or the zone cannot be parsed (the zone may be missing from this machine's database)."""
    spec = trigger.spec
    handled = max(filter(None, (trigger.scheduled_since, trigger.last_schedule_time)), default=trigger.updated_at)
    plan = CronPlan(
        trigger_id=trigger.id,
        generation=trigger.generation,
        schedule=spec["schedule"],
        zone=zone_of(spec["timezone"]),
        pre_warm=timedelta(seconds=spec["pre_warm_seconds"]),
        grace=timedelta(seconds=spec["misfire_grace_seconds"]),
        handled=handled,
        next_at=None,
        fired_at=trigger.last_schedule_time,
        warm=trigger.warm,
    )
    return replace(plan, next_at=next(firings_of(plan.schedule, plan.zone, handled), None))


def advance(plan: CronPlan, now: datetime) -> tuple[tuple[Due, ...], CronPlan]:
    """Returns the due firings and the plan after them. Only the newest one fires, unless it is later than the grace allows; older ones
    within the grace are covered by it, and those beyond the grace are recorded as missed, in one entry."""
    if plan.next_at is None or plan.next_at > now:
        return (), plan
    newest, following = plan.next_at, find_next_firing(plan.schedule, plan.zone, plan.next_at)
    if following is not None and following <= now:  # Several firings passed: the scheduler was paused.
        newest = find_last_firing(plan.schedule, plan.zone, plan.next_at, now) or newest
        following = next(firings_of(plan.schedule, plan.zone, now), None)
    bound = now - max(plan.grace, SLACK)
    found = _missed_of(plan, bound, now) if plan.next_at < bound else []
    if newest >= bound:
        found.append(Due(trigger_id=plan.trigger_id, generation=plan.generation, due_at=newest))
    fired_at = newest if newest >= bound else plan.fired_at
    return tuple(found), replace(plan, handled=now, next_at=following, fired_at=fired_at)


def is_warm_time(plan: CronPlan, now: datetime) -> bool:
    """Whether an instance should be warm: from `pre_warm` before a firing until WARM_AFTER after it."""
    if not plan.pre_warm:
        return False
    before = plan.next_at is not None and plan.next_at - plan.pre_warm <= now
    return before or (plan.fired_at is not None and plan.fired_at <= now < plan.fired_at + WARM_AFTER)


def attention_at(plan: CronPlan, now: datetime) -> datetime | None:
    """The next time at which the trigger fires or its warm instance has to start or stop."""
    if plan.warm != is_warm_time(plan, now) or (plan.next_at is not None and plan.next_at <= now):
        return now
    moments = [plan.next_at]
    if plan.warm and plan.fired_at is not None:
        moments.append(plan.fired_at + WARM_AFTER)
    if not plan.warm and plan.pre_warm and plan.next_at is not None:
        moments.append(plan.next_at - plan.pre_warm)
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def outcome_of(due: Due, facts: Facts) -> tuple[CallStatus, str]:
    """The status of the firing, and the reason if it does not run."""
    if due.missed:
        return CallStatus.MISSED, due.missed
    at = rfc3339_of(due.due_at)
    if facts.running and facts.overlap == "forbid":
        return CallStatus.SKIPPED, f"skipped: due at {at}, but the previous run had not ended (overlap is forbid)"
    if facts.suspended:
        return CallStatus.SKIPPED, f"skipped: due at {at}, but {facts.target} was suspended"
    if not facts.has_version:
        return CallStatus.SKIPPED, f"skipped: due at {at}, but {facts.target} had no ready version"
    return CallStatus.QUEUED, ""


def firing_id_of(trigger_id: str, due_at: datetime) -> str:
    """Deterministic id, so that concurrent servers cannot record the same firing twice."""
    return "c" + hashlib.sha256(f"{trigger_id} {rfc3339_of(due_at)}".encode()).hexdigest()[:19]


def is_rescheduled(before: Trigger, after: Trigger) -> bool:
    """Whether this change cancels the firings due before it."""
    timing = any(before.spec.get(name) != after.spec.get(name) for name in _TIMING)
    return timing or before.function_ref != after.function_ref or (after.enabled and not before.enabled)


def next_time_of(trigger: Trigger, now: datetime) -> datetime | None:
    """When an enabled cron trigger fires next. None for other triggers and unreadable schedules."""
    if trigger.type is not TriggerType.CRON or not trigger.enabled:
        return None
    try:
        return next(firings_of(trigger.spec["schedule"], zone_of(trigger.spec["timezone"]), now), None)
    except ValueError:
        return None


def _missed_of(plan: CronPlan, bound: datetime, now: datetime) -> list[Due]:
    """At most one entry, for the latest firing before `bound`."""
    last = find_last_firing(plan.schedule, plan.zone, plan.handled, bound - timedelta(microseconds=1))
    if last is None:
        return []
    count = count_firings(plan.schedule, plan.zone, plan.handled, last, MISSED_COUNTED)
    late_sec = (now - last).total_seconds()
    grace = f"over misfire_grace_seconds ({plan.grace.total_seconds():.0f})"
    text = f"missed: due at {rfc3339_of(last)}, noticed {late_sec:.0f} s later, {grace}"
    if count > 1:
        more = "or more " if count == MISSED_COUNTED else ""
        text = f"{count} {more}firings {text}"
    return [Due(trigger_id=plan.trigger_id, generation=plan.generation, due_at=last, missed=text, count=count)]
