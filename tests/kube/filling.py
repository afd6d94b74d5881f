"""Values that the server sets on a write: defaults, addresses, labels and selectors."""

from collections.abc import Iterator

from tests.kube import patches
from tests.kube.defaults import set_defaults
from tests.kube.errors import Refused
from tests.kube.writers import Object


def prepare(item: Object, old: Object | None, addresses: Iterator[int]) -> None:
    for name, value in (item.pop("stringData", None) or {}).items() if item["kind"] == "Secret" else ():
        item.setdefault("data", {})[name] = patches.base64_of(value)
    try:
        set_defaults(item)
    except ValueError as error:
        raise Refused(400, str(error)) from None
    match item["kind"]:
        case "Namespace":
            item.setdefault("spec", {"finalizers": ["kubernetes"]})
            item.setdefault("status", {"phase": "Active"})
            item["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = item["metadata"]["name"]
        case "Service" if item["spec"]["type"] != "ExternalName":
            before = ((old or {}).get("spec") or {}).get("clusterIP")
            number = 0 if before else next(addresses)
            item["spec"].setdefault("clusterIP", before or f"10.96.{number // 250}.{number % 250 + 1}")
            item["spec"].setdefault("clusterIPs", [item["spec"]["clusterIP"]])
        case "Job":
            _prepare_job(item, old)
        case "Pod" if old is None:
            item["status"] = {"phase": "Pending", "qosClass": "Burstable"}


def _prepare_job(item: Object, old: Object | None) -> None:
    if item["spec"].get("manualSelector"):
        return
    uid = item["metadata"].get("uid", "")
    own = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": item["metadata"]["name"]}
    if old is None:
        labels = item["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})
        labels |= own
        item["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        return
    item["spec"].setdefault("selector", old["spec"]["selector"])
    labels = item["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})
    for key in own:
        labels.setdefault(key, own[key])
