"""What the state of a pod, a Deployment or a Job means, in a user's words: pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sless.clock import parse_rfc3339
from sless.host.process import exit_words_of
from sless.kube.errors import plain
from sless.kube.names import MAIN_CONTAINER

Json = dict[str, Any]

UNSCHEDULABLE_AFTER = timedelta(seconds=5)
"""Schedulers need a moment, also when all is well."""
_SIGNALS_FROM = 128
_PULL = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable"})
_CREATE = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """`rank`: of several pods' troubles the highest is told; `crashed`: the container's own end, whose last log lines belong to it."""

    text: str
    rank: int
    crashed: bool = False


def container_status_of(pod: Json) -> Json:
    for status in pod.get("status", {}).get("containerStatuses") or ():
        if status.get("name") == MAIN_CONTAINER:
            return dict(status)
    return {}


def restarts_of(pod: Json) -> int:
    return int(container_status_of(pod).get("restartCount") or 0)


def memory_mb_of(pod: Json) -> str:
    """Limit of the function's container as it stands in the pod, `128` of `128Mi`."""
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return str(limits.get("memory", "")).removesuffix("Mi")


def end_words_of(terminated: Json, memory_mb: str) -> str:
    """Why a container ended; `terminated` as in its status."""
    if terminated.get("reason") == "OOMKilled":
        return f"out of memory: over the limit of {memory_mb} MB"
    code = exit_code_of(terminated)
    words = exit_words_of(code)
    detail = terminated.get("message") if terminated.get("reason") in ("ContainerCannotRun", "StartError") else ""
    return f"{words}: {detail}" if detail else words


def exit_code_of(terminated: Json) -> int:
    """Negative for a signal, as elsewhere in sless; a container shows it as 128 and more."""
    code = int(terminated.get("exitCode") or 0)
    if terminated.get("signal"):
        return -int(terminated["signal"])
    return _SIGNALS_FROM - code if _SIGNALS_FROM < code < _SIGNALS_FROM + 65 else code


def trouble_of_pod(pod: Json, now: datetime) -> Trouble | None:
    """What keeps this pod from serving, None while it merely starts."""
    status = container_status_of(pod)
    waiting = (status.get("state") or {}).get("waiting") or {}
    ended = (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get("terminated")
    reason = waiting.get("reason", "")
    if reason in _PULL:
        image = status.get("image") or pod["spec"]["containers"][0]["image"]
        return Trouble(text=f"image {image} cannot be pulled: {_short(waiting.get('message') or reason)}", rank=3)
    if reason in _CREATE:
        return Trouble(text=f"the container cannot be made: {_short(waiting.get('message') or reason)}", rank=3)
    if ended and not status.get("ready"):
        return Trouble(text=end_words_of(ended, memory_mb_of(pod)), rank=4, crashed=True)
    if pod.get("status", {}).get("reason") in ("Evicted", "Preempting", "NodeLost", "UnexpectedAdmissionError", "OutOfmemory", "OutOfcpu"):
        return Trouble(text=f"the cluster ended the pod: {_short(pod['status'].get('message') or pod['status']['reason'])}", rank=2)
    return _unschedulable(pod, now)


def _unschedulable(pod: Json, now: datetime) -> Trouble | None:
    for condition in pod.get("status", {}).get("conditions") or ():
        state = [condition.get(name) for name in ("type", "status", "reason")]
        if state == ["PodScheduled", "False", "Unschedulable"] and now - created_at_of(pod) >= UNSCHEDULABLE_AFTER:
            return Trouble(text=f"no node of the cluster can take it: {_short(condition.get('message') or 'unschedulable')}", rank=2)
    return None


def trouble_of_deployment(deployment: Json) -> Trouble | None:
    """Pods that cannot even be made: the quota is full, or a policy of the cluster refuses them."""
    for condition in deployment.get("status", {}).get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return Trouble(text=refusal_words_of(condition.get("message") or condition.get("reason", "")), rank=1)
    return None


def refusal_words_of(message: str) -> str:
    """Of `pods "hello-" is forbidden: …` or `Error creating: pods …`."""
    return f"the cluster refuses a new pod: {_short(plain(message.removeprefix('Error creating: ')))}"


def created_at_of(item: Json) -> datetime:
    return parse_rfc3339(item["metadata"]["creationTimestamp"])


def time_of(text: str | None) -> datetime | None:
    return parse_rfc3339(text) if text else None


def _short(text: str) -> str:
    return text if len(text) <= 600 else text[:600] + " …"
