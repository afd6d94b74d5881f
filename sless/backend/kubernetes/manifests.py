"""Desired instances → Kubernetes objects. Pure."""

import base64
import json
from dataclasses import dataclass
from typing import Any

from sless.backend.kubernetes.fit import Fit, IngressFit
from sless.backend.kubernetes.view import object_key_of
from sless.domain.ports import Deployment, Revision
from sless.domain.runtimes import RUNTIMES
from sless.kube.names import (
    GENERATION,
    KIND,
    NAME,
    NAMESPACE,
    ROLE_INSTANCE,
    VERSION,
    WORKLOAD,
    cluster_namespace_of,
    env_secret_of,
    find_code_map,
    labels_of,
)  # fmt: skip
from sless.kube.pods import CODE_DIR, PORT, Container, container_of, pod_spec_of, small_code_of
from sless.kube.stamp import hash_of, stamp_of, stamped

Json = dict[str, Any]

NEEDS = "sless.dev/needs"
"""Annotation of a Deployment: JSON of the other objects it needs, `Kind/namespace/name` → hash."""
TEMPLATE = "sless.dev/template"
"""Annotation of a Deployment: `Fit.template_hash` at the time of writing."""
ENV_HASH = "sless.dev/env-hash"

PRE_STOP_SEC = 5
"""How long a terminating pod still takes calls, until every proxy knows that it is draining."""
START_SEC = 60
UNLIMITED_GRACE_SEC = 60
"""Time for running calls to end when the revision has no time limit."""
GRACE_MARGIN_SEC = 5
HEALTH = {"path": "/_sless/health", "port": PORT, "httpHeaders": [{"name": "X-Sless-Control", "value": "1"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Objects applied `before` and `after` the Deployment. `code_map` names the ConfigMap with small code, whose content is only read if
    it is missing."""

    deployment: Json
    before: tuple[Json, ...]
    after: tuple[Json, ...]
    code_map: str | None


def wanted_of(fit: Fit, desired: Deployment) -> Wanted:
    revision = desired.revision
    before = (stamped(env_secret(fit, revision, env_secret_of(revision.name), ROLE_INSTANCE)), stamped(_service(fit, revision)))
    after = (stamped(_ingress(fit, revision, fit.ingress)),) if fit.ingress else ()
    code_map = find_code_map(revision.artifact)
    needs = {object_key_of(item): stamp_of(item) for item in (*before, *after)}
    if code_map:
        needs[f"ConfigMap/{cluster_namespace_of(revision.namespace)}/{code_map}"] = ""
    deployment = _deployment(fit, desired, before[0])
    annotations = {
        GENERATION: str(desired.generation),
        NEEDS: json.dumps(needs, sort_keys=True, separators=(",", ":")),
        TEMPLATE: fit.template_hash,
    }
    deployment["metadata"]["annotations"] = annotations
    return Wanted(deployment=stamped(deployment), before=before, after=after, code_map=code_map)


def labels_of_revision(fit: Fit, revision: Revision, role: str) -> dict[str, str]:
    more = {WORKLOAD: revision.workload_id, NAME: revision.name, KIND: str(revision.kind), NAMESPACE: revision.namespace}
    return labels_of(fit.installation, role, more)


def env_secret(fit: Fit, revision: Revision, name: str, role: str, more: dict[str, str] | None = None) -> Json:
    """Contains all of `env`, without distinguishing secret_env and env_vars, so that no secret can end up in a pod spec."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": cluster_namespace_of(revision.namespace),
            "labels": dict(sorted({**labels_of_revision(fit, revision, role), **(more or {})}.items())),
        },
        "type": "Opaque",
        # Not stringData, because server-side apply would never remove its keys.
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in sorted(revision.env.items())},
    }


def pod_environment_of(revision: Revision) -> dict[str, str]:
    """Variables visible to everyone who can read the pod. The user's take precedence, except over those that the runtime reads."""
    ours = {
        "SLESS_ENTRYPOINT": revision.entrypoint,
        "SLESS_CODE_DIR": CODE_DIR,
        "SLESS_FUNCTION_NAME": revision.name,
        "SLESS_NAMESPACE": revision.namespace,
        "SLESS_VERSION": str(revision.version),
        "SLESS_MEMORY_MB": str(revision.memory_mb),
        "SLESS_TIMEOUT_SEC": str(revision.timeout_sec),
        "SLESS_CONCURRENCY": str(revision.concurrency),
        "SLESS_EVENT_FORMAT": revision.event_format,
        "SLESS_PORT": str(PORT),
    }
    usual = {"HOME": "/tmp", "TMPDIR": "/tmp", **_heap_below_limit_of(revision)}
    return {**{name: value for name, value in usual.items() if name not in revision.env}, **ours}


def container_of_revision(
    fit: Fit, revision: Revision, secret: str, more: Json, env: dict[str, str] | None = None
) -> tuple[Json, list[Json]]:
    """The container of a revision and the volumes it needs. The image is the built one, or the runtime's for small code."""
    code_map = find_code_map(revision.artifact)
    volumes, mounts, code_env = small_code_of(code_map) if code_map else ([], {}, {})
    container = Container(
        image=fit.images[revision.runtime] if code_map else revision.artifact,
        memory_mb=revision.memory_mb,
        env={**pod_environment_of(revision), **({"SLESS_ADDRESS": fit.address} if fit.address else {}), **code_env, **(env or {})},
        env_secret=secret,
        mounts=mounts,
        more=more,
    )
    return container_of(container, fit.placement), volumes


def grace_sec_of(revision: Revision) -> int:
    """Time for running calls to end after SIGTERM."""
    return revision.timeout_sec or UNLIMITED_GRACE_SEC


def _deployment(fit: Fit, desired: Deployment, secret: Json) -> Json:
    revision = desired.revision
    labels = labels_of_revision(fit, revision, ROLE_INSTANCE)
    selector = labels_of(fit.installation, ROLE_INSTANCE, {WORKLOAD: revision.workload_id})
    template = {
        "metadata": {
            "labels": dict(sorted({**labels, VERSION: str(revision.version)}.items())),
            "annotations": {ENV_HASH: hash_of(secret["data"])},
        },
        "spec": _pod_spec(fit, revision, secret["metadata"]["name"]),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": revision.name, "namespace": cluster_namespace_of(revision.namespace), "labels": labels},
        "spec": {
            "replicas": desired.replicas,
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": selector},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}},
            "template": template,
        },
    }


def _pod_spec(fit: Fit, revision: Revision, secret: str) -> Json:
    more = {
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "startupProbe": {"httpGet": HEALTH, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": START_SEC},
        # A generous time-out, because a handler that uses all of the CPU is slow, not unhealthy.
        "readinessProbe": {"httpGet": HEALTH, "periodSeconds": 5, "timeoutSeconds": 3, "failureThreshold": 6},
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SEC}}},
    }
    grace_sec = grace_sec_of(revision)
    container, volumes = container_of_revision(fit, revision, secret, more, {"SLESS_GRACE_SEC": str(grace_sec)})
    spread = {"labelSelector": {"matchLabels": {WORKLOAD: revision.workload_id}}, "maxSkew": 1}
    return pod_spec_of(
        container,
        fit.placement,
        volumes=volumes,
        more={
            "terminationGracePeriodSeconds": PRE_STOP_SEC + grace_sec + GRACE_MARGIN_SEC,
            "topologySpreadConstraints": [{**spread, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}],
        },
    )


def _service(fit: Fit, revision: Revision) -> Json:
    """A Service for other tools of a provider, such as meshes, metrics and kubectl. The proxy itself calls pods directly."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": revision.name,
            "namespace": cluster_namespace_of(revision.namespace),
            "labels": labels_of_revision(fit, revision, ROLE_INSTANCE),
        },
        "spec": {
            "selector": labels_of(fit.installation, ROLE_INSTANCE, {WORKLOAD: revision.workload_id}),
            "ports": [{"name": "http", "port": 80, "targetPort": PORT, "protocol": "TCP"}],
        },
    }


def _ingress(fit: Fit, revision: Revision, ingress: IngressFit) -> Json:
    label = f"{revision.name}-{revision.namespace}"
    host = f"{label}.{ingress.host}"
    service = {"name": ingress.service, "port": {"number": ingress.port}}
    spec: Json = {"rules": [{"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": service}}]}}]}
    if ingress.class_name:
        spec["ingressClassName"] = ingress.class_name
    if ingress.tls_secret:
        spec["tls"] = [{"hosts": [host], "secretName": ingress.tls_secret}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "name": f"fn-{label}"[:253],
            "namespace": ingress.namespace,
            "labels": labels_of_revision(fit, revision, ROLE_INSTANCE),
            # Calls may take 900 s and have bodies of 32 MB. Only ingress-nginx reads these annotations.
            "annotations": {
                "nginx.ingress.kubernetes.io/proxy-body-size": "0",
                "nginx.ingress.kubernetes.io/proxy-buffering": "off",
                "nginx.ingress.kubernetes.io/proxy-read-timeout": "930",
                "nginx.ingress.kubernetes.io/proxy-request-buffering": "off",
                "nginx.ingress.kubernetes.io/proxy-send-timeout": "930",
            },
        },
        "spec": spec,
    }


def _heap_below_limit_of(revision: Revision) -> dict[str, str]:
    """Memory limit for the language's garbage collector, which leaves room for the interpreter below the cgroup limit."""
    known = RUNTIMES.get(revision.runtime)
    match known.language if known else None:
        case "node":
            return {"NODE_OPTIONS": f"--max-old-space-size={max(16, revision.memory_mb * 3 // 4)}"}
        case "go":
            return {"GOMEMLIMIT": f"{revision.memory_mb * 9 // 10}MiB"}
    return {}
