"""Objects of the cluster → values of ports.Backend. Pure."""

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sless.backend.kubernetes.manifests import ENV_HASH, NEEDS, TEMPLATE
from sless.domain.model import Endpoint
from sless.domain.ports import ObservedDeployment
from sless.kube.names import GENERATION, ROLE, ROLE_UNRESPONSIVE, VERSION, WORKLOAD
from sless.kube.pod_state import (
    PodTrouble,
    container_status_of,
    created_at_of,
    end_words_of,
    memory_mb_of,
    restarts_of,
    trouble_of_deployment,
    trouble_of_pod,
)  # fmt: skip
from sless.kube.pods import PORT

Json = dict[str, Any]

FindStamp = Callable[[str], str | None]
"""Returns the hash in the annotation of an object (`Kind/namespace/name`), None if it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """State of a workload that is not in its objects. `reached`: the newest generation that became ready; `tails`: last log lines of ended
    containers, by instance id; `failure`: why the last write, of generation `refused`, was refused."""

    reached: int = 0
    refused: int = 0
    tails: Mapping[str, tuple[str, ...]]
    failure: str = ""
    answering: Container[str] = ()
    """Instances that answer before the kubelet reports them ready."""


def observed_deployment(
    workload_id: str, deployment: Json | None, pods: list[Json], memory: Memory, now: datetime
) -> ObservedDeployment | None:
    """`generation` is taken from `memory.reached`. None if no object exists and no write was refused."""
    if deployment is None and not pods and not memory.failure:
        return None
    living = deployment is not None and not deployment["metadata"].get("deletionTimestamp")
    found = [endpoint for pod in pods if (endpoint := endpoint_of(pod, memory.answering)) is not None]
    endpoints = tuple(sorted(found, key=lambda one: (one.created_at, one.id)))
    current = [pod for pod in pods if deployment is None or is_current(pod, deployment)]
    trouble = _worst(deployment, current, memory, now) if living or memory.failure else None
    return ObservedDeployment(
        workload_id=workload_id,
        generation=memory.reached if living else 0,
        endpoints=endpoints,
        message=_message_of(trouble, current, memory) if trouble else "",
        failing=trouble is not None,
        wanted=memory.refused if memory.failure or deployment is None else generation_of(deployment),
    )


def is_complete(deployment: Json, template_hash: str, stamp_of: FindStamp) -> bool:
    """Whether it was written with the current settings and all objects it needs exist as written."""
    annotations = deployment["metadata"].get("annotations") or {}
    if annotations.get(TEMPLATE) != template_hash:
        return False
    return all(_matches(stamp_of(key), stamp) for key, stamp in needs_of(deployment).items())


def _matches(found: str | None, wanted: str) -> bool:
    """An object without a hash only has to exist, because its name identifies its content."""
    return found is not None and (not wanted or found == wanted)


def needs_of(deployment: Json) -> dict[str, str]:
    text = (deployment["metadata"].get("annotations") or {}).get(NEEDS, "{}")
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}


def replaced_pods(deployment: Json | None, pods: list[Json]) -> list[Json]:
    """Unresponsive pods that can be deleted: no replacement is needed, or it is ready."""
    unresponsive = [pod for pod in pods if is_unresponsive(pod) and not pod["metadata"].get("deletionTimestamp")]
    if deployment is None or not unresponsive:
        return unresponsive
    serving = [pod for pod in pods if not is_unresponsive(pod) and (endpoint := endpoint_of(pod)) is not None and not endpoint.draining]
    return unresponsive if len(serving) >= int(deployment["spec"].get("replicas", 1)) else []


def is_current(pod: Json, deployment: Json) -> bool:
    """Whether the pod was created from the Deployment's current template."""
    template = deployment["spec"].get("template")
    if template is None:
        return True
    marks = [(item["metadata"].get("annotations") or {}, item["metadata"].get("labels") or {}) for item in (pod, template)]
    (annotations, labels), (wanted, wanted_labels) = marks
    same = annotations.get(ENV_HASH) == wanted.get(ENV_HASH) and labels.get(VERSION) == wanted_labels.get(VERSION)
    return same and memory_mb_of(pod) == memory_mb_of(template)


def is_unresponsive(pod: Json) -> bool:
    return str(pod["metadata"]["labels"].get(ROLE)) == ROLE_UNRESPONSIVE


def generation_of(deployment: Json) -> int:
    return int((deployment["metadata"].get("annotations") or {}).get(GENERATION) or 0)


def is_rolled_out(deployment: Json) -> bool:
    """Whether all replicas have the newest template and are available, and no older one is left."""
    status, wanted = deployment.get("status") or {}, int(deployment["spec"].get("replicas", 1))
    current = int(status.get("observedGeneration") or 0) >= int(deployment["metadata"].get("generation") or 0)
    counts = [int(status.get(name) or 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return current and counts == [wanted, wanted, wanted]


def shows_pods(deployment: Json, pods: list[Json]) -> bool:
    """Whether the desired number of its pods take calls. Only pods with the labels and annotations of the template count, because events of
    a Deployment may arrive before those of its pods."""
    template = deployment["spec"].get("template", {}).get("metadata") or {}
    marks = [("labels", template.get("labels") or {}), ("annotations", template.get("annotations") or {})]
    fit = [pod for pod in pods if all(wanted.items() <= (pod["metadata"].get(name) or {}).items() for name, wanted in marks)]
    serving = [pod for pod in fit if (endpoint := endpoint_of(pod)) is not None and not endpoint.draining]
    return len(serving) >= int(deployment["spec"].get("replicas", 1))


def endpoint_of(pod: Json, answering: Container[str] = ()) -> Endpoint | None:
    """The endpoint of a pod that takes calls; a terminating pod is draining while its container runs. `answering`: instances that answer
    before the kubelet has reported them ready."""
    status = container_status_of(pod)
    address = address_of(pod)
    leaving = bool(pod["metadata"].get("deletionTimestamp"))
    ready = status.get("ready") or leaving or instance_id_of(pod) in answering
    if not address or "running" not in (status.get("state") or {}) or not ready:
        return None
    return Endpoint(
        id=instance_id_of(pod),
        workload_id=pod["metadata"]["labels"][WORKLOAD],
        version=int(pod["metadata"]["labels"].get(VERSION) or 0),
        address=address,
        draining=leaving,
        created_at=created_at_of(pod),
    )


def address_of(pod: Json) -> str | None:
    """`host:port`, None before it has an address."""
    address = pod.get("status", {}).get("podIP")
    if not address:
        return None
    return f"[{address}]:{PORT}" if ":" in address else f"{address}:{PORT}"


def instance_id_of(pod: Json, restarts: int | None = None) -> str:
    """A restarted container is another instance, whose log lines are numbered from 1 again."""
    return f"{pod['metadata']['uid']}-{restarts_of(pod) if restarts is None else restarts}"


def backed_off_instance_of(pod: Json) -> str | None:
    """The ended instance that the kubelet restarts only after a pause: 10 s, 20 s, 40 s …"""
    waiting = (container_status_of(pod).get("state") or {}).get("waiting") or {}
    return instance_id_of(pod) if waiting.get("reason") == "CrashLoopBackOff" and not pod["metadata"].get("deletionTimestamp") else None


def ended_instances_of(pod: Json) -> dict[str, str]:
    """Ended instances of this pod with the reason: of the container and of its previous run."""
    status, found = container_status_of(pod), {}
    restarts = int(status.get("restartCount") or 0)
    ended = (status.get("state") or {}).get("terminated")
    before = (status.get("lastState") or {}).get("terminated")
    if ended:
        found[instance_id_of(pod, restarts)] = end_words_of(ended, memory_mb_of(pod))
    if before:
        # The count rises at the next start; until then, the ended container has this number.
        waiting = "waiting" in (status.get("state") or {})
        found[instance_id_of(pod, restarts if waiting else restarts - 1)] = end_words_of(before, memory_mb_of(pod))
    return found


def _worst(deployment: Json | None, pods: list[Json], memory: Memory, now: datetime) -> PodTrouble | None:
    # Report a crash only once its log has been read, so that users do not see a message without its traceback.
    troubles = [
        trouble
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp") and (trouble := trouble_of_pod(pod, now))
        and (not trouble.crashed or any(instance in memory.tails for instance in ended_instances_of(pod)))
    ]  # fmt: skip
    if deployment is not None and (trouble := trouble_of_deployment(deployment)):
        troubles.append(trouble)
    if memory.failure:
        troubles.append(PodTrouble(text=memory.failure, rank=5))
    return max(troubles, key=lambda one: one.rank, default=None)


def _message_of(trouble: PodTrouble, pods: list[Json], memory: Memory) -> str:
    if not trouble.crashed:
        return trouble.text
    ended = [instance for pod in pods for instance in ended_instances_of(pod) if memory.tails.get(instance)]
    return "\n".join([trouble.text, *(memory.tails[ended[-1]] if ended else ())])
