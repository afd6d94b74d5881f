"""What the state of a builder's or check's Job means: pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sless.host.process import exit_words_of
from sless.kube.errors import plain

Json = dict[str, Any]

_PULL = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable"})
_CREATE = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"})
_AT_ONCE = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_SIGNALS_FROM = 128
_MAX_CHARS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a pod does not start. `final`: waiting does not help."""

    text: str
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a container ended; `exit_code` is negative for a signal."""

    exit_code: int
    out_of_memory: bool
    detail: str = ""

    @property
    def words(self) -> str:
        return "out of memory" if self.out_of_memory else self.detail or exit_words_of(self.exit_code)


def find_trouble(pods: Iterable[Json], events: Iterable[Json]) -> Trouble | None:
    """`events` are those about the Job: that no pod can be made shows nowhere else."""
    pods = list(pods)
    for pod in pods:
        if trouble := _of_pod(pod):
            return trouble
    if not pods:
        refusals = [event for event in events if event.get("reason") == "FailedCreate"]
        if refusals:
            newest = max(refusals, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
            reason = plain(str(newest.get("message", "")).removeprefix("Error creating: "))
            return Trouble(text=f"the cluster refuses a new pod: {reason[:_MAX_CHARS]}")
    return None


def _of_pod(pod: Json) -> Trouble | None:
    for status in _statuses_of(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        reason, message = waiting.get("reason", ""), waiting.get("message") or waiting.get("reason", "")
        if reason in _PULL:
            text = f"image {status.get('image') or '?'} cannot be pulled: {message[:_MAX_CHARS]}"
            return Trouble(text=text, final=reason in _AT_ONCE)
        if reason in _CREATE:
            return Trouble(text=f"the container {status.get('name')} cannot be made: {message[:_MAX_CHARS]}")
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False" and condition.get("reason") == "Unschedulable":
            return Trouble(text=f"no node of the cluster can take the pod: {str(condition.get('message', ''))[:_MAX_CHARS]}")
    return None


def find_ended(pod: Json, container: str) -> Ended | None:
    """None: it has not ended (or not begun)."""
    for status in _statuses_of(pod):
        ended = (status.get("state") or {}).get("terminated")
        if status.get("name") == container and ended:
            code = int(ended.get("exitCode") or 0)
            if ended.get("signal"):
                code = -int(ended["signal"])
            elif _SIGNALS_FROM < code < _SIGNALS_FROM + 65:
                code = _SIGNALS_FROM - code
            killed = ended.get("reason") == "OOMKilled"
            detail = str(ended.get("message") or "") if ended.get("reason") in ("ContainerCannotRun", "StartError") else ""
            return Ended(exit_code=code, out_of_memory=killed, detail=detail)
    return None


def has_begun(pod: Json, container: str) -> bool:
    """It runs or has run: there may be a log."""
    return any(
        status.get("name") == container and {"running", "terminated"} & set(status.get("state") or {}) for status in _statuses_of(pod)
    )


def find_condition(job: Json, kind: str) -> Json | None:
    """The Job's condition `Complete` or `Failed`, if it holds."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == "True":
            return dict(condition)
    return None


def is_evicted(pod: Json) -> str | None:
    """Why the cluster ended the pod, if it did."""
    status = pod.get("status") or {}
    return str(status.get("message") or status["reason"]) if status.get("reason") and status.get("phase") == "Failed" else None


def _statuses_of(pod: Json) -> list[Json]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
