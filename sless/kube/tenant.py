"""The objects in a tenant's namespace in the cluster. Pure except for `ensure_tenant` and `check_owner`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sless.config import Settings
from sless.domain.addresses import BLOCKED_4, BLOCKED_6, Allowed, parse_allowed
from sless.errors import ConfigError
from sless.kube.client import Kube
from sless.kube.errors import Refused
from sless.kube.names import (
    INSTALLATION,
    NAMESPACE,
    PULL_SECRET,
    ROLE_TENANT,
    SERVER_LABEL,
    SERVICE_ACCOUNT,
    cluster_namespace_of,
    labels_of,
)
from sless.kube.stamp import stamped

Json = dict[str, Any]

ISOLATION = "sless-isolation"
QUOTA = "sless"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPolicy:
    """Limits and rules for every tenant's namespace. `pull_secret` names the Secret in sless's own namespace to copy, "" for none;
    `push_secret` the one with which images are pushed."""

    installation: str
    pod_namespace: str
    pods: int
    memory: str
    cpu: str
    function_cpu: str
    function_cpu_request: str
    egress_allow: tuple[Allowed, ...] = ()
    pull_secret: str = ""
    push_secret: str = ""


def tenant_policy_of(settings: Settings, installation: str) -> TenantPolicy:
    """Raises ConfigError naming the setting that is wrong."""
    try:
        allowed = parse_allowed(settings.egress_allow)
    except ValueError as error:
        raise ConfigError(f"SLESS_EGRESS_ALLOW: {error}") from error
    return TenantPolicy(
        installation=installation,
        pod_namespace=settings.pod_namespace,
        pods=settings.tenant_pods,
        memory=settings.tenant_memory,
        cpu=settings.tenant_cpu,
        function_cpu=settings.function_cpu,
        function_cpu_request=settings.function_cpu_request,
        egress_allow=allowed,
        pull_secret=settings.registry_pull_secret,
        push_secret=settings.registry_secret,
    )


def tenant_manifests(policy: TenantPolicy, namespace: str) -> list[Json]:
    """All but the pull secret, in the order in which to apply them. `namespace` is the one that users see."""
    return [stamped(item) for item in (_namespace(policy, namespace), *_inside(policy, namespace))]


def pull_secret_manifest(policy: TenantPolicy, namespace: str, source: Json) -> Json:
    """A copy of the Secret named by `policy.pull_secret`."""
    return stamped(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": _metadata(policy, namespace, PULL_SECRET),
            "type": source.get("type", "kubernetes.io/dockerconfigjson"),
            "data": dict(sorted((source.get("data") or {}).items())),
        }
    )


def _namespace(policy: TenantPolicy, namespace: str) -> Json:
    labels = {
        **labels_of(policy.installation, ROLE_TENANT, {NAMESPACE: namespace}),
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": cluster_namespace_of(namespace), "labels": dict(sorted(labels.items()))},
    }


def _inside(policy: TenantPolicy, namespace: str) -> Iterable[Json]:
    # The quota limits CPU requests, not CPU limits: with a limit of 1 each, four functions would use it up.
    hard = {"limits.memory": policy.memory, "pods": str(policy.pods), "requests.cpu": policy.cpu}
    yield {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": _metadata(policy, namespace, QUOTA), "spec": {"hard": hard}}
    limits = {
        "type": "Container",
        "default": {"cpu": policy.function_cpu, "memory": "128Mi"},
        "defaultRequest": {"cpu": policy.function_cpu_request, "memory": "128Mi"},
    }
    yield {"apiVersion": "v1", "kind": "LimitRange", "metadata": _metadata(policy, namespace, QUOTA), "spec": {"limits": [limits]}}
    yield {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(policy, namespace, ISOLATION),
        "spec": _isolation(policy),
    }
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(policy, namespace, SERVICE_ACCOUNT),
        "automountServiceAccountToken": False,
    }


def _isolation(policy: TenantPolicy) -> Json:
    """Blocks all traffic from and to every pod, except what is listed here."""
    server = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": policy.pod_namespace}},
        "podSelector": {"matchLabels": {SERVER_LABEL: "server"}},
    }
    dns = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
    public = {
        "to": [
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(BLOCKED_4)}},
            {"ipBlock": {"cidr": "::/0", "except": list(BLOCKED_6)}},
        ]
    }
    return {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [server]}],
        "egress": [dns, public, *(_egress_of(item) for item in policy.egress_allow)],
    }


def _egress_of(item: Allowed) -> Json:
    ports = {"ports": [{"port": item.port, "protocol": "TCP"}, {"port": item.port, "protocol": "UDP"}]} if item.port else {}
    return {"to": [{"ipBlock": {"cidr": str(item.network)}}], **ports}


def _metadata(policy: TenantPolicy, namespace: str, name: str) -> Json:
    labels = labels_of(policy.installation, ROLE_TENANT, {NAMESPACE: namespace})
    return {"name": name, "namespace": cluster_namespace_of(namespace), "labels": labels}


def ensure_tenant(kube: Kube, policy: TenantPolicy, namespace: str) -> None:
    """Applies all objects. Raises KubeError, also while the namespace is being deleted."""
    check_owner(kube, cluster_namespace_of(namespace), policy.installation)
    for manifest in tenant_manifests(policy, namespace):
        kube.apply(manifest)
    if policy.pull_secret:
        source = kube.find("Secret", policy.pull_secret, policy.pod_namespace)
        if source is not None:
            kube.apply(pull_secret_manifest(policy, namespace, source))


def check_owner(kube: Kube, name: str, installation: str) -> None:
    """Raises Refused if the namespace belongs to another installation of sless. A tenant has the same namespace in each installation, so
    one would overwrite the other's objects, and delete them together with its own tenant."""
    for item in kube.list("Namespace", fields=f"metadata.name={name}", metadata_only=True):
        owner = (item["metadata"].get("labels") or {}).get(INSTALLATION, installation)
        if owner != installation:
            text = f"namespace {name} belongs to another installation of sless ({owner}; this one is {installation})"
            text += f"; if that one no longer exists, an operator can remove its namespace: kubectl delete namespace {name}"
            raise Refused(403, "OtherInstallation", text)
