"""Helpers of the controllers: readiness, conditions, owner references, Pods from a template."""

from datetime import UTC, datetime

from tests.kube.kinds import kind_of
from tests.kube.registry import CONTROLLER, Object, Registry, now_text

RETRY_SEC = 0.5
"""Pause before another attempt to create a rejected Pod (quota); a real cluster backs off exponentially."""


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_deleting(item: Object) -> bool:
    return bool(item["metadata"].get("deletionTimestamp"))


def owner_reference(owner: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def condition(type_: str, status: bool, reason: str, message: str = "") -> Object:
    """As Jobs, Pods and ReplicaSets have it."""
    return {
        "type": type_, "status": "True" if status else "False", "reason": reason, "message": message, "lastTransitionTime": now_text(),
    }  # fmt: skip


def deployment_condition(type_: str, status: bool, reason: str) -> Object:
    """Has one time more than others."""
    return {**condition(type_, status, reason), "lastUpdateTime": now_text()}


def with_condition(existing: list[Object], new: Object) -> list[Object]:
    """Replaces the condition of the same type; keeps its times if nothing else changed."""
    old = next((one for one in existing if one["type"] == new["type"]), None)
    if old is not None and all(old.get(key) == new[key] for key in ("status", "reason", "message")):
        return existing
    if old is not None and old["status"] == new["status"]:
        new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    return [*(one for one in existing if one["type"] != new["type"]), new]


def since(text: str) -> float:
    """Seconds since an RFC 3339 time."""
    return (datetime.now(UTC) - datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)).total_seconds()


def create_pod(registry: Registry, owner: Object, template: Object) -> Object:
    """Raises Refused if admission rejects it."""
    metadata = template.get("metadata") or {}
    item = {
        "apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-", "labels": metadata.get("labels") or {},
            "annotations": metadata.get("annotations") or {}, "ownerReferences": [owner_reference(owner)],
        },
    }  # fmt: skip
    pod = registry.create(kind_of("Pod"), owner["metadata"]["namespace"], item, CONTROLLER)
    registry.record_event(owner, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
    return pod
