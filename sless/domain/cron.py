"""Cron triggers: what is due, what becomes of it, when an instance is kept warm. Pure."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from sless.clock import rfc3339_of
from sless.domain.model import CallStatus, Trigger, TriggerType
from sless.domain.schedule import count_firings, find_last_firing, find_next_firing, firings_of, zone_of

WARM_AFTER = timedelta(seconds=60)
"""How long after a firing an instance that was started for it stays."""
SLACK = timedelta(seconds=5)
"""A firing that begins this late is still on time: a grace of 0 means that nothing is made up for, not that nothing fires."""
MISSED_COUNTED = 1000
"""How far the missed firings of a pause are counted."""
_TIMING = ("schedule", "timezone")


@dataclass(frozen=True, slots=True, kw_only=True)
class CronPlan:
    """What the scheduler keeps in memory of an enabled trigger. Instants up to `handled` are done with, `next_at` is the first behind
    (None: none comes). `fired_at` is the instant of the newest firing, `warm` whether an instance is kept for it."""

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
    """An instant that has come. `missed`: it is too late for it, and the text says why; `count` instants are meant (more than one after a
    pause)."""

    trigger_id: str
    generation: int
    due_at: datetime
    missed: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the database knows at the moment of the claim. `running`: a run of this trigger has not ended."""

    target: str
    """`function "report"`."""
    has_version: bool
    overlap: str
    running: bool


def cron_plan_of(trigger: Trigger) -> CronPlan:
    """Raises ValueError when this machine cannot read its schedule or zone (the zone database may have shrunk since)."""
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
    """What has come due, and the plan behind it. The newest instant fires, unless it is later than the grace. Older ones within the grace
    are made up for by that firing; those beyond it were missed, which is noted once."""
    if plan.next_at is None or plan.next_at > now:
        return (), plan
    newest, following = plan.next_at, find_next_firing(plan.schedule, plan.zone, plan.next_at)
    if following is not None and following <= now:  # There was a pause.
        newest = find_last_firing(plan.schedule, plan.zone, plan.next_at, now) or newest
        following = next(firings_of(plan.schedule, plan.zone, now), None)
    bound = now - max(plan.grace, SLACK)
    found = _missed_of(plan, bound, now) if plan.next_at < bound else []
    if newest >= bound:
        found.append(Due(trigger_id=plan.trigger_id, generation=plan.generation, due_at=newest))
    fired_at = newest if newest >= bound else plan.fired_at
    return tuple(found), replace(plan, handled=now, next_at=following, fired_at=fired_at)


def is_warm_time(plan: CronPlan, now: datetime) -> bool:
    """Whether an instance is to be there: from `pre_warm` before a firing until WARM_AFTER it."""
    if not plan.pre_warm:
        return False
    before = plan.next_at is not None and plan.next_at - plan.pre_warm <= now
    return before or (plan.fired_at is not None and plan.fired_at <= now < plan.fired_at + WARM_AFTER)


def attention_at(plan: CronPlan, now: datetime) -> datetime | None:
    """When something about the plan changes next: it fires, or an instance has to come or go."""
    if plan.warm != is_warm_time(plan, now) or (plan.next_at is not None and plan.next_at <= now):
        return now
    moments = [plan.next_at]
    if plan.warm and plan.fired_at is not None:
        moments.append(plan.fired_at + WARM_AFTER)
    if not plan.warm and plan.pre_warm and plan.next_at is not None:
        moments.append(plan.next_at - plan.pre_warm)
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def outcome_of(due: Due, facts: Facts) -> tuple[CallStatus, str]:
    """What becomes of an instant, and why if it does not run."""
    if due.missed:
        return CallStatus.MISSED, due.missed
    at = rfc3339_of(due.due_at)
    if facts.running and facts.overlap == "forbid":
        return CallStatus.SKIPPED, f"skipped: due at {at}, while the run before had not ended (overlap is forbid)"
    if not facts.has_version:
        return CallStatus.SKIPPED, f"skipped: due at {at}, while {facts.target} had no version that is ready"
    return CallStatus.QUEUED, ""


def firing_id_of(trigger_id: str, due_at: datetime) -> str:
    """The same for everybody who fires this trigger at this instant, so that no table can hold it twice."""
    return "c" + hashlib.sha256(f"{trigger_id} {rfc3339_of(due_at)}".encode()).hexdigest()[:19]


def is_rescheduled(before: Trigger, after: Trigger) -> bool:
    """Whether instants before this change are none of the trigger's any more."""
    timing = any(before.spec.get(name) != after.spec.get(name) for name in _TIMING)
    return timing or before.function_ref != after.function_ref or (after.enabled and not before.enabled)


def next_time_of(trigger: Trigger, now: datetime) -> datetime | None:
    """When an enabled cron trigger fires next. None for others, and when this machine cannot read it."""
    if trigger.type is not TriggerType.CRON or not trigger.enabled:
        return None
    try:
        return next(firings_of(trigger.spec["schedule"], zone_of(trigger.spec["timezone"]), now), None)
    except ValueError:
        return None


def _missed_of(plan: CronPlan, bound: datetime, now: datetime) -> list[Due]:
    """At most one entry, at the newest instant before `bound`."""
    last = find_last_firing(plan.schedule, plan.zone, plan.handled, bound - timedelta(microseconds=1))
    if last is None:
        return []
    count = count_firings(plan.schedule, plan.zone, plan.handled, last, MISSED_COUNTED)
    late_sec = (now - last).total_seconds()
    grace = f"later than misfire_grace_seconds {plan.grace.total_seconds():.0f} allows"
    text = f"missed: due at {rfc3339_of(last)}, looked at {late_sec:.0f} s later, {grace}"
    if count > 1:
        more = "or more " if count == MISSED_COUNTED else ""
        text = f"{count} {more}firings {text}"
    return [Due(trigger_id=plan.trigger_id, generation=plan.generation, due_at=last, missed=text, count=count)]
