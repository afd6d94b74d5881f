"""Parts of pods as plain dicts, shared by function pods and builder pods. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sless.config import Settings
from sless.errors import ConfigError
from sless.kube.names import MAIN_CONTAINER, PULL_SECRET, SERVICE_ACCOUNT

UID = 65532
PORT = 8080
LEAST_MEMORY_MIB = 32
"""Minimum memory of a container; with less it does not start, because the container runtime itself needs some."""
TMP_SIZE = "256Mi"
CODE_SIZE = "512Mi"
DISK_SIZE = "1Gi"
DISK_REQUEST = "64Mi"
"""Limits on /tmp, on unpacked small code including files written there, and on both with logs, so that a function cannot fill its node."""

CODE_DIR = "/app/function"
ARCHIVE_DIR = "/app/archive"
ARCHIVE_KEY = "code.tar.gz"
ARCHIVE_ENV = "SLESS_CODE_ARCHIVE"
"""Variable with the path of small code as tar.gz, which the runtime image unpacks into SLESS_CODE_DIR before it starts."""

Json = dict[str, Any]

POD_SECURITY: Json = {
    "runAsNonRoot": True,
    "runAsUser": UID,
    "runAsGroup": UID,
    "fsGroup": UID,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where function pods may run, and their share of a node's CPU."""

    runtime_class: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    cpu: str = "1"
    cpu_request: str = "50m"
    pull_secret: str = ""
    """Name of the pull secret in the pod's namespace, "" if none is needed."""


def placement_of(settings: Settings) -> Placement:
    """Raises ConfigError naming the wrong setting."""
    return Placement(
        runtime_class=settings.runtime_class,
        node_selector=_node_selector_of(settings.node_selector),
        tolerations=_tolerations_of(settings.tolerations),
        cpu=settings.function_cpu,
        cpu_request=settings.function_cpu_request,
        pull_secret=PULL_SECRET if settings.registry_pull_secret else "",
    )


def _node_selector_of(pairs: Iterable[str]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        label, equals, value = pair.partition("=")
        if not equals or not label:
            raise ConfigError(f"SLESS_NODE_SELECTOR: expected label=value, found {pair!r}")
        labels[label] = value
    return dict(sorted(labels.items()))


def _tolerations_of(text: str) -> tuple[Json, ...]:
    if not text.strip():
        return ()
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"SLESS_TOLERATIONS: expected a JSON array: {error}") from error
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ConfigError(f"SLESS_TOLERATIONS: expected a JSON array of objects, found {text[:100]!r}")
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """`env` holds values that are not secret; `env_secret` names the Secret whose keys all become variables; `mounts` maps paths to volume
    names; `more` holds further fields as they are (probes, lifecycle, args …)."""

    image: str
    memory_mb: int
    name: str = MAIN_CONTAINER
    env: Mapping[str, str] = field(default_factory=dict)
    env_secret: str = ""
    mounts: Mapping[str, str] = field(default_factory=dict)
    read_only: frozenset[str] = frozenset()
    """Paths among `mounts` that may not be written."""
    more: Json = field(default_factory=dict)


def container_of(container: Container, placement: Placement) -> Json:
    made: Json = {
        "name": container.name,
        "image": container.image,
        "imagePullPolicy": pull_policy_of(container.image),
        "env": env_of(container.env),
        "resources": resources_of(container.memory_mb, placement),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": volume, "mountPath": path, **({"readOnly": True} if path in container.read_only else {})}
            for path, volume in sorted({"/tmp": "tmp", **container.mounts}.items())
        ],
        **container.more,
    }
    if container.env_secret:
        made["envFrom"] = [{"secretRef": {"name": container.env_secret}}]
    return made


def env_of(values: Mapping[str, str]) -> list[Json]:
    """Sorts variables, so that equal ones result in an equal pod template, and escapes values, so that Kubernetes does not expand
    `$(NAME)`."""
    return [{"name": name, "value": value.replace("$", "$$")} for name, value in sorted(values.items())]


def resources_of(memory_mb: int, placement: Placement) -> Json:
    """Memory is requested in full, so that nodes are not overcommitted; CPU is shared."""
    memory = f"{max(memory_mb, LEAST_MEMORY_MIB)}Mi"
    return {
        "limits": {"cpu": placement.cpu, "ephemeral-storage": DISK_SIZE, "memory": memory},
        "requests": {"cpu": placement.cpu_request, "ephemeral-storage": DISK_REQUEST, "memory": memory},
    }


def pod_spec_of(container: Json, placement: Placement, *, volumes: Iterable[Json] = (), more: Mapping[str, Any] | None = None) -> Json:
    """A pod with this container, a writable /tmp and no access to the cluster: no token, no service variables. `more` takes precedence."""
    spec: Json = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "serviceAccountName": SERVICE_ACCOUNT,
        # The pause container becomes process 1: it reaps processes that handlers leave behind, and a handler can send itself signals.
        "shareProcessNamespace": True,
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": TMP_SIZE}}, *volumes],
    }
    if placement.pull_secret:
        spec["imagePullSecrets"] = [{"name": placement.pull_secret}]
    if placement.runtime_class:
        spec["runtimeClassName"] = placement.runtime_class
    if placement.node_selector:
        spec["nodeSelector"] = dict(placement.node_selector)
    if placement.tolerations:
        spec["tolerations"] = list(placement.tolerations)
    return {**spec, **(more or {})}


def pull_policy_of(image: str) -> str:
    """Always for tags that move; digests and fixed tags do not change."""
    last = image.rsplit("/", 1)[-1]
    return "Always" if "@" not in image and (":" not in last or last.endswith(":latest")) else "IfNotPresent"


def small_code_of(code_map: str) -> tuple[list[Json], dict[str, str], dict[str, str]]:
    """(volumes, mounts, env) of a pod whose runtime image unpacks small code at start."""
    volumes: list[Json] = [
        {"name": "archive", "configMap": {"name": code_map}},
        {"name": "code", "emptyDir": {"sizeLimit": CODE_SIZE}},
    ]
    return volumes, {ARCHIVE_DIR: "archive", CODE_DIR: "code"}, {ARCHIVE_ENV: f"{ARCHIVE_DIR}/{ARCHIVE_KEY}"}
