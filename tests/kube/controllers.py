"""What the controller manager does: namespaces, garbage, quota status, Deployments, ReplicaSets, Jobs, endpoints."""

import hashlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.kube import admission
from tests.kube.errors import Refused
from tests.kube.faults import Faults
from tests.kube.kinds import KINDS, kind_of
from tests.kube.loops import Loop, add_owners
from tests.kube.quantity import text_of
from tests.kube.registry import CONTROLLER, DeleteOptions, Object, Registry, now_text
from tests.kube.selectors import selector_matches

RETRY_SEC = 0.5
"""After a refusal (quota), creating is tried again; a cluster waits longer each time."""
REVISION = "deployment.kubernetes.io/revision"


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_going(item: Object) -> bool:
    return bool(item["metadata"].get("deletionTimestamp"))


def owner_reference(owner: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def condition(type_: str, status: bool, reason: str, message: str = "") -> Object:
    return {
        "type": type_, "status": "True" if status else "False", "reason": reason, "message": message,
        "lastUpdateTime": now_text(), "lastTransitionTime": now_text(),
    }  # fmt: skip


def with_condition(existing: list[Object], new: Object) -> list[Object]:
    """The list with this one in place of its type; times stay when nothing else changed."""
    old = next((one for one in existing if one["type"] == new["type"]), None)
    if old is not None and all(old.get(key) == new[key] for key in ("status", "reason", "message")):
        return existing
    if old is not None and old["status"] == new["status"]:
        new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    return [*(one for one in existing if one["type"] != new["type"]), new]


def since(text: str) -> float:
    """Seconds from an RFC 3339 time to now."""
    return (datetime.now(UTC) - datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)).total_seconds()


class Controllers:
    """All of them over one registry."""

    def __init__(self, registry: Registry, faults: Faults, failed: Callable[[str], None]) -> None:
        self.registry, self.faults = registry, faults
        self.deployments = Deployments(registry, failed)
        self.jobs = Jobs(registry, failed)
        self._namespaces = Loop(self._sync_namespace, failed)
        self._garbage = Loop(self._sync_garbage, failed)
        self._quotas = Loop(self._sync_quotas, failed)
        self._endpoints = Loop(self._sync_endpoints, failed)
        self._claims = Loop(self._sync_claim, failed)
        registry.listeners.append(self._on)

    def _on(self, event: str, item: Object, old: Object | None) -> None:
        self.deployments.on(event, item)
        self.jobs.on(event, item)
        namespace = item["metadata"].get("namespace", "")
        if item["kind"] == "Namespace":
            self._namespaces.add("", item["metadata"]["name"])
        elif event == "DELETED" and namespace:
            place = self.registry.find("Namespace", "", namespace)
            if place is not None and is_going(place):
                self._namespaces.add("", namespace)
        if item["kind"] == "PersistentVolumeClaim":
            self._claims.add_object(item)
        if event == "DELETED" or (is_going(item) and "foregroundDeletion" in (item["metadata"].get("finalizers") or [])):
            self._garbage.add(namespace, item["metadata"]["uid"])
        if event != "MODIFIED" or item["kind"] in ("Pod", "ResourceQuota"):
            self._quotas.add("", namespace)
        if item["kind"] in ("Pod", "Service"):
            for service in self.registry.items("Service", namespace):
                selector = (service.get("spec") or {}).get("selector")
                if item["kind"] == "Service" or (
                    selector and selector_matches({"matchLabels": selector}, item["metadata"].get("labels") or {})
                ):
                    self._endpoints.add(namespace, service["metadata"]["name"])

    # --- namespaces ---

    def _sync_namespace(self, _: str, name: str) -> None:
        place = self.registry.find("Namespace", "", name)
        if place is None:
            return
        if not is_going(place):
            for kind, item in (
                ("ServiceAccount", {"metadata": {"name": "default"}}),
                ("ConfigMap", {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "none"}}),
            ):
                if self.registry.find(kind, name, item["metadata"]["name"]) is None:
                    self.registry.create(kind_of(kind), name, {"apiVersion": "v1", "kind": kind, **item}, CONTROLLER)
            return
        if self.faults.stall_namespaces:
            return
        left = False
        for kind in KINDS:
            for item in self.registry.items(kind.kind, name) if kind.namespaced else ():
                left = True
                if not is_going(item):
                    self.registry.delete(kind, name, item["metadata"]["name"], DeleteOptions(propagation="Background"))
        if left and any(self.registry.items(kind.kind, name) for kind in KINDS if kind.namespaced):
            return
        self.registry.remove(place)

    def resume_namespaces(self) -> None:
        for place in self.registry.items("Namespace"):
            self._namespaces.add("", place["metadata"]["name"])

    # --- garbage: what an owner that is gone leaves ---

    def _sync_garbage(self, namespace: str, uid: str) -> None:
        owner = next((item for item in self.registry.everything() if item["metadata"]["uid"] == uid), None)
        blocked = False
        for kind in KINDS:
            for item in self.registry.items(kind.kind, namespace or None):
                references = item["metadata"].get("ownerReferences") or []
                if not any(ref["uid"] == uid for ref in references):
                    continue
                others = [ref for ref in references if ref["uid"] != uid]
                if owner is None and any(self._lives(ref["uid"]) for ref in others):
                    self.registry.write_metadata(item, ownerReferences=others)
                elif not is_going(item):
                    how = "Foreground" if owner is not None else "Background"
                    self.registry.delete(
                        kind, item["metadata"].get("namespace", ""), item["metadata"]["name"], DeleteOptions(propagation=how)
                    )
                blocked = True
        if owner is None:
            return
        if blocked and any(self.registry.owned_by(kind.kind, owner) for kind in KINDS):
            self._garbage.later(0.05, namespace, uid)
            return
        self.registry.write_metadata(
            owner, finalizers=[name for name in owner["metadata"].get("finalizers") or [] if name != "foregroundDeletion"]
        )

    def _lives(self, uid: str) -> bool:
        return any(item["metadata"]["uid"] == uid for item in self.registry.everything())

    # --- quota status ---

    def _sync_quotas(self, _: str, namespace: str) -> None:
        for quota in self.registry.items("ResourceQuota", namespace):
            hard = quota["spec"].get("hard") or {}
            used = admission.used_of(self.registry, namespace, hard)
            self.registry.write_status(quota, {"hard": hard, "used": {key: text_of(value, key) for key, value in used.items()}})

    # --- volumes ---

    def _sync_claim(self, namespace: str, name: str) -> None:
        """The storage class binds at once: there is room for everybody."""
        claim = self.registry.find("PersistentVolumeClaim", namespace, name)
        if claim is not None and not is_going(claim):
            spec = claim["spec"]
            status = {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": (spec.get("resources") or {}).get("requests")}
            self.registry.write_status(claim, status)

    # --- endpoints ---

    def _sync_endpoints(self, namespace: str, name: str) -> None:
        service = self.registry.find("Service", namespace, name)
        selector = (service or {}).get("spec", {}).get("selector")
        if service is None or not selector:
            return
        pods = [
            pod
            for pod in self.registry.items("Pod", namespace)
            if selector_matches({"matchLabels": selector}, pod["metadata"].get("labels") or {}) and (pod.get("status") or {}).get("podIP")
        ]
        addresses = [
            {
                "addresses": [pod["status"]["podIP"]],
                "conditions": {"ready": is_ready(pod) and not is_going(pod), "serving": is_ready(pod), "terminating": is_going(pod)},
                "targetRef": {"kind": "Pod", "name": pod["metadata"]["name"], "namespace": namespace, "uid": pod["metadata"]["uid"]},
            }
            for pod in pods
            if not is_ended(pod)
        ]
        ports = [
            {"name": port.get("name", ""), "port": port["targetPort"], "protocol": port["protocol"]}
            for port in service["spec"].get("ports") or []
        ]
        old = self.registry.find("EndpointSlice", namespace, name)
        item = {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": addresses, "ports": ports,
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}, "ownerReferences": [owner_reference(service)]},
        }  # fmt: skip
        try:
            if old is None:
                self.registry.create(kind_of("EndpointSlice"), namespace, item, CONTROLLER)
            elif old["endpoints"] != addresses or old["ports"] != ports:
                self.registry.replace(kind_of("EndpointSlice"), namespace, name, item, CONTROLLER)
        except Refused as refusal:
            if refusal.code != 403:
                raise


class Deployments:
    """Deployments and their ReplicaSets."""

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
                    self._look_at_deployment_of(item)

    def _look_at_deployment_of(self, pod: Object) -> None:
        """One of the kind Recreate waits until the last Pod is gone, which its ReplicaSets have stopped counting before."""
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
        active = [pod for pod in pods if not is_going(pod) and not is_ended(pod)]
        failure: Object | None = None
        if not is_going(owner):
            failure = self._scale(owner, active)
        active = [pod for pod in self.registry.pods_of(owner, owner["spec"]["selector"]) if not is_going(pod) and not is_ended(pod)]
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
        """Creates or deletes Pods; the condition ReplicaFailure when the cluster refuses one."""
        missing = owner["spec"]["replicas"] - len(active)
        for _ in range(missing):
            try:
                create_pod(self.registry, owner, owner["spec"]["template"])
            except Refused as refusal:
                self.registry.record_event(owner, "Warning", "FailedCreate", f"Error creating: {refusal.message}")
                self._sets.later(RETRY_SEC, owner["metadata"]["namespace"], owner["metadata"]["name"])
                old = next(iter((owner.get("status") or {}).get("conditions") or []), None)
                new = condition("ReplicaFailure", True, "FailedCreate", refusal.message)
                return with_condition([old] if old else [], new)[-1]
        # The youngest and those that are not ready go first.
        surplus = sorted(active, key=lambda pod: (is_ready(pod), -int(pod["metadata"]["resourceVersion"])))[: max(-missing, 0)]
        for pod in surplus:
            self.registry.delete(kind_of("Pod"), pod["metadata"]["namespace"], pod["metadata"]["name"], DeleteOptions())
        return None

    # --- Deployments ---

    def _sync(self, namespace: str, name: str) -> None:
        owner = self.registry.find("Deployment", namespace, name)
        if owner is None or is_going(owner):
            return
        sets = self.registry.owned_by("ReplicaSet", owner)
        new = self._new_set(owner, sets)
        if new is None:
            return
        old = [one for one in sets if one["metadata"]["uid"] != new["metadata"]["uid"]]
        self._roll(owner, new, old)
        self._forget(owner, old)
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
        """One step: the new set up as far as the surge allows, old ones down as far as enough stay available."""
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
        for one in sorted(old, key=lambda item: item["metadata"]["creationTimestamp"]):
            replicas = one["spec"]["replicas"]
            ready = min(available[one["metadata"]["uid"]], replicas)
            # Pods that are not available are nobody's loss.
            drop = (replicas - ready) + min(ready, max(spare, 0))
            spare -= min(ready, max(spare, 0))
            if drop and replicas:
                self.registry.write_spec(one, replicas=replicas - drop)

    def _forget(self, owner: Object, old: list[Object]) -> None:
        empty = [one for one in old if not one["spec"]["replicas"] and not self.registry.owned_by("Pod", one) and not is_going(one)]
        empty.sort(key=lambda one: int(one["metadata"].get("annotations", {}).get(REVISION, 0)))
        for one in empty[: max(len(empty) - owner["spec"]["revisionHistoryLimit"], 0)]:
            self.registry.delete(kind_of("ReplicaSet"), one["metadata"]["namespace"], one["metadata"]["name"], DeleteOptions())

    def _write(self, owner: Object, new_name: str) -> None:
        sets = self.registry.owned_by("ReplicaSet", owner)
        status = {one["metadata"]["name"]: one.get("status") or {} for one in sets}
        total, ready = (sum(one.get(key) or 0 for one in status.values()) for key in ("replicas", "readyReplicas"))
        wanted, updated = owner["spec"]["replicas"], status.get(new_name, {}).get("replicas", 0)
        conditions = (owner.get("status") or {}).get("conditions") or []
        unavailable = share_of((owner["spec"]["strategy"].get("rollingUpdate") or {}).get("maxUnavailable", 0), wanted, up=False)
        enough = ready >= wanted - unavailable
        conditions = with_condition(
            conditions, condition("Available", enough, "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable")
        )
        done = updated == wanted == total == ready
        conditions = with_condition(conditions, condition("Progressing", True, "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"))
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
    """An absolute number or a percentage: surge is rounded up, what may be unavailable down."""
    if isinstance(value, int):
        return value
    part = int(value.removesuffix("%")) * of
    return -(-part // 100) if up else part // 100


def create_pod(registry: Registry, owner: Object, template: Object) -> Object:
    """Raises Refused when the cluster does not want it."""
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


class Jobs:
    def __init__(self, registry: Registry, failed: Callable[[str], None]) -> None:
        self.registry = registry
        self._loop = Loop(self._sync, failed)
        self._ended_at: dict[str, float] = {}

    def on(self, event: str, item: Object) -> None:
        if item["kind"] == "Job":
            self._loop.add_object(item)
        elif item["kind"] == "Pod":
            add_owners(self.registry, self._loop, item, "Job")

    def _sync(self, namespace: str, name: str) -> None:
        job = self.registry.find("Job", namespace, name)
        if job is None or is_going(job):
            return
        status = job.get("status") or {}
        if any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in status.get("conditions") or []):
            self._expire(job)
            return
        if job["spec"].get("suspend"):
            return
        if not status.get("startTime"):
            job = self.registry.write_status(job, {"startTime": now_text()})
        pods = self.registry.pods_of(job, job["spec"]["selector"])
        failed = sum((pod.get("status") or {}).get("phase") == "Failed" for pod in pods)
        succeeded = sum((pod.get("status") or {}).get("phase") == "Succeeded" for pod in pods)
        active = [pod for pod in pods if not is_ended(pod)]
        counts = {
            "active": len(active) or None, "failed": failed or None, "succeeded": succeeded or None,
            "ready": sum(is_ready(pod) for pod in active),
        }  # fmt: skip
        ending = self._ending(job, failed, succeeded)
        if ending is None:
            if not active and not self._start_pod(job, failed):
                return
            self.registry.write_status(job, counts | ({"active": 1} if not active else {}))
            return
        self._end(job, active, counts, ending)

    def _ending(self, job: Object, failed: int, succeeded: int) -> Object | None:
        """The condition that ends it, if it is at its end. What was decided stays, whatever becomes of the pods."""
        spec = job["spec"]
        finals = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
        for decided in (job.get("status") or {}).get("conditions") or []:
            if decided["type"] in finals:
                return {**decided, "type": finals[decided["type"]]}
        if succeeded >= spec["completions"]:
            return condition("Complete", True, "CompletionsReached", "Reached expected number of succeeded pods")
        if failed > spec["backoffLimit"]:
            return condition("Failed", True, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        deadline = spec.get("activeDeadlineSeconds")
        started = (job.get("status") or {}).get("startTime")
        if deadline is not None and started:
            left = deadline - since(started)
            if left <= 0:
                return condition("Failed", True, "DeadlineExceeded", "Job was active longer than specified deadline")
            self._loop.later(left, job["metadata"]["namespace"], job["metadata"]["name"])
        return None

    def _start_pod(self, job: Object, failed: int) -> bool:
        """False when the cluster refuses it, or when it is to wait after a failure."""
        try:
            create_pod(self.registry, job, job["spec"]["template"])
            return True
        except Refused as refusal:
            self.registry.record_event(job, "Warning", "FailedCreate", f"Error creating: {refusal.message}")
            self._loop.later(RETRY_SEC, job["metadata"]["namespace"], job["metadata"]["name"])
            return False

    def _end(self, job: Object, active: list[Object], counts: Object, ending: Object) -> None:
        """First the pods go, then the Job has ended."""
        conditions = (job.get("status") or {}).get("conditions") or []
        first = "SuccessCriteriaMet" if ending["type"] == "Complete" else "FailureTarget"
        conditions = with_condition(conditions, {**ending, "type": first})
        for pod in active:
            if not is_going(pod):
                self.registry.delete(kind_of("Pod"), pod["metadata"]["namespace"], pod["metadata"]["name"], DeleteOptions())
        if self.registry.pods_of(job, job["spec"]["selector"]) and any(
            not is_ended(pod) for pod in self.registry.pods_of(job, job["spec"]["selector"])
        ):
            self.registry.write_status(job, counts | {"conditions": conditions})
            return
        conditions = with_condition(conditions, ending)
        done = {"completionTime": now_text()} if ending["type"] == "Complete" else {}
        failed = {"failed": (counts["failed"] or 0) + len(active)} if active and ending["type"] == "Failed" else {}
        self._ended_at[job["metadata"]["uid"]] = time.monotonic()
        job = self.registry.write_status(job, counts | {"active": None, "ready": 0, "conditions": conditions} | done | failed)
        self.registry.record_event(job, "Normal" if done else "Warning", ending["reason"], ending["message"])

    def _expire(self, job: Object) -> None:
        ttl: Any = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        left = self._ended_at.get(job["metadata"]["uid"], time.monotonic()) + ttl - time.monotonic()
        if left > 0:
            self._loop.later(left, job["metadata"]["namespace"], job["metadata"]["name"])
            return
        self.registry.delete(kind_of("Job"), job["metadata"]["namespace"], job["metadata"]["name"], DeleteOptions(propagation="Foreground"))
