"""The kinds of objects that sless uses, and their API paths."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One right in terms of RBAC. `namespace` is empty for all namespaces and for cluster-wide resources."""

    verb: str
    group: str
    resource: str
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOf:
    """`api_version` as in a manifest, `plural` as in a URL."""

    api_version: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str | None, name: str = "") -> str:
        """URL path of the collection, or of one object."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        where = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{where}/{self.plural}" + (f"/{name}" if name else "")


KINDS = {
    "Namespace": KindOf(api_version="v1", plural="namespaces", namespaced=False),
    "Pod": KindOf(api_version="v1", plural="pods"),
    "Service": KindOf(api_version="v1", plural="services"),
    "Secret": KindOf(api_version="v1", plural="secrets"),
    "ConfigMap": KindOf(api_version="v1", plural="configmaps"),
    "ServiceAccount": KindOf(api_version="v1", plural="serviceaccounts"),
    "ResourceQuota": KindOf(api_version="v1", plural="resourcequotas"),
    "LimitRange": KindOf(api_version="v1", plural="limitranges"),
    "Event": KindOf(api_version="v1", plural="events"),
    "Deployment": KindOf(api_version="apps/v1", plural="deployments"),
    "ReplicaSet": KindOf(api_version="apps/v1", plural="replicasets"),
    "Job": KindOf(api_version="batch/v1", plural="jobs"),
    "NetworkPolicy": KindOf(api_version="networking.k8s.io/v1", plural="networkpolicies"),
    "Ingress": KindOf(api_version="networking.k8s.io/v1", plural="ingresses"),
}

EARLIER = {
    f"Earlier{kind}": KindOf(api_version="sless.kube5s.ru/v1alpha1", plural=plural)
    for kind, plural in {"Function": "functions", "Service": "services", "FunctionJob": "functionjobs", "Trigger": "triggers"}.items()
}
"""Kinds of the earlier operator, whose objects can be imported."""


def kind_of(kind: str) -> KindOf:
    if found := KINDS.get(kind) or EARLIER.get(kind):
        return found
    raise ValueError(f"kind {kind!r}: expected one of {', '.join(sorted(KINDS))}")
