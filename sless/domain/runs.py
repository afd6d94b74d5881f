"""Constructors of new runs, one per kind, and their attempts. All but a cron firing start as queued, without an attempt."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sless import ids
from sless.domain.asynchronous import AsyncOptions
from sless.domain.cron import Due, firing_id_of
from sless.domain.model import CallStatus, CallTrigger, Kind, Run, Trigger, TriggerType, Workload

DEFAULT_FIRE_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTarget:
    """The workload that a run belongs to."""

    workload_id: str
    namespace: str
    kind: Kind
    name: str


def job_run(job: Workload, now: datetime) -> Run:
    """The run that the job's `run_id` asks for."""
    return _run(
        ids.new_id(), target_of(job), CallTrigger.JOB, now, event=job.spec.event_json or "{}", job_run_id=job.spec.run_id, max_attempts=1
    )


def fired_run(trigger: Trigger, target: Workload, event: str, now: datetime) -> Run:
    """The call that a trigger would make, started by a user. A call of a cron trigger is not retried, just as after its firings."""
    attempts = 1 if trigger.type is TriggerType.CRON else int(trigger.spec.get("max_attempts", DEFAULT_FIRE_ATTEMPTS))
    return _run(ids.new_id(), target_of(target), CallTrigger(trigger.type), now, event=event, trigger_id=trigger.id, max_attempts=attempts)


def cron_run(due: Due, target: RunTarget, event: str, outcome: tuple[CallStatus, str], now: datetime) -> Run:
    """`outcome` is (status, message) as `domain.cron.outcome_of` returns it: queued, skipped or missed."""
    status, message = outcome
    return _run(
        firing_id_of(due.trigger_id, due.due_at), target, CallTrigger.CRON, now, event=event, trigger_id=due.trigger_id, due_at=due.due_at,
        max_attempts=1, status=status, message=message, ended_at=None if status is CallStatus.QUEUED else now,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncRequest:
    """`text` as in `Run.request`, "" when only the event is kept; then `event` is JSON text, else empty."""

    id: str
    request_id: str
    trigger: CallTrigger
    event: str
    text: str = ""


def async_run(target: RunTarget, request: AsyncRequest, options: AsyncOptions, now: datetime) -> Run:
    return _run(
        request.id, target, request.trigger, now, request_id=request.request_id, event=request.event, request=request.text or None,
        max_attempts=options.max_attempts, callback_url=options.callback_url, size_bytes=len(request.event) + len(request.text),
    )  # fmt: skip


def target_of(workload: Workload) -> RunTarget:
    return RunTarget(workload_id=workload.id, namespace=workload.namespace, kind=workload.kind, name=workload.name)


def _run(run_id: str, target: RunTarget, trigger: CallTrigger, now: datetime, **values: Any) -> Run:
    return Run(
        id=run_id, namespace=target.namespace, workload_id=target.workload_id, kind=target.kind, name=target.name, trigger=trigger,
        not_before=now, created_at=now, **{"request_id": run_id} | values,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """`number` counts from 1, over manual retries too. `status` is running or how the attempt ended (never dead: only runs are)."""

    run_id: str
    number: int
    version: int | None
    status: CallStatus
    http_status: int | None
    error: str | None
    started_at: datetime
    finished_at: datetime | None
