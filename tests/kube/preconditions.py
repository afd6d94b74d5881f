"""Checks before a write: namespace, name and version; and a Pod's grace period."""

from tests.kube.admission import Stored
from tests.kube.errors import Refused, forbidden, not_found
from tests.kube.kinds import Kind
from tests.kube.writers import DeleteOptions, Object


def check_name_and_namespace(registry: Stored, kind: Kind, namespace: str, item: Object) -> str:
    """Returns the object's name. Raises Refused."""
    name = str(item["metadata"].get("name") or "")
    found = item["metadata"].get("namespace", namespace)
    if kind.namespaced and found != namespace:
        raise Refused(400, f"the namespace of the provided object does not match the namespace sent on the request: {found}, {namespace}")
    if not name:
        raise Refused(422, f'{kind.kind} "" is invalid: metadata.name: Required value: name or generateName is required')
    if not kind.namespaced:
        return name
    namespace_object = registry.find("Namespace", "", namespace)
    if namespace_object is None:
        raise not_found("namespaces", namespace)
    if namespace_object["metadata"].get("deletionTimestamp"):
        refusal = forbidden(kind.resource, name, f"unable to create new content in namespace {namespace} because it is being terminated")
        refusal.details = {**(refusal.details or {}), "causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
        raise refusal
    return name


def check_version(kind: Kind, old: Object, new: Object) -> None:
    """Raises Refused (409) if the object has been written since it was read."""
    metadata, found = new.get("metadata") or {}, old["metadata"]
    for key in ("uid", "resourceVersion"):
        if metadata.get(key) not in (None, found[key]):
            why = "the object has been modified; please apply your changes to the latest version and try again"
            if key == "uid":
                why = f"Precondition failed: UID in precondition: {metadata[key]}, UID in object meta: {found[key]}"
            details = {"name": found["name"], "kind": kind.plural}
            raise Refused(409, f'Operation cannot be fulfilled on {kind.resource} "{found["name"]}": {why}', details=details)


def grace_of(kind: Kind, item: Object, options: DeleteOptions) -> int:
    if kind.kind != "Pod":
        return 0
    if not item["spec"].get("nodeName") or (item.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return options.grace_sec if options.grace_sec is not None else int(item["spec"].get("terminationGracePeriodSeconds", 30))
