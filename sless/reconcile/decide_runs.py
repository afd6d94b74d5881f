"""Rules of runs: the order in which they start, and what follows an attempt. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sless.domain.asynchronous import delay_sec_of
from sless.domain.model import CallStatus, CallTrigger, Run, Workload
from sless.domain.ports import ObservedRun

INTERRUPTED_ATTEMPTS = 3
"""How often a run is started in total if server stops interrupt it, even with `max_attempts` 1."""
RETRY_STATUS = frozenset({429})
_CALLS = frozenset({CallTrigger.INVOKE, CallTrigger.HTTP})


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRun:
    """`attempt` is how the last attempt ended, if it differs from `status`. `ended_at` is now if None. `ran_ms` is how long it used its
    memory; from claim to end if None."""

    status: CallStatus
    message: str
    result: str | None = None
    exit_code: int | None = None
    http_status: int | None = None
    attempt: CallStatus | None = None
    ended_at: datetime | None = None
    ran_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRun:
    """`quarantined`: an instance crashed during this call, which may be the cause. If all calls of that instance were retried together, the
    one that crashes instances would fail the others each time, and all would end as dead."""

    not_before: datetime
    message: str
    attempt: CallStatus = CallStatus.FAILED
    http_status: int | None = None
    quarantined: bool = False
    ran_ms: float = 0.0
    """How long the attempt used its memory."""


RunVerdict = FinishRun | RetryRun


def in_turn(due: Iterable[Run], active: Iterable[Run], most: int) -> list[Run]:
    """Sorts `due` in the order in which runs start: tenants with the fewest active runs first, then workloads with the fewest, then the
    oldest. Each workload gets at most `most` runs, including those in `active`, and at most one quarantined run."""
    on = list(active)
    suspects = {run.workload_id for run in on if run.quarantined}
    of_workload, of_tenant = Counter(run.workload_id for run in on), Counter(run.namespace for run in on)
    within = []
    for run in sorted(due, key=lambda run: (run.not_before, run.created_at, run.id)):
        if run.quarantined and run.workload_id in suspects:
            continue
        if run.quarantined:
            suspects.add(run.workload_id)
        if of_workload[run.workload_id] < most:
            within.append((of_workload[run.workload_id], run))
        of_workload[run.workload_id] += 1
    ranked = []
    for _, run in sorted(within, key=lambda pair: pair[0]):
        ranked.append((of_tenant[run.namespace], run))
        of_tenant[run.namespace] += 1
    return [run for _, run in sorted(ranked, key=lambda pair: pair[0])]


def bounded(observed: ObservedRun, most_bytes: int) -> ObservedRun:
    """Turns a success whose result exceeds the limit into a failure that says so; keeps the HTTP status."""
    outcome = observed.outcome
    if outcome is None or not outcome.ok or len(outcome.body) <= most_bytes:
        return observed
    message = f"the result is over the limit of {most_bytes} bytes (max_result_bytes)"
    kept = replace(outcome, ok=False, error=message, body=b"")
    return replace(observed, status=CallStatus.FAILED, outcome=kept, message=message)


def verdict_of(run: Run, observed: ObservedRun, now: datetime, jitter: float = 0.0) -> RunVerdict:
    """The action after an attempt. Only calls are retried, and only after 429, 5xx and platform errors; a job's failure is final. A call
    that has used up its attempts is dead. `jitter` is from -1 to 1."""
    outcome = observed.outcome
    http_status = outcome.status if outcome else None
    refused = observed.status is not CallStatus.SUCCEEDED if http_status is None else http_status >= 500 or http_status in RETRY_STATUS
    if run.trigger is CallTrigger.JOB or observed.status is CallStatus.CANCELLED or observed.non_retryable or not refused:
        return _end_of(run, observed, observed.status, now)
    # The function itself answered 429: its code did not fail, but it did not process the call.
    attempt = CallStatus.FAILED if observed.status is CallStatus.SUCCEEDED else observed.status
    message = observed.message or f"status {http_status}"
    tried = run.attempts - run.attempts_before
    if tried < run.max_attempts:
        headers = {name.lower(): value for name, value in outcome.headers} if outcome else {}
        delay = timedelta(seconds=delay_sec_of(tried, jitter, headers, now))
        quarantined = run.quarantined or observed.crashed
        return RetryRun(
            not_before=now + delay, message=message, attempt=attempt, http_status=http_status, quarantined=quarantined,
            ran_ms=_ran_ms_of(run, observed, now),
        )  # fmt: skip
    # A single attempt without retries has failed or timed out; dead means that retries were used up.
    dead = run.trigger in _CALLS or run.max_attempts > 1
    end = _end_of(run, observed, CallStatus.DEAD if dead else attempt, now)
    return replace(end, attempt=attempt, message=message)


def _end_of(run: Run, observed: ObservedRun, status: CallStatus, now: datetime) -> FinishRun:
    outcome = observed.outcome
    result = outcome.result if outcome else None
    message = observed.message
    if run.trigger is CallTrigger.JOB and observed.status is CallStatus.SUCCEEDED and result is not None:
        message = result
    return FinishRun(
        status=status,
        message=message,
        result=result,
        exit_code=observed.exit_code,
        http_status=outcome.status if outcome else None,
        ended_at=_ended_at_of(run, observed, now),
        ran_ms=_ran_ms_of(run, observed, now),
    )


def _ended_at_of(run: Run, observed: ObservedRun, now: datetime) -> datetime:
    """When the run ended, which may be long before a server notices. Never before its start or after now, since clocks of other machines
    may differ."""
    ended_at = min(observed.ended_at or now, now)
    return max(ended_at, run.started_at) if run.started_at is not None else ended_at


def _ran_ms_of(run: Run, observed: ObservedRun, now: datetime) -> float:
    """Time between claim and start, such as for pulling an image, does not count."""
    began = observed.started_at or run.started_at
    return max(0.0, (_ended_at_of(run, observed, now) - began) / timedelta(milliseconds=1)) if began is not None else 0.0


def stop_of(workload: Workload | None, target: Workload | None, now: datetime) -> RunVerdict | None:
    """How to stop an active run whose workload is deleted or suspended; None if it continues. `target` is the function whose code a job
    runs. A suspended workload keeps its runs, which start again when it is resumed."""
    if workload is None or workload.deleted_at is not None:
        return FinishRun(status=CallStatus.CANCELLED, message="cancelled: the workload was deleted")
    if workload.suspended is not None or (target is not None and target.suspended is not None):
        return RetryRun(not_before=now, message="stopped: suspended by the operator", attempt=CallStatus.CANCELLED)
    return None


def verdict_of_lost(run: Run, now: datetime) -> RunVerdict:
    """The action if the server stopped during the run and there is no outcome: delivery is at least once, so the run starts again."""
    tried = run.attempts - run.attempts_before
    if tried < max(INTERRUPTED_ATTEMPTS, run.max_attempts):
        return RetryRun(not_before=now, message="interrupted by a stop of the server; started again", quarantined=run.quarantined)
    status = CallStatus.FAILED if run.trigger is CallTrigger.JOB else CallStatus.DEAD
    # It is unknown how long it ran, so it is not billed.
    return FinishRun(
        status=status, message=f"interrupted by a stop of the server {tried} times", attempt=CallStatus.FAILED, ran_ms=0.0
    )  # fmt: skip
