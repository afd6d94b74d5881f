"""Interprets the state of a build's Jobs and their pods. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sless.domain.exits import exit_words_of
from sless.kube.pod_state import (
    PodTrouble,
    exit_code_of,
    refusal_of,
    start_failure_of,
    unschedulable_trouble_of,
    waiting_trouble_of,
)  # fmt: skip

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a container ended; `exit_code` is negative for a signal."""

    exit_code: int
    out_of_memory: bool
    detail: str = ""

    @property
    def words(self) -> str:
        return "out of memory" if self.out_of_memory else self.detail or exit_words_of(self.exit_code)


def find_trouble(pods: Iterable[Json], events: Iterable[Json]) -> PodTrouble | None:
    """Why the newest pod does not start. `events` are those of the Job, the only place that shows a refused pod."""
    pods = list(pods)
    for pod in pods:
        if trouble := _of_pod(pod):
            return trouble
    if not pods:
        refusals = [event for event in events if event.get("reason") == "FailedCreate"]
        if refusals:
            newest = max(refusals, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
            return refusal_of(str(newest.get("message", "")))
    return None


def _of_pod(pod: Json) -> PodTrouble | None:
    for status in _statuses_of(pod):
        if trouble := waiting_trouble_of(status):
            return trouble
    return unschedulable_trouble_of(pod)


def find_ended(pod: Json, container: str) -> Ended | None:
    """How the container ended; None if it has not."""
    for status in _statuses_of(pod):
        ended = (status.get("state") or {}).get("terminated")
        if status.get("name") == container and ended:
            killed = ended.get("reason") == "OOMKilled"
            return Ended(exit_code=exit_code_of(ended), out_of_memory=killed, detail=start_failure_of(ended))
    return None


def has_begun(pod: Json, container: str) -> bool:
    """Whether the container runs or has run, so that there may be a log."""
    return any(
        status.get("name") == container and {"running", "terminated"} & set(status.get("state") or {}) for status in _statuses_of(pod)
    )


def find_condition(job: Json, kind: str) -> Json | None:
    """The condition `Complete` or `Failed` of a Job, if one is true."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == "True":
            return dict(condition)
    return None


def is_evicted(pod: Json) -> str | None:
    """The reason if the cluster ended the pod, else None."""
    status = pod.get("status") or {}
    return str(status.get("message") or status["reason"]) if status.get("reason") and status.get("phase") == "Failed" else None


def _statuses_of(pod: Json) -> list[Json]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
