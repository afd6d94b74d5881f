"""Job and pod → state of the run. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sless.backend.kubernetes.run_manifests import MEMORY, TIMEOUT
from sless.domain.model import CallStatus
from sless.kube.pod_state import (
    container_status_of,
    created_at_of,
    end_words_of,
    exit_code_of,
    refusal_of,
    time_of,
    trouble_of_pod,
)  # fmt: skip

Json = dict[str, Any]

OVERDUE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """`read_log`: the container has ended and its log contains the outcome. `end_it`: the Job is still active and must be ended.
    `message` explains a missing outcome."""

    status: CallStatus
    message: str = ""
    exit_code: int | None = None
    read_log: bool = False
    end_it: bool = False
    started_at: datetime | None = None
    ended_at: datetime | None = None


def run_state_of(job: Json, pod: Json | None, refusal: str, now: datetime, refused_sec: float | None) -> RunState:
    """`refusal`: why the cluster last refused to create the pod, "" if it did not. `refused_sec`: how long that may prevent the start;
    None if no run should end because of elapsed time."""
    failed = _failed_reason(job)
    if pod is not None and (ended := ended_state_of(job, pod)) is not None:
        return ended
    started_at = time_of(((container_status_of(pod).get("state") or {}).get("running") or {}).get("startedAt")) if pod else None
    if failed == "DeadlineExceeded":
        return RunState(status=CallStatus.TIMEOUT, message=_over_time(job), started_at=started_at, ended_at=now, read_log=pod is not None)
    if failed:
        return RunState(status=CallStatus.FAILED, message=_lost(pod, job), ended_at=now)
    if refused_sec is None:
        return RunState(status=CallStatus.RUNNING, started_at=started_at)
    if started_at is not None:
        return _running(job, started_at, now)
    return _starting(job, pod, refusal, (now, refused_sec))


def ended_state_of(job: Json, pod: Json) -> RunState | None:
    """None while the run's container has not ended."""
    terminated = (container_status_of(pod).get("state") or {}).get("terminated")
    if not terminated:
        return None
    failed = _failed_reason(job)
    return _ended(job, terminated, over_time=failed == "DeadlineExceeded" or pod.get("status", {}).get("reason") == failed)


def timeout_sec_of(job: Json) -> int:
    return int((job["metadata"].get("annotations") or {}).get(TIMEOUT) or 0)


def _ended(job: Json, terminated: Json, *, over_time: bool) -> RunState:
    memory_mb = (job["metadata"].get("annotations") or {}).get(MEMORY, "")
    return RunState(
        status=CallStatus.TIMEOUT if over_time else CallStatus.FAILED,
        message=_over_time(job) if over_time else end_words_of(terminated, memory_mb),
        exit_code=exit_code_of(terminated),
        read_log=True,
        started_at=time_of(terminated.get("startedAt")),
        ended_at=time_of(terminated.get("finishedAt")),
    )


def _running(job: Json, started_at: datetime, now: datetime) -> RunState:
    limit_sec = timeout_sec_of(job)
    if limit_sec and now - started_at >= timedelta(seconds=limit_sec) + OVERDUE:
        return RunState(
            status=CallStatus.TIMEOUT, message=_over_time(job), read_log=True, end_it=True, started_at=started_at, ended_at=now
        )  # fmt: skip
    return RunState(status=CallStatus.RUNNING, started_at=started_at)


def _starting(job: Json, pod: Json | None, refusal: str, limit: tuple[datetime, float]) -> RunState:
    now, refused_sec = limit
    waited = now - created_at_of(job)
    running = RunState(status=CallStatus.RUNNING)
    if waited < timedelta(seconds=refused_sec):
        return running
    if pod is None:
        return RunState(status=CallStatus.FAILED, message=refusal_of(refusal).text, end_it=True, ended_at=now) if refusal else running
    trouble = trouble_of_pod(pod, now)
    return RunState(status=CallStatus.FAILED, message=trouble.text, end_it=True, ended_at=now) if trouble else running


def _failed_reason(job: Json) -> str:
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("type") in ("Failed", "FailureTarget") and condition.get("status") == "True":
            return str(condition.get("reason") or "Failed")
    return ""


def _over_time(job: Json) -> str:
    return f"timed out after {timeout_sec_of(job)} s"


def _lost(pod: Json | None, job: Json) -> str:
    if pod is not None:
        status = pod.get("status", {})
        if status.get("message") or status.get("reason"):
            return f"the cluster ended the pod: {status.get('message') or status.get('reason')}"
    return "the run's pod was removed from the cluster before it had ended"
