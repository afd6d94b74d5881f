"""Explains the state of a pod, a Deployment or a Job to users, for functions, runs and builds. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sless.clock import parse_rfc3339
from sless.domain.exits import exit_words_of
from sless.kube.errors import is_quota_used_up, plain
from sless.kube.names import MAIN_CONTAINER

Json = dict[str, Any]

UNSCHEDULABLE_AFTER = timedelta(seconds=5)
"""Time for the scheduler, which needs a moment even if there is room."""
_SIGNALS_FROM = 128
_PULL = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable"})
_CREATE = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"})
_FINAL = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_EVICTED = frozenset({"Evicted", "Preempting", "NodeLost", "UnexpectedAdmissionError", "OutOfmemory", "OutOfcpu"})
_MAX_CHARS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTrouble:
    """Why a pod does not serve. Of several problems, the one with the highest `rank` is reported. `crashed`: the container ended by itself,
    so the message should include its last log lines. `final`: waiting does not help; `quota`: it may start once other pods have ended."""

    text: str
    rank: int = 0
    crashed: bool = False
    final: bool = False
    quota: bool = False


def container_status_of(pod: Json) -> Json:
    for status in pod.get("status", {}).get("containerStatuses") or ():
        if status.get("name") == MAIN_CONTAINER:
            return dict(status)
    return {}


def restarts_of(pod: Json) -> int:
    return int(container_status_of(pod).get("restartCount") or 0)


def memory_mb_of(pod: Json) -> str:
    """Memory limit of the function's container in the pod: `128` of `128Mi`."""
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return str(limits.get("memory", "")).removesuffix("Mi")


def end_words_of(terminated: Json, memory_mb: str) -> str:
    """Why a container ended; `terminated` is that part of its status."""
    if terminated.get("reason") == "OOMKilled":
        return f"out of memory: over the limit of {memory_mb} MB"
    words = exit_words_of(exit_code_of(terminated))
    detail = start_failure_of(terminated)
    return f"{words}: {detail}" if detail else words


def exit_code_of(terminated: Json) -> int:
    """Negative for a signal, as everywhere in sless; containers report signals as 128 + number."""
    code = int(terminated.get("exitCode") or 0)
    if terminated.get("signal"):
        return -int(terminated["signal"])
    return _SIGNALS_FROM - code if _SIGNALS_FROM < code < _SIGNALS_FROM + 65 else code


def start_failure_of(terminated: Json) -> str:
    """The runtime's message when the container could not be started at all, else ""."""
    return str(terminated.get("message") or "") if terminated.get("reason") in ("ContainerCannotRun", "StartError") else ""


def waiting_trouble_of(status: Json, image: str = "?") -> PodTrouble | None:
    """The problem of one container by its status: its image cannot be pulled, or the container cannot be created."""
    waiting = (status.get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason", "")
    detail = _short(waiting.get("message") or reason)
    if reason in _PULL:
        return PodTrouble(text=f"image {status.get('image') or image} cannot be pulled: {detail}", rank=3, final=reason in _FINAL)
    if reason in _CREATE:
        return PodTrouble(text=f"the container cannot be created: {detail}", rank=3)
    return None


def unschedulable_trouble_of(pod: Json) -> PodTrouble | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if [condition.get(name) for name in ("type", "status", "reason")] == ["PodScheduled", "False", "Unschedulable"]:
            return PodTrouble(
                text=f"no node of the cluster can take the pod: {_short(condition.get('message') or 'unschedulable')}", rank=2
            )
    return None


def trouble_of_pod(pod: Json, now: datetime) -> PodTrouble | None:
    """Why an instance does not serve; None while it is only starting."""
    status = container_status_of(pod)
    ended = (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get("terminated")
    if waiting := waiting_trouble_of(status, pod["spec"]["containers"][0].get("image", "?")):
        return waiting
    if ended and not status.get("ready"):
        return PodTrouble(text=end_words_of(ended, memory_mb_of(pod)), rank=4, crashed=True)
    if pod.get("status", {}).get("reason") in _EVICTED:
        return PodTrouble(text=f"the cluster ended the pod: {_short(pod['status'].get('message') or pod['status']['reason'])}", rank=2)
    return unschedulable_trouble_of(pod) if now - created_at_of(pod) >= UNSCHEDULABLE_AFTER else None


def trouble_of_deployment(deployment: Json) -> PodTrouble | None:
    """Why pods cannot be created: the quota is used up, or a policy of the cluster refuses them."""
    for condition in deployment.get("status", {}).get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return refusal_of(condition.get("message") or condition.get("reason", ""))
    return None


def refusal_of(message: str) -> PodTrouble:
    """`message` is `pods "hello-" is forbidden: …` or `Error creating: pods …`."""
    text = plain(message.removeprefix("Error creating: "))
    return PodTrouble(text=f"the cluster refuses a new pod: {_short(text)}", rank=1, quota=is_quota_used_up(message))


def created_at_of(item: Json) -> datetime:
    return parse_rfc3339(item["metadata"]["creationTimestamp"])


def time_of(text: str | None) -> datetime | None:
    return parse_rfc3339(text) if text else None


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + " …"
