"""Validation beyond the schema (422): names, labels, references within an object, and immutable fields."""

import base64
import binascii
import re
from typing import Any

from tests.kube.errors import Refused, invalid
from tests.kube.quantity import value_of
from tests.kube.selectors import selector_matches

Object = dict[str, Any]
Causes = list[tuple[str, str]]
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
MAX_DATA_BYTES = 1024 * 1024
MAX_ANNOTATION_BYTES = 256 * 1024


def check(item: Object) -> None:
    """Raises Refused (422) with every error."""
    causes: Causes = []
    kind = item["kind"]
    _metadata(kind, item["metadata"], "metadata", causes)
    spec = item.get("spec") or {}
    match kind:
        case "Pod":
            _pod_spec(spec, "spec", causes)
        case "Deployment" | "ReplicaSet":
            _workload(spec, causes)
        case "Job":
            _job(spec, causes)
        case "Secret" | "ConfigMap":
            _data(item, causes)
        case "Service":
            _service(spec, causes)
        case "Ingress":
            _ingress(spec, causes)
    if causes:
        raise invalid(_long_kind(item), item["metadata"].get("name", ""), causes)


def check_update(old: Object, new: Object) -> None:
    """Raises Refused (422) if an immutable field changed."""
    causes: Causes = []
    before, after = old.get("spec") or {}, new.get("spec") or {}
    for field in _IMMUTABLE.get(new["kind"], ()):
        if before.get(field) != after.get(field):
            causes.append((f"spec.{field}", f"Invalid value: {after.get(field)!r}: field is immutable"))
    if new["kind"] in ("ConfigMap", "Secret"):
        if old.get("immutable"):
            causes += [
                (field, "Forbidden: field is immutable when `immutable` is set")
                for field in ("immutable", "data", "binaryData", "stringData")
                if old.get(field) != new.get(field)
            ]
        if new["kind"] == "Secret" and old.get("type") != new.get("type"):
            causes.append(("type", f"Invalid value: {new.get('type')!r}: field is immutable"))
    if new["kind"] == "Pod":
        _pod_update(before, after, causes)
    if causes:
        raise invalid(_long_kind(new), new["metadata"]["name"], causes)


_IMMUTABLE = {
    "Deployment": ("selector",),
    "ReplicaSet": ("selector",),
    "Job": ("selector", "template", "completions", "completionMode", "podFailurePolicy"),
    "Service": ("clusterIP",),
}


def _pod_update(before: Object, after: Object, causes: Causes) -> None:
    def fixed(spec: Object) -> Object:
        containers = [{key: value for key, value in one.items() if key != "image"} for one in spec.get("containers") or []]
        loose = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName", "containers")
        return {**{key: value for key, value in spec.items() if key not in loose}, "containers": containers}

    if fixed(before) != fixed(after):
        causes.append(("spec", "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, …"))


def _long_kind(item: Object) -> str:
    group = item["apiVersion"].rpartition("/")[0]
    return f"{item['kind']}.{group}" if group else item["kind"]


def _metadata(kind: str, metadata: Object, path: str, causes: Causes) -> None:
    name = metadata.get("name", "")
    pattern = _SERVICE if kind == "Service" else _LABEL if kind in ("Namespace", "Job") else _SUBDOMAIN
    if not pattern.fullmatch(name):
        causes.append((f"{path}.name", f'Invalid value: "{name}": must be a lowercase RFC 1123 name of the right length'))
    _labels(metadata.get("labels"), f"{path}.labels", causes)
    annotations = metadata.get("annotations") or {}
    causes += [
        (f"{path}.annotations", f'Invalid value: "{key}": not a qualified name') for key in annotations if not _LABEL_KEY.fullmatch(key)
    ]
    if sum(len(key) + len(str(value).encode()) for key, value in annotations.items()) > MAX_ANNOTATION_BYTES:
        causes.append((f"{path}.annotations", f"Too long: may not be more than {MAX_ANNOTATION_BYTES} bytes"))
    causes += [
        (f"{path}.finalizers", f'Invalid value: "{name}": name is neither a standard finalizer name nor is it fully qualified')
        for name in metadata.get("finalizers") or []
        if "/" not in name and name not in ("orphan", "foregroundDeletion", "kubernetes")
    ]


def _labels(labels: Object | None, path: str, causes: Causes) -> None:
    for key, value in (labels or {}).items():
        if not _LABEL_KEY.fullmatch(key):
            causes.append((path, f'Invalid value: "{key}": name part must consist of alphanumeric characters, "-", "_" or "."'))
        if not _LABEL_VALUE.fullmatch(str(value)):
            causes.append((path, f'Invalid value: "{value}": a valid label must be 63 characters or less, alphanumeric, "-", "_" or "."'))


def _workload(spec: Object, causes: Causes) -> None:
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    _labels(labels, "spec.template.metadata.labels", causes)
    if not spec.get("selector"):
        causes.append(("spec.selector", "Required value"))
    elif not selector_matches(spec["selector"], labels):
        causes.append(("spec.template.metadata.labels", f"Invalid value: {labels!r}: `selector` does not match template `labels`"))
    _pod_spec(template.get("spec") or {}, "spec.template.spec", causes)
    if (template.get("spec") or {}).get("restartPolicy") != "Always":
        causes.append(("spec.template.spec.restartPolicy", 'Unsupported value: supported values: "Always"'))
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    if rolling and str(rolling.get("maxUnavailable")) in ("0", "0%") and str(rolling.get("maxSurge")) in ("0", "0%"):
        causes.append(("spec.strategy.rollingUpdate.maxUnavailable", "Invalid value: may not be 0 when `maxSurge` is 0"))


def _job(spec: Object, causes: Causes) -> None:
    template = spec.get("template") or {}
    _labels((template.get("metadata") or {}).get("labels"), "spec.template.metadata.labels", causes)
    pod = template.get("spec") or {}
    _pod_spec(pod, "spec.template.spec", causes)
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        causes.append(("spec.template.spec.restartPolicy", 'Required value: valid values: "OnFailure", "Never"'))
    for field in ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        if spec.get(field) is not None and spec[field] < 0:
            causes.append((f"spec.{field}", f"Invalid value: {spec[field]}: must be greater than or equal to 0"))


def _pod_spec(spec: Object, path: str, causes: Causes) -> None:
    volumes = [volume.get("name") for volume in spec.get("volumes") or []]
    _unique(volumes, f"{path}.volumes", causes)
    for index, volume in enumerate(spec.get("volumes") or []):
        if len(volume) != 2:
            causes.append((f"{path}.volumes[{index}]", "Forbidden: may not specify more than 1 volume type"))
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    _unique([item.get("name") for item in containers], f"{path}.containers", causes)
    if not spec.get("containers"):
        causes.append((f"{path}.containers", "Required value"))
    grace = spec.get("terminationGracePeriodSeconds", 30)
    for container in containers:
        _container(container, f"{path}.containers[{container.get('name')}]", set(volumes), causes)
        sleep = ((container.get("lifecycle") or {}).get("preStop") or {}).get("sleep")
        if sleep and not 0 < sleep.get("seconds", 0) <= grace:
            causes.append(
                (f"{path}.lifecycle.preStop.sleep", f"Invalid value: must be greater than 0 and at most {grace} (the grace period)")
            )


def _unique(names: list[Any], path: str, causes: Causes) -> None:
    causes += [(path, f'Duplicate value: "{name}"') for name in sorted({str(name) for name in names if names.count(name) > 1})]


def _container(container: Object, path: str, volumes: set[Any], causes: Causes) -> None:
    if not _LABEL.fullmatch(container.get("name", "")):
        causes.append((f"{path}.name", f'Invalid value: "{container.get("name")}": must be a lowercase RFC 1123 label'))
    if not container.get("image"):
        causes.append((f"{path}.image", "Required value"))
    elif container["image"] != container["image"].strip():
        causes.append((f"{path}.image", "Invalid value: must not have leading or trailing whitespace"))
    mounts = [mount.get("mountPath") for mount in container.get("volumeMounts") or []]
    _unique(mounts, f"{path}.volumeMounts", causes)
    causes += [
        (f"{path}.volumeMounts", f'Not found: "{mount.get("name")}"')
        for mount in container.get("volumeMounts") or []
        if mount.get("name") not in volumes
    ]
    resources = container.get("resources") or {}
    for key, request in (resources.get("requests") or {}).items():
        limit = (resources.get("limits") or {}).get(key)
        if limit is not None and _value(request) > _value(limit):
            causes.append(
                (f"{path}.resources.requests", f'Invalid value: "{request}": must be less than or equal to {key} limit of {limit}')
            )
    for probe in ("livenessProbe", "startupProbe"):
        if (container.get(probe) or {}).get("successThreshold", 1) != 1:
            causes.append((f"{path}.{probe}.successThreshold", "Invalid value: must be 1"))
    for port in container.get("ports") or []:
        if port.get("name") and not re.fullmatch(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?", port["name"]):
            causes.append((f"{path}.ports.name", f'Invalid value: "{port["name"]}": must be no more than 15 characters'))


def _value(text: Any) -> Any:
    try:
        return value_of(text)
    except ValueError as error:
        raise Refused(400, str(error)) from None


def _data(item: Object, causes: Causes) -> None:
    size = 0
    encoded = "data" if item["kind"] == "Secret" else "binaryData"
    for field in ("data", "binaryData"):
        for key, value in (item.get(field) or {}).items():
            if not _DATA_KEY.fullmatch(key) or key in (".", ".."):
                causes.append(
                    (f"{field}[{key}]", f'Invalid value: "{key}": a valid config key must consist of alphanumeric, "-", "_" or "."')
                )
            if field == encoded:
                try:
                    size += len(base64.b64decode(value, validate=True))
                except (binascii.Error, ValueError):
                    raise Refused(400, f'{item["kind"]} in version "v1" cannot be handled: illegal base64 data in {field}.{key}') from None
            else:
                size += len(value.encode())
    if size > MAX_DATA_BYTES:
        causes.append((("data" if item["kind"] == "Secret" else ""), f"Too long: may not be more than {MAX_DATA_BYTES} bytes"))
    if (
        item["kind"] == "Secret"
        and item.get("type") == "kubernetes.io/dockerconfigjson"
        and ".dockerconfigjson" not in (item.get("data") or {})
    ):
        causes.append(("data[.dockerconfigjson]", "Required value"))


def _service(spec: Object, causes: Causes) -> None:
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        causes.append(("spec.ports", "Required value"))
    if len(ports) > 1:
        causes += [("spec.ports.name", "Required value") for port in ports if not port.get("name")]
        _unique([port.get("name") for port in ports], "spec.ports", causes)


def _ingress(spec: Object, causes: Causes) -> None:
    if not spec.get("rules") and not spec.get("defaultBackend"):
        causes.append(("spec", "Invalid value: either `defaultBackend` or `rules` must be specified"))
    for rule in spec.get("rules") or []:
        if rule.get("host") and not re.fullmatch(
            r"(\*\.)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*", rule["host"]
        ):
            causes.append(("spec.rules.host", f'Invalid value: "{rule["host"]}": must be a lowercase RFC 1123 subdomain'))
        for path in (rule.get("http") or {}).get("paths") or []:
            if not path.get("pathType"):
                causes.append(("spec.rules.http.paths.pathType", "Required value: pathType must be specified"))
