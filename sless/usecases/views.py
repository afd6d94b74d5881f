"""Resources as clients see them: a row, with values computed from other rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sless import clock
from sless.domain.cron import next_time_of
from sless.domain.instance_bounds import bounds_of
from sless.domain.model import Kind, Run, Trigger, TriggerType, Version, Workload
from sless.domain.phase import JobPhaseView, PhaseView, job_phase_of, phase_of
from sless.domain.routing import suspension_of
from sless.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadView:
    """`reachable`: whether it can be called by its URL, now or once it is Ready."""

    workload: Workload
    phase: PhaseView
    reachable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    workload: Workload
    phase: JobPhaseView


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerView:
    """`active`: whether a call, firing or message would reach working code; if not, `message` is the reason. `next_schedule_time` is as of
    now. `api_key` is only set when the key has just been created."""

    trigger: Trigger
    active: bool
    message: str
    next_schedule_time: datetime | None
    api_key: str | None = None


def view_workloads(store: Store, workloads: Sequence[Workload], triggers: Iterable[Trigger]) -> list[WorkloadView]:
    """Takes two queries for all of them. `triggers` are those of the namespace, or at least those of these workloads."""
    newest = store.versions.newest_of([item.id for item in workloads])
    active = store.versions.active_of([item.id for item in workloads])
    workloads = [_as_active(store, item, active.get(item.id)) for item in workloads]
    by_target: dict[str, list[Trigger]] = {}
    for trigger in triggers:
        by_target.setdefault(trigger.function_ref, []).append(trigger)
    return [_workload_view(item, newest.get(item.id), active.get(item.id), by_target.get(item.name, [])) for item in workloads]


def _as_active(store: Store, workload: Workload, active: Version | None) -> Workload:
    """Reads the row again if a version became active after it was read; otherwise it would be shown as Ready with the previous version."""
    if active is None or active.number == workload.active_version:
        return workload
    return store.workloads.find_by_id(workload.id) or workload


def view_workload(store: Store, workload: Workload) -> WorkloadView:
    return view_workloads(store, [workload], store.triggers.list_for(workload.namespace, workload.name))[0]


def view_jobs(store: Store, jobs: Sequence[Workload]) -> list[JobView]:
    """Takes four queries for all of them. They must be of one namespace."""
    runs = store.runs.newest_of([job.id for job in jobs])
    refs = {job.spec.function_ref for job in jobs if job.spec.function_ref}
    callables = store.workloads.find_callables(jobs[0].namespace, refs) if refs else {}
    # Find the workload whose versions each job runs.
    targets = {job.id: callables.get(job.spec.function_ref) if job.spec.function_ref else job for job in jobs}
    known = [target.id for target in targets.values() if target]
    newest, active = store.versions.newest_of(known), store.versions.active_of(known)
    return [_job_view(job, targets[job.id], newest, active, runs) for job in jobs]


def view_trigger(store: Store, trigger: Trigger, api_key: str | None = None) -> TriggerView:
    return trigger_view_of(trigger, store.workloads.find_callable(trigger.namespace, trigger.function_ref), api_key)


def trigger_view_of(trigger: Trigger, target: Workload | None, api_key: str | None = None) -> TriggerView:
    """A trigger without a target does not fire, so it has no next time."""
    there = target is not None and target.deleted_at is None
    following = next_time_of(trigger, clock.now()) if there else None
    problem = trigger_problem_of(trigger, target)
    return TriggerView(
        trigger=trigger, active=not problem, message=problem or trigger.observed_message, next_schedule_time=following, api_key=api_key
    )


def trigger_problem_of(trigger: Trigger, target: Workload | None) -> str:
    """Why the trigger cannot work now, "" if it can."""
    if target is None or target.deleted_at is not None:
        return f'function "{trigger.function_ref}" not found'
    if not trigger.enabled:
        return "disabled"
    if target.suspended is not None:
        return f'{target.kind} "{target.name}" is {suspension_of(target.suspended)}'
    if target.active_version is None:
        return f'{target.kind} "{target.name}" has no ready version'
    if bounds_of(target.kind, target.spec).most == 0:
        return f'{target.kind} "{target.name}" is scaled to 0'
    if trigger.type is TriggerType.EVENT and not trigger.observed_active:
        return trigger.observed_message or "connecting"
    return ""


def _workload_view(workload: Workload, newest: Version | None, active: Version | None, triggers: Sequence[Trigger]) -> WorkloadView:
    reachable = workload.kind is Kind.SERVICE or any(item.type is TriggerType.HTTP for item in triggers)
    return WorkloadView(workload=workload, phase=phase_of(workload, newest, active, triggers), reachable=reachable)


def _job_view(
    job: Workload, target: Workload | None, newest: dict[str, Version], active: dict[str, Version], runs: dict[str, Run]
) -> JobView:
    key = target.id if target else ""
    return JobView(workload=job, phase=job_phase_of(job, newest.get(key), runs.get(job.id), active=active.get(key)))
