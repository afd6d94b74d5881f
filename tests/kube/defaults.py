"""Defaults that the API server sets, and quantities in canonical form. A client that compares the stored object with the one it sent must
account for both."""

from collections.abc import Callable
from typing import Any

from tests.kube.quantity import canonical

Object = dict[str, Any]


def set_defaults(item: Object) -> None:
    """In place."""
    fill = _BY_KIND.get(item["kind"])
    if fill:
        fill(item)


def _set(target: Object, **defaults: Any) -> None:
    for name, value in defaults.items():
        if target.get(name) is None:
            target[name] = value


def pod_spec_defaults(spec: Object, *, restart: str = "Always") -> None:
    _set(
        spec, restartPolicy=restart, dnsPolicy="ClusterFirst", terminationGracePeriodSeconds=30, schedulerName="default-scheduler",
        securityContext={}, enableServiceLinks=True,
    )  # fmt: skip
    if spec.get("serviceAccountName"):
        _set(spec, serviceAccount=spec["serviceAccountName"])
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        _container(container)
    for volume in spec.get("volumes") or []:
        for source in ("secret", "configMap", "projected", "downwardAPI"):
            if volume.get(source) is not None:
                _set(volume[source], defaultMode=0o644)
        if set(volume) == {"name"}:
            volume["emptyDir"] = {}


def _container(container: Object) -> None:
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    pull = "Always" if "@" not in image and tag in ("", "latest") else "IfNotPresent"
    _set(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File", imagePullPolicy=pull, resources={})
    for port in container.get("ports") or []:
        _set(port, protocol="TCP")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe):
            _probe(container[probe])
    for entry in container.get("env") or []:
        reference = (entry.get("valueFrom") or {}).get("fieldRef")
        if reference:
            _set(reference, apiVersion="v1")
    resources = container["resources"]
    for name in ("limits", "requests"):
        if resources.get(name):
            resources[name] = {key: canonical(value) for key, value in resources[name].items()}
    if resources.get("limits"):
        # A missing request defaults to the limit.
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _probe(probe: Object) -> None:
    _set(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    if probe.get("httpGet"):
        _set(probe["httpGet"], path="/", scheme="HTTP")


def _pod(item: Object) -> None:
    pod_spec_defaults(item["spec"])


def _deployment(item: Object) -> None:
    spec = item["spec"]
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy={})
    _set(spec["strategy"], type="RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        _set(spec["strategy"], rollingUpdate={})
        _set(spec["strategy"]["rollingUpdate"], maxUnavailable="25%", maxSurge="25%")
    _template(spec)


def _replica_set(item: Object) -> None:
    _set(item["spec"], replicas=1)
    _template(item["spec"])


def _template(spec: Object) -> None:
    _set(spec["template"], metadata={})
    # A workload's template is defaulted too, except that only Pods get requests that default to limits.
    template = spec["template"]["spec"]
    explicit = [(container, (container.get("resources") or {}).get("requests")) for container in template.get("containers") or []]
    pod_spec_defaults(template)
    for container, requests in explicit:
        if requests is None:
            container["resources"].pop("requests", None)
        else:
            container["resources"]["requests"] = {key: canonical(value) for key, value in requests.items()}


def _job(item: Object) -> None:
    spec = item["spec"]
    _set(
        spec, parallelism=1, completions=1, backoffLimit=6, completionMode="NonIndexed", suspend=False, manualSelector=False,
        podReplacementPolicy="TerminatingOrFailed",
    )  # fmt: skip
    _template(spec)


def _service(item: Object) -> None:
    spec = item.setdefault("spec", {})
    _set(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster", ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    for port in spec.get("ports") or []:
        _set(port, protocol="TCP", targetPort=port.get("port"))


def _secret(item: Object) -> None:
    _set(item, type="Opaque")


def _quota(item: Object) -> None:
    hard = (item.get("spec") or {}).get("hard")
    if hard:
        item["spec"]["hard"] = {name: canonical(value) for name, value in hard.items()}


def _limit_range(item: Object) -> None:
    for limit in (item.get("spec") or {}).get("limits") or []:
        for name in ("default", "defaultRequest", "max", "min"):
            if limit.get(name):
                limit[name] = {key: canonical(value) for key, value in limit[name].items()}
        if limit.get("type") == "Container":
            for key, value in (limit.get("max") or {}).items():
                limit.setdefault("default", {}).setdefault(key, value)
            for key, value in (limit.get("default") or {}).items():
                limit.setdefault("defaultRequest", {}).setdefault(key, value)


def _network_policy(item: Object) -> None:
    spec = item.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in [*(spec.get("ingress") or []), *(spec.get("egress") or [])]:
        for port in rule.get("ports") or []:
            _set(port, protocol="TCP")


_BY_KIND: dict[str, Callable[[Object], None]] = {
    "Pod": _pod,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "Job": _job,
    "Service": _service,
    "Secret": _secret,
    "ResourceQuota": _quota,
    "LimitRange": _limit_range,
    "NetworkPolicy": _network_policy,
}
