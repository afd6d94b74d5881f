"""The kinds that the stand-in serves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As in messages: `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def prefix(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


_STATUS = ("status",)
KINDS = (
    Kind("", "v1", "namespaces", "Namespace", False, ("status", "finalize")),
    Kind("", "v1", "nodes", "Node", False, _STATUS),
    Kind("", "v1", "secrets", "Secret"),
    Kind("", "v1", "configmaps", "ConfigMap"),
    Kind("", "v1", "serviceaccounts", "ServiceAccount"),
    Kind("", "v1", "resourcequotas", "ResourceQuota", True, _STATUS),
    Kind("", "v1", "limitranges", "LimitRange"),
    Kind("", "v1", "pods", "Pod", True, ("status", "log", "eviction")),
    Kind("", "v1", "services", "Service", True, _STATUS),
    Kind("", "v1", "endpoints", "Endpoints"),
    Kind("", "v1", "events", "Event"),
    Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, _STATUS),
    Kind("apps", "v1", "deployments", "Deployment", True, ("status", "scale")),
    Kind("apps", "v1", "replicasets", "ReplicaSet", True, ("status", "scale")),
    Kind("apps", "v1", "statefulsets", "StatefulSet", True, _STATUS),
    Kind("batch", "v1", "jobs", "Job", True, _STATUS),
    Kind("batch", "v1", "cronjobs", "CronJob", True, _STATUS),
    Kind("networking.k8s.io", "v1", "ingresses", "Ingress", True, _STATUS),
    Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, _STATUS),
    Kind("coordination.k8s.io", "v1", "leases", "Lease"),
    Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Kind("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False),
    Kind("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    Kind("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False),
    Kind("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False),
    # Custom resources of the earlier operator. The stand-in tells kinds apart by name, so these have a prefix.
    Kind("sless.kube5s.ru", "v1alpha1", "functions", "EarlierFunction"),
    Kind("sless.kube5s.ru", "v1alpha1", "services", "EarlierService"),
    Kind("sless.kube5s.ru", "v1alpha1", "functionjobs", "EarlierFunctionJob"),
    Kind("sless.kube5s.ru", "v1alpha1", "triggers", "EarlierTrigger"),
)
CUSTOM_GROUP = "sless.kube5s.ru/"
"""Without a published schema."""
_BY_PLURAL = {(item.group, item.version, item.plural): item for item in KINDS}
_BY_KIND = {item.kind: item for item in KINDS}
_BY_API = {(item.api_version, item.kind): item for item in KINDS}


def find_by_plural(group: str, version: str, plural: str) -> Kind | None:
    return _BY_PLURAL.get((group, version, plural))


def kind_of(name: str) -> Kind:
    """By name, such as `Deployment`."""
    return _BY_KIND[name]


def find_of_object(item: dict) -> Kind | None:
    return _BY_API.get((item.get("apiVersion", ""), item.get("kind", "")))
