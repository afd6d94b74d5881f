"""The controller manager: namespaces, garbage, quota status, volume claims, endpoints. Deployments and Jobs are in separate modules."""

from collections.abc import Callable

from tests.kube import admission
from tests.kube.conditions import is_deleting, is_ended, is_ready, owner_reference
from tests.kube.deployments import Deployments
from tests.kube.errors import Refused
from tests.kube.faults import Faults
from tests.kube.jobs import Jobs
from tests.kube.kinds import KINDS, kind_of
from tests.kube.loops import Loop
from tests.kube.quantity import text_of
from tests.kube.registry import CONTROLLER, DeleteOptions, Object, Registry
from tests.kube.selectors import selector_matches


class Controllers:
    """All controllers over one registry."""

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
            namespace_object = self.registry.find("Namespace", "", namespace)
            if namespace_object is not None and is_deleting(namespace_object):
                self._namespaces.add("", namespace)
        if item["kind"] == "PersistentVolumeClaim":
            self._claims.add_object(item)
        if event == "DELETED" or (is_deleting(item) and "foregroundDeletion" in (item["metadata"].get("finalizers") or [])):
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
        namespace_object = self.registry.find("Namespace", "", name)
        if namespace_object is None:
            return
        if not is_deleting(namespace_object):
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
                if not is_deleting(item):
                    self.registry.delete(kind, name, item["metadata"]["name"], DeleteOptions(propagation="Background"))
        if left and any(self.registry.items(kind.kind, name) for kind in KINDS if kind.namespaced):
            return
        self.registry.remove(namespace_object)

    def resume_namespaces(self) -> None:
        for namespace_object in self.registry.items("Namespace"):
            self._namespaces.add("", namespace_object["metadata"]["name"])

    # --- garbage: dependents of deleted owners ---

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
                elif not is_deleting(item):
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
        """Binds immediately; storage is unlimited."""
        claim = self.registry.find("PersistentVolumeClaim", namespace, name)
        if claim is not None and not is_deleting(claim):
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
                "conditions": {"ready": is_ready(pod) and not is_deleting(pod), "serving": is_ready(pod), "terminating": is_deleting(pod)},
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
