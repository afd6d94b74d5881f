"""Manifests of the builder pods' namespace. Pure.

Installers of tenants run there as an unprivileged user. The namespace also has the push credentials, which are not mounted in containers
that run a tenant's commands. Nothing may connect to its pods, and its only secrets of tenants are the build_env of running builds.
"""

import base64
import json
from typing import Any

from sless.builder.builder_fit import BuilderFit, times
from sless.domain.addresses import BLOCKED_4, BLOCKED_6, Allowed
from sless.kube.names import ROLE_BUILD, SERVER_LABEL, labels_of
from sless.kube.stamp import stamped

Json = dict[str, Any]

PUSH_SECRET = "sless-push"
PULL_SECRET = "sless-base-images"
NAME = "sless-builds"
_SPARE_PODS = 2
"""Pods in addition to the number of concurrent builds, because a retrying Job keeps its old pod for a moment."""


def namespace_manifests(fit: BuilderFit) -> list[Json]:
    """The objects in the order in which to apply them."""
    pods = fit.at_once + _SPARE_PODS
    hard = {"pods": str(pods), "limits.cpu": times(fit.cpu, pods), "limits.memory": times(fit.memory, pods)}
    limits = {"type": "Container", "default": {"cpu": fit.cpu, "memory": fit.memory}, "defaultRequest": {"cpu": "100m", "memory": "128Mi"}}
    objects: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fit.namespace, "labels": _namespace_labels(fit)}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": _metadata(fit, NAME), "spec": {"hard": hard}},
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": _metadata(fit, NAME), "spec": {"limits": [limits]}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": _metadata(fit, NAME), "spec": _isolation(fit)},
    ]
    return [stamped(item) for item in objects]


def secret_copy_manifest(fit: BuilderFit, name: str, source: Json) -> Json:
    """A copy of a dockerconfigjson Secret for the builder namespace."""
    return stamped(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": _metadata(fit, name),
            "type": source.get("type", "kubernetes.io/dockerconfigjson"),
            "data": dict(sorted((source.get("data") or {}).items())),
        }
    )


def docker_config_of(secret: Json) -> str | None:
    """The dockerconfigjson in a Secret, None if it has none."""
    data = secret.get("data") or {}
    if encoded := data.get(".dockerconfigjson"):
        return base64.b64decode(encoded).decode()
    if encoded := data.get(".dockercfg"):
        return json.dumps({"auths": json.loads(base64.b64decode(encoded))})
    return None


def _namespace_labels(fit: BuilderFit) -> dict[str, str]:
    """kaniko needs only root; buildah mounts file systems, which only the level "privileged" allows."""
    level = "baseline" if fit.builder == "kaniko" else "privileged"
    return dict(sorted({**labels_of(fit.installation, ROLE_BUILD), "pod-security.kubernetes.io/enforce": level}.items()))


def _isolation(fit: BuilderFit) -> Json:
    """Denies all ingress. Allows egress to public addresses, the cluster's DNS, sless itself, the registry, the store of contexts and
    SLESS_BUILDER_EGRESS_ALLOW, but not to the API server, the cloud's metadata or other private addresses."""
    public = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(BLOCKED_4)}},
        {"ipBlock": {"cidr": "::/0", "except": list(BLOCKED_6)}},
    ]
    server = {
        "namespaceSelector": {"matchLabels": {_NAME_LABEL: fit.pod_namespace}},
        "podSelector": {"matchLabels": {SERVER_LABEL: "server"}},
    }
    services = [{"to": [{"namespaceSelector": {"matchLabels": {_NAME_LABEL: name}}}]} for name in fit.service_namespaces]
    allowed = [_egress_of(item) for item in (*fit.addresses, *fit.egress_allow)]
    return {**_CLOSED, "egress": [_DNS, {"to": public}, {"to": [server]}, *services, *allowed]}


def _egress_of(item: Allowed) -> Json:
    ports = {"ports": [{"port": item.port, "protocol": "TCP"}, {"port": item.port, "protocol": "UDP"}]} if item.port else {}
    return {"to": [{"ipBlock": {"cidr": str(item.network)}}], **ports}


_NAME_LABEL = "kubernetes.io/metadata.name"
_DNS: Json = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {_NAME_LABEL: "kube-system"}},
            "podSelector": {
                "matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["coredns", "kube-dns", "node-local-dns"]}]
            },
        },
        # The resolver that some clusters run on each node.
        {"ipBlock": {"cidr": "169.254.20.10/32"}},
    ],
    "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
}
_CLOSED: Json = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": []}


def _metadata(fit: BuilderFit, name: str) -> Json:
    return {"name": name, "namespace": fit.namespace, "labels": labels_of(fit.installation, ROLE_BUILD)}
