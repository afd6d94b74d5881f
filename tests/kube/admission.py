"""Admission of Pods: service account, LimitRange, Pod Security, ResourceQuota; and object count quotas for other kinds."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Protocol

from tests.kube.defaults import set_defaults
from tests.kube.errors import forbidden
from tests.kube.kinds import Kind
from tests.kube.quantity import text_of, value_of

Object = dict[str, Any]
_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
_BASELINE_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP",
    "SETUID", "SYS_CHROOT",
}  # fmt: skip


class Stored(Protocol):
    """The objects that admission reads."""

    def items(self, kind: str, namespace: str | None = None) -> list[Object]: ...
    def find(self, kind: str, namespace: str, name: str) -> Object | None: ...


def admit_pod(stored: Stored, pod: Object) -> None:
    """Fills in LimitRange defaults; raises Refused (403)."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    spec = pod["spec"]
    account = spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = account
    if stored.find("ServiceAccount", namespace, account) is None:
        why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
        raise forbidden("pods", name, why)
    for limits in stored.items("LimitRange", namespace):
        _apply_limit_range(limits, pod)
    labels = (stored.find("Namespace", "", namespace) or {}).get("metadata", {}).get("labels") or {}
    level = labels.get("pod-security.kubernetes.io/enforce", "privileged")
    violations = security_violations(spec, level)
    if violations:
        version = labels.get("pod-security.kubernetes.io/enforce-version", "latest")
        raise forbidden("pods", name, f'violates PodSecurity "{level}:{version}": ' + ", ".join(violations))


def containers_of(spec: Object) -> list[Object]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def _apply_limit_range(limits: Object, pod: Object) -> None:
    for limit in limits["spec"].get("limits") or []:
        if limit.get("type") != "Container":
            continue
        for container in containers_of(pod["spec"]):
            resources = container.setdefault("resources", {})
            own_limits = dict(resources.get("limits") or {})
            for key, value in (limit.get("default") or {}).items():
                resources.setdefault("limits", {}).setdefault(key, value)
            for key, value in (limit.get("defaultRequest") or {}).items():
                resources.setdefault("requests", {}).setdefault(key, own_limits.get(key, value))
            _within(limit, container, pod["metadata"]["name"])


def _within(limit: Object, container: Object, name: str) -> None:
    resources = container["resources"]
    for key, most in (limit.get("max") or {}).items():
        found = (resources.get("limits") or {}).get(key)
        if found is None or value_of(found) > value_of(most):
            raise forbidden("pods", name, f"maximum {key} usage per Container is {most}, but limit is {found or 'not set'}")
    for key, least in (limit.get("min") or {}).items():
        found = (resources.get("requests") or {}).get(key)
        if found is None or value_of(found) < value_of(least):
            raise forbidden("pods", name, f"minimum {key} usage per Container is {least}, but request is {found or 'not set'}")


# --- Pod Security ---------------------------------------------------------------------------------------


def security_violations(spec: Object, level: str) -> list[str]:
    """Violations of a Pod Security level, worded as by the real check."""
    if level not in ("baseline", "restricted"):
        return []
    found = [f"host namespaces ({name}=true)" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    if any("hostPath" in volume for volume in spec.get("volumes") or []):
        found.append("hostPath volumes")
    for container in containers_of(spec):
        found += _baseline_of(container)
    if level == "restricted":
        found += _restricted(spec)
    return found


def _baseline_of(container: Object) -> list[str]:
    context, name = container.get("securityContext") or {}, container.get("name")
    found = []
    if context.get("privileged"):
        found.append(f'privileged (container "{name}" must not set securityContext.privileged=true)')
    if any(port.get("hostPort") for port in container.get("ports") or []):
        found.append(f'hostPort (container "{name}")')
    if set((context.get("capabilities") or {}).get("add") or []) - _BASELINE_CAPABILITIES:
        found.append(f'non-default capabilities (container "{name}")')
    if (context.get("seccompProfile") or {}).get("type") == "Unconfined":
        found.append(f'seccompProfile (container "{name}" must not set securityContext.seccompProfile.type to "Unconfined")')
    return found


def _restricted(spec: Object) -> list[str]:
    containers, pod = containers_of(spec), spec.get("securityContext") or {}

    def lacking(good: Callable[[Object], bool]) -> str:
        names = [f'"{item["name"]}"' for item in containers if not good(item.get("securityContext") or {})]
        return f"container {', '.join(names)}" if names else ""

    checks = (
        ("allowPrivilegeEscalation != false", lambda own: own.get("allowPrivilegeEscalation") is False,
         "must set securityContext.allowPrivilegeEscalation=false"),
        ("unrestricted capabilities", lambda own: "ALL" in ((own.get("capabilities") or {}).get("drop") or [])
         and set((own.get("capabilities") or {}).get("add") or []) <= {"NET_BIND_SERVICE"},
         'must set securityContext.capabilities.drop=["ALL"]'),
        ("runAsNonRoot != true", lambda own: own.get("runAsNonRoot", pod.get("runAsNonRoot")) is True,
         "must set securityContext.runAsNonRoot=true"),
        ("runAsUser=0", lambda own: own.get("runAsUser", pod.get("runAsUser")) != 0, "must not set runAsUser=0"),
        ("seccompProfile", lambda own: (own.get("seccompProfile") or pod.get("seccompProfile") or {}).get("type") in
         ("RuntimeDefault", "Localhost"), 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'),
    )  # fmt: skip
    found = [f"{title} ({who} {must})" for title, good, must in checks if (who := lacking(good))]
    odd = [volume["name"] for volume in spec.get("volumes") or [] if not set(volume) - {"name"} <= _VOLUMES]
    if odd:
        found.append(f"restricted volume types (volumes {', '.join(odd)})")
    return found


# --- quota ----------------------------------------------------------------------------------------------


def usage_of(pod: Object) -> dict[str, Decimal]:
    """A Pod's share of a quota; nothing once it has ended."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return {"count/pods": Decimal(1)}
    used = {"pods": Decimal(1), "count/pods": Decimal(1)}
    for what in ("limits", "requests"):
        for resource in ("cpu", "memory", "ephemeral-storage"):
            main = _total(pod["spec"].get("containers") or [], what, resource)
            first = max((_total([item], what, resource) for item in pod["spec"].get("initContainers") or []), default=Decimal(0))
            used[f"{what}.{resource}"] = max(main, first)
            if what == "requests":
                used[resource] = used[f"{what}.{resource}"]
    return used


def _total(containers: Iterable[Object], what: str, resource: str) -> Decimal:
    values = [((item.get("resources") or {}).get(what) or {}).get(resource, "0") for item in containers]
    return sum((value_of(value) for value in values), Decimal(0))


def admit_quota(stored: Stored, kind: Kind, item: Object) -> None:
    """Raises Refused (403) if the new object would exceed a quota of its namespace."""
    namespace, name = item["metadata"].get("namespace", ""), item["metadata"]["name"]
    requested = usage_of(item) if kind.kind == "Pod" else {kind.plural: Decimal(1), f"count/{kind.resource}": Decimal(1)}
    for quota in stored.items("ResourceQuota", namespace):
        hard = quota["spec"].get("hard") or {}
        if kind.kind == "Pod":
            _must_specify(quota, item)
        used = used_of(stored, namespace, hard)
        over = [key for key in sorted(hard) if key in requested and used[key] + requested[key] > value_of(hard[key])]
        if over:
            text = [",".join(f"{key}={show(key)}" for key in over) for show in (
                lambda key: text_of(requested[key], key), lambda key: text_of(used[key], key), lambda key: hard[key],  # noqa: B023
            )]  # fmt: skip
            why = f"exceeded quota: {quota['metadata']['name']}, requested: {text[0]}, used: {text[1]}, limited: {text[2]}"
            raise forbidden(kind.resource, name, why)


def _must_specify(quota: Object, pod: Object) -> None:
    missing = []
    for key in sorted(quota["spec"].get("hard") or {}):
        what, _, resource = key.partition(".")
        if what not in ("limits", "requests") or resource not in ("cpu", "memory"):
            continue
        names = [item["name"] for item in containers_of(pod["spec"]) if resource not in ((item.get("resources") or {}).get(what) or {})]
        if names:
            missing.append(f"{key} for: {','.join(names)}")
    if missing:
        why = f"failed quota: {quota['metadata']['name']}: must specify {'; '.join(missing)}"
        raise forbidden("pods", pod["metadata"]["name"], why)


_COUNTED = {"configmaps": "ConfigMap", "secrets": "Secret", "services": "Service", "persistentvolumeclaims": "PersistentVolumeClaim"}
_COUNTED_LONG = {
    "count/deployments.apps": "Deployment",
    "count/jobs.batch": "Job",
    "count/replicasets.apps": "ReplicaSet",
    "count/ingresses.networking.k8s.io": "Ingress",
    **{f"count/{plural}": kind for plural, kind in _COUNTED.items()},
}


def used_of(stored: Stored, namespace: str, keys: Iterable[str]) -> dict[str, Decimal]:
    pods = [usage_of(pod) for pod in stored.items("Pod", namespace)]
    counted = {**_COUNTED, **_COUNTED_LONG}
    return {
        key: Decimal(len(stored.items(counted[key], namespace)))
        if key in counted
        else sum((pod.get(key, Decimal(0)) for pod in pods), Decimal(0))
        for key in keys
    }


def admit(registry: Stored, kind: Kind, item: Object, warnings: list[str]) -> None:
    """Raises Refused."""
    if kind.kind == "Pod":
        admit_pod(registry, item)
        set_defaults(item)
    if kind.namespaced:
        admit_quota(registry, kind, item)
    if kind.kind in ("Deployment", "Job", "ReplicaSet"):
        namespace = registry.find("Namespace", "", item["metadata"]["namespace"]) or {}
        labels = namespace.get("metadata", {}).get("labels") or {}
        level = labels.get("pod-security.kubernetes.io/warn", labels.get("pod-security.kubernetes.io/enforce", ""))
        violations = security_violations(item["spec"]["template"]["spec"], level)
        if violations:
            warnings.append(f'would violate PodSecurity "{level}:latest": ' + ", ".join(violations))
