"""Computes the phase of a workload from desired state, builds, runs and observed state (contract §2). Never stored."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sless.domain.instance_bounds import bounds_of
from sless.domain.lifecycle import OPEN_CALL_STATUSES, OPEN_VERSION_STATES
from sless.domain.model import CallStatus, Phase, Run, Trigger, Version, VersionState, Workload
from sless.domain.routing import building_words_of, failure_of, keeps_instances, suspension_of

IDLE = "idle: no instance is running, the next call starts one"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseView:
    """`code_*` and `image_ref` describe the active version, or the newest while none is active. `last_built_at` is when the newest build
    that was not cancelled ended."""

    phase: Phase
    message: str
    latest_state: VersionState | None
    active_version: int | None
    latest_version: int | None
    code_sha256: str | None
    code_hash: str | None
    image_ref: str | None
    last_built_at: datetime | None
    changed_at: datetime
    """Newest change of the spec, the newest version or the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPhaseView(PhaseView):
    """`run` is the run for the job's current run_id, None if it does not exist yet. `result` is JSON text."""

    run: Run | None
    result: str | None
    run_name: str | None
    start_time: datetime | None
    completion_time: datetime | None
    exit_code: int | None


def phase_of(workload: Workload, newest: Version | None, active: Version | None, triggers: Iterable[Trigger]) -> PhaseView:
    """The phase of a function or service; `triggers` are those that refer to it."""
    phase, message = _deployment_phase(workload, newest, active, keeps_instances(workload.kind, triggers))
    return PhaseView(phase=phase, message=message, **_facts_of(workload, newest, active))


def job_phase_of(workload: Workload, newest: Version | None, run: Run | None, *, active: Version | None = None) -> JobPhaseView:
    """`newest` and `active` are versions of the job or of the function in its `function_ref`; `run` is the job's newest run."""
    current = run if run is not None and run.job_run_id == workload.spec.run_id else None
    phase, message = _job_phase(workload, newest, current)
    return JobPhaseView(
        phase=phase,
        message=message,
        **_facts_of(workload, newest, active, current),
        run=current,
        result=current.result if current else None,
        run_name=current.id if current else None,
        start_time=current.started_at if current else None,
        completion_time=current.ended_at if current else None,
        exit_code=current.exit_code if current else None,
    )


def _deployment_phase(workload: Workload, newest: Version | None, active: Version | None, instances: bool) -> tuple[Phase, str]:
    if workload.deleted_at is not None:
        return Phase.DELETING, ""
    if workload.suspended is not None:
        return Phase.FAILED, suspension_of(workload.suspended)
    if newest is None:
        return Phase.PENDING, "no code uploaded yet"
    if newest.state in OPEN_VERSION_STATES:
        return Phase.BUILDING, building_words_of(newest)
    if active is None or active.state is not VersionState.READY:
        return _unserved_phase(newest if active is None else active)
    # The old version keeps serving; only the message mentions the failure.
    note = failure_of(newest) if newest.state is VersionState.FAILED else ""
    if not instances:
        return Phase.READY, note
    if bounds_of(workload.kind, workload.spec).most == 0:
        return Phase.READY, note or "scaled to 0"
    return _instances_phase(workload, active, note)


def _unserved_phase(version: Version) -> tuple[Phase, str]:
    """The phase of a workload without a usable version; `version` is the newest, or the active one while its rebuild runs or after it
    failed."""
    if version.state in OPEN_VERSION_STATES:
        return Phase.BUILDING, building_words_of(version)
    if version.state is VersionState.READY:
        return Phase.PENDING, f"version {version.number} is ready but not active"
    return Phase.FAILED, failure_of(version)


def _instances_phase(workload: Workload, active: Version, note: str) -> tuple[Phase, str]:
    observed = workload.observed
    current = observed.generation == workload.generation and observed.version == active.number
    # An observation from before the change does not describe the new state.
    reported = observed.message if current or observed.wanted == workload.generation else ""
    if observed.failing and observed.wanted == workload.generation and not (current and observed.ready_instances > 0):
        return Phase.FAILED, reported or "instances exit right after they start"
    if not current or (observed.ready_instances == 0 and bounds_of(workload.kind, workload.spec).least > 0):
        return Phase.DEPLOYING, reported or f"instances of version {active.number} are starting"
    if observed.ready_instances == 0:
        return Phase.READY, note or reported or IDLE
    return Phase.READY, note or reported


def _job_phase(workload: Workload, newest: Version | None, run: Run | None) -> tuple[Phase, str]:
    if workload.deleted_at is not None:
        return Phase.DELETING, ""
    if workload.suspended is not None and (run is None or run.status in OPEN_CALL_STATUSES):
        return Phase.FAILED, suspension_of(workload.suspended)
    if workload.spec.run_id == 0:
        return Phase.SKIPPED, "run_id is 0; raise it to run the job"
    if run is None or run.status is CallStatus.QUEUED:
        return _waiting_phase(workload, newest, run)
    match run.status:
        case CallStatus.RUNNING:
            return Phase.RUNNING, run.message
        case CallStatus.SUCCEEDED:
            return Phase.SUCCEEDED, run.message if run.result is None else run.result
        case CallStatus.SKIPPED:
            return Phase.SKIPPED, run.message
    return Phase.FAILED, run.message or str(run.status)


def _waiting_phase(workload: Workload, newest: Version | None, run: Run | None) -> tuple[Phase, str]:
    """The phase of a run that waits for code, for a slot, or for its next attempt."""
    if newest is None:
        reference = workload.spec.function_ref
        return Phase.PENDING, f'function "{reference}" has no code yet' if reference else "no code uploaded yet"
    if newest.state in OPEN_VERSION_STATES:
        return Phase.BUILDING, building_words_of(newest)
    if newest.state is not VersionState.READY and workload.active_version is None and workload.spec.function_ref is None:
        return Phase.FAILED, failure_of(newest)
    return Phase.PENDING, run.message if run and run.message else "waiting to start"


def _facts_of(workload: Workload, newest: Version | None, active: Version | None, run: Run | None = None) -> dict[str, Any]:
    shown = active or newest
    built = newest if newest and newest.state in (VersionState.READY, VersionState.FAILED) else active
    return {
        "latest_state": newest.state if newest else None,
        "active_version": workload.active_version,
        "latest_version": newest.number if newest else None,
        "code_sha256": shown.sha256 if shown else None,
        "code_hash": shown.code_hash if shown else None,
        "image_ref": (shown.artifact or None) if shown and shown.state is VersionState.READY else None,
        "last_built_at": built.ended_at if built else None,
        "changed_at": _newest_of(workload.updated_at, workload.deleted_at, *_moments_of(newest), *_moments_of(run)),
    }


def _moments_of(item: Version | Run | None) -> tuple[datetime | None, ...]:
    return (item.created_at, item.started_at, item.ended_at) if item else ()


def _newest_of(*moments: datetime | None) -> datetime:
    return max(moment for moment in moments if moment is not None)
