"""Deployments and their ReplicaSets."""

import hashlib
import json
from collections.abc import Callable

from tests.kube.conditions import (
    RETRY_SEC,
    condition,
    create_pod,
    deployment_condition,
    is_deleting,
    is_ended,
    is_ready,
    owner_reference,
    with_condition,
)
from tests.kube.errors import Refused
from tests.kube.kinds import kind_of
from tests.kube.loops import Loop, add_owners
from tests.kube.registry import CONTROLLER, DeleteOptions, Object, Registry

REVISION = "deployment.kubernetes.io/revision"


class Deployments:
    def __init__(self, registry: Registry, failed: Callable[[str], None]) -> None:
        self.registry = registry
        self._loop = Loop(self._sync, failed)
        self._sets = Loop(self._sync_set, failed)

    def on(self, event: str, item: Object) -> None:
        match item["kind"]:
            case "Deployment":
                self._loop.add_object(item)
            case "ReplicaSet":
                self._sets.add_object(item)
                add_owners(self.registry, self._loop, item, "Deployment")
            case "Pod":
                add_owners(self.registry, self._sets, item, "ReplicaSet")
                if event == "DELETED":
                    self._enqueue_deployment_of(item)

    def _enqueue_deployment_of(self, pod: Object) -> None:
        """Recreate waits until the last Pod is gone, after the ReplicaSets have stopped counting it."""
        for reference in pod["metadata"].get("ownerReferences") or []:
            owner = self.registry.find(reference["kind"], pod["metadata"]["namespace"], reference["name"])
            if owner is not None:
                add_owners(self.registry, self._loop, owner, "Deployment")

    # --- ReplicaSets ---

    def _sync_set(self, namespace: str, name: str) -> None:
        owner = self.registry.find("ReplicaSet", namespace, name)
        if owner is None:
            return
        pods = self.registry.pods_of(owner, owner["spec"]["selector"])
        active = [pod for pod in pods if not is_deleting(pod) and not is_ended(pod)]
        failure: Object | None = None
        if not is_deleting(owner):
            failure = self._scale(owner, active)
        active = [pod for pod in self.registry.pods_of(owner, owner["spec"]["selector"]) if not is_deleting(pod) and not is_ended(pod)]
        ready = sum(is_ready(pod) for pod in active)
        self.registry.write_status(
            owner,
            {
                "replicas": len(active), "fullyLabeledReplicas": len(active), "readyReplicas": ready or None,
                "availableReplicas": ready or None,
                "observedGeneration": owner["metadata"]["generation"], "conditions": [failure] if failure else None,
            },
        )  # fmt: skip

    def _scale(self, owner: Object, active: list[Object]) -> Object | None:
        """Creates or deletes Pods; sets the condition ReplicaFailure when admission rejects one."""
        missing = owner["spec"]["replicas"] - len(active)
        for _ in range(missing):
            try:
                create_pod(self.registry, owner, owner["spec"]["template"])
            except Refused as refusal:
                self.registry.record_event(owner, "Warning", "FailedCreate", f"Error creating: {refusal.message}")
                self._sets.later(RETRY_SEC, owner["metadata"]["namespace"], owner["metadata"]["name"])
                # The first message stays: each attempt names another pod, and a changed status would cause the next attempt at once.
                old = next(iter((owner.get("status") or {}).get("conditions") or []), None)
                return old or condition("ReplicaFailure", True, "FailedCreate", refusal.message)
        # Delete the youngest and those that are not ready first.
        surplus = sorted(active, key=lambda pod: (is_ready(pod), -int(pod["metadata"]["resourceVersion"])))[: max(-missing, 0)]
        for pod in surplus:
            self.registry.delete(kind_of("Pod"), pod["metadata"]["namespace"], pod["metadata"]["name"], DeleteOptions())
        return None

    # --- Deployments ---

    def _sync(self, namespace: str, name: str) -> None:
        owner = self.registry.find("Deployment", namespace, name)
        if owner is None or is_deleting(owner):
            return
        sets = self.registry.owned_by("ReplicaSet", owner)
        new = self._new_set(owner, sets)
        if new is None:
            return
        old = [one for one in sets if one["metadata"]["uid"] != new["metadata"]["uid"]]
        self._roll(owner, new, old)
        self._prune(owner, old)
        self._write(owner, new["metadata"]["name"])

    def _new_set(self, owner: Object, sets: list[Object]) -> Object | None:
        template = owner["spec"]["template"]
        digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
        found = next((one for one in sets if one["metadata"]["labels"].get("pod-template-hash") == digest), None)
        newest = max((int(one["metadata"].get("annotations", {}).get(REVISION, 0)) for one in sets), default=0)
        if found is None:
            labels = {**(template.get("metadata", {}).get("labels") or {}), "pod-template-hash": digest}
            selector = owner["spec"]["selector"]
            item = {
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {
                    "name": f"{owner['metadata']['name']}-{digest}", "labels": labels, "annotations": {REVISION: str(newest + 1)},
                    "ownerReferences": [owner_reference(owner)],
                },
                "spec": {
                    "replicas": 0,
                    "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), "pod-template-hash": digest}},
                    "template": {**template, "metadata": {**template.get("metadata", {}), "labels": labels}},
                },
            }  # fmt: skip
            try:
                found = self.registry.create(kind_of("ReplicaSet"), owner["metadata"]["namespace"], item, CONTROLLER)
            except Refused as refusal:
                if refusal.code not in (403, 404):
                    raise
                return None
        elif newest > int(found["metadata"].get("annotations", {}).get(REVISION, 0)):
            found = self.registry.write_metadata(found, annotations={**found["metadata"].get("annotations", {}), REVISION: str(newest + 1)})
        revision = found["metadata"]["annotations"][REVISION]
        if (owner["metadata"].get("annotations") or {}).get(REVISION) != revision:
            self.registry.write_metadata(owner, annotations={**(owner["metadata"].get("annotations") or {}), REVISION: revision})
        return found

    def _roll(self, owner: Object, new: Object, old: list[Object]) -> None:
        """One step: scales the new set up as far as maxSurge allows, and old ones down as far as maxUnavailable allows."""
        wanted = owner["spec"]["replicas"]
        rolling = owner["spec"]["strategy"].get("rollingUpdate") or {}
        surge = share_of(rolling.get("maxSurge", 0), wanted, up=True)
        unavailable = share_of(rolling.get("maxUnavailable", wanted), wanted, up=False)
        if not surge and not unavailable:
            unavailable = 1
        recreate = owner["spec"]["strategy"]["type"] == "Recreate"
        total = sum(one["spec"]["replicas"] for one in [new, *old])
        if recreate:
            left = [pod for one in old for pod in self.registry.owned_by("Pod", one)]
            target = 0 if left else wanted
        elif new["spec"]["replicas"] > wanted or not old or total == new["spec"]["replicas"]:
            target = wanted
        else:
            target = min(wanted, new["spec"]["replicas"] + max(wanted + surge - total, 0))
        if target != new["spec"]["replicas"]:
            new = self.registry.write_spec(new, replicas=target)
        self._shrink(new, old, 0 if recreate else wanted - unavailable, wanted=wanted)

    def _shrink(self, new: Object, old: list[Object], least: int, *, wanted: int) -> None:
        available = {one["metadata"]["uid"]: (one.get("status") or {}).get("availableReplicas", 0) for one in [new, *old]}
        spare = sum(available.values()) - least if wanted else sum(available.values())
        for replica_set in sorted(old, key=lambda item: item["metadata"]["creationTimestamp"]):
            replicas = replica_set["spec"]["replicas"]
            ready = min(available[replica_set["metadata"]["uid"]], replicas)
            # Unavailable Pods can always be removed.
            drop = (replicas - ready) + min(ready, max(spare, 0))
            spare -= min(ready, max(spare, 0))
            if drop and replicas:
                self.registry.write_spec(replica_set, replicas=replicas - drop)

    def _prune(self, owner: Object, old: list[Object]) -> None:
        """Deletes the oldest empty ReplicaSets beyond revisionHistoryLimit."""
        empty = [one for one in old if not one["spec"]["replicas"] and not self.registry.owned_by("Pod", one) and not is_deleting(one)]
        empty.sort(key=lambda one: int(one["metadata"].get("annotations", {}).get(REVISION, 0)))
        for unneeded in empty[: max(len(empty) - owner["spec"]["revisionHistoryLimit"], 0)]:
            self.registry.delete(kind_of("ReplicaSet"), unneeded["metadata"]["namespace"], unneeded["metadata"]["name"], DeleteOptions())

    def _write(self, owner: Object, new_name: str) -> None:
        sets = self.registry.owned_by("ReplicaSet", owner)
        status = {one["metadata"]["name"]: one.get("status") or {} for one in sets}
        total, ready = (sum(one.get(key) or 0 for one in status.values()) for key in ("replicas", "readyReplicas"))
        wanted, updated = owner["spec"]["replicas"], status.get(new_name, {}).get("replicas", 0)
        conditions = (owner.get("status") or {}).get("conditions") or []
        unavailable = share_of((owner["spec"]["strategy"].get("rollingUpdate") or {}).get("maxUnavailable", 0), wanted, up=False)
        enough = ready >= wanted - unavailable
        reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
        conditions = with_condition(conditions, deployment_condition("Available", enough, reason))
        done = updated == wanted == total == ready
        reason = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
        conditions = with_condition(conditions, deployment_condition("Progressing", True, reason))
        failures = [one for item in status.values() for one in item.get("conditions") or [] if one["type"] == "ReplicaFailure"]
        conditions = [one for one in conditions if one["type"] != "ReplicaFailure"]
        conditions += failures[:1]
        self.registry.write_status(
            owner,
            {
                "observedGeneration": owner["metadata"]["generation"], "replicas": total or None, "updatedReplicas": updated or None,
                "readyReplicas": ready or None, "availableReplicas": ready or None, "unavailableReplicas": max(wanted - ready, 0) or None,
                "conditions": conditions,
            },
        )  # fmt: skip


def share_of(value: int | str, of: int, *, up: bool) -> int:
    """An absolute number or a percentage; maxSurge is rounded up, maxUnavailable down."""
    if isinstance(value, int):
        return value
    part = int(value.removesuffix("%")) * of
    return -(-part // 100) if up else part // 100
