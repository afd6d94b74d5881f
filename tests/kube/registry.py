"""The objects and their writes: versions, field ownership, deletion with finalizers and grace periods. No HTTP here.

Objects are replaced, never changed in place, so every reference is a snapshot.
"""

import collections
import copy
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.kube import admission, fieldsets, patches, validation
from tests.kube.errors import Refused, not_found
from tests.kube.filling import prepare
from tests.kube.kinds import Kind, kind_of
from tests.kube.ownership import Owners, check_conflicts, own, owners_of
from tests.kube.preconditions import check_name_and_namespace, check_version, grace_of
from tests.kube.schemas import resolve, schema_of
from tests.kube.selectors import selector_matches
from tests.kube.writers import CONTROLLER, KUBELET, DeleteOptions, Object, Writer, later_text, now_text

Listener = Callable[[str, Object, Object | None], None]
KEPT_EVENTS = 4000
_SERVERS_METADATA = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields",
    "namespace",
)  # fmt: skip
_WITH_GENERATION = {"Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob", "Ingress", "NetworkPolicy", "PodDisruptionBudget"}


@dataclass(frozen=True, slots=True)
class Event:
    revision: int
    type: str
    kind: str
    item: Object
    old: Object | None
    """The object before the event. Watches with selectors compare the two."""


@dataclass(slots=True)
class Registry:
    revision: int = 100
    listeners: list[Listener] = field(default_factory=list)
    events: "collections.deque[Event]" = field(default_factory=lambda: collections.deque(maxlen=KEPT_EVENTS))
    warnings: list[str] = field(default_factory=list)
    _objects: dict[str, dict[tuple[str, str], Object]] = field(default_factory=lambda: collections.defaultdict(dict))
    _addresses: Iterator[int] = field(default_factory=lambda: iter(range(1, 60000)))

    def clear(self) -> None:
        """Removes everything without sending events."""
        self._objects.clear()
        self.events.clear()
        self.warnings.clear()
        self._addresses = iter(range(1, 60000))

    # --- reading ---

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._objects[kind].get((namespace if kind_of(kind).namespaced else "", name))

    def get(self, kind: str, namespace: str, name: str) -> Object:
        found = self.find(kind, namespace, name)
        if found is None:
            raise not_found(kind_of(kind).resource, name)
        return found

    def items(self, kind: str, namespace: str | None = None) -> list[Object]:
        """Sorted by namespace and name."""
        found = self._objects[kind]
        return [found[key] for key in sorted(found) if namespace is None or key[0] == namespace]

    def owned_by(self, kind: str, owner: Object) -> list[Object]:
        uid = owner["metadata"]["uid"]
        namespace = owner["metadata"].get("namespace")
        return [
            item
            for item in self._objects[kind].values()
            if item["metadata"].get("namespace") == namespace
            and any(ref["uid"] == uid for ref in item["metadata"].get("ownerReferences") or [])
        ]

    def everything(self) -> Iterator[Object]:
        for found in self._objects.values():
            yield from list(found.values())

    # --- writing ---

    def create(self, kind: Kind, namespace: str, item: Object, writer: Writer, *, applied: bool = False) -> Object:
        item = copy.deepcopy(item)
        metadata = item.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        name = check_name_and_namespace(self, kind, namespace, item)
        if self.find(kind.kind, namespace, name) is not None:
            raise Refused(
                409, f'{kind.resource} "{name}" already exists', reason="AlreadyExists", details={"name": name, "kind": kind.plural}
            )
        if metadata.get("resourceVersion"):
            raise Refused(400, "resourceVersion should not be set on objects to be created")
        for key in ("managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            metadata.pop(key, None)
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": now_text()}
        if kind.namespaced:
            metadata["namespace"] = namespace
        if kind.kind in _WITH_GENERATION:
            metadata["generation"] = 1
        if "status" in kind.subresources and writer is not KUBELET:
            item.pop("status", None)
        wanted = copy.deepcopy(item)
        prepare(item, None, self._addresses)
        validation.check(item)
        admission.admit(self, kind, item, self.warnings)
        own(item, wanted if applied else item, None, (writer, applied, {}))
        return self._commit("ADDED", item, None)

    def replace(self, kind: Kind, namespace: str, name: str, item: Object, writer: Writer) -> Object:
        """PUT. Raises Refused."""
        old = self.get(kind.kind, namespace, name)
        found = item.get("metadata", {}).get("name", name)
        if found != name:
            raise Refused(400, f"the name of the object ({found}) does not match the name on the URL ({name})")
        return self.update(kind, old, copy.deepcopy(item), writer)

    def patch(self, kind: Kind, key: tuple[str, str], how: str, patch: Any, writer: Writer) -> Object:
        """`key` is (namespace, name); `how` is json, merge or strategic."""
        old = self.get(kind.kind, *key)
        schema = resolve(schema_of(kind.kind, kind.api_version))
        new = patches.patched(how, copy.deepcopy(old), patch, schema)
        return self.update(kind, old, new, writer)

    def apply(self, kind: Kind, key: tuple[str, str], applied: Object, writer: Writer) -> tuple[Object, bool]:
        """Server-side apply at (namespace, name): (object, whether it is new)."""
        namespace, name = key
        if applied.get("metadata", {}).get("managedFields"):
            raise Refused(400, "metadata.managedFields must be nil")
        if applied.get("metadata", {}).get("name", name) != name:
            raise Refused(400, f"the name of the object ({applied['metadata']['name']}) does not match the name on the URL ({name})")
        applied.setdefault("metadata", {})["name"] = name
        old = self.find(kind.kind, namespace, name)
        if old is None:
            if applied["metadata"].get("uid"):
                raise Refused(
                    409, f"uid mismatch: the provided object specified uid {applied['metadata']['uid']}, and no existing object was found"
                )
            return self.create(kind, namespace, applied, writer, applied=True), True
        schema = resolve(schema_of(kind.kind, kind.api_version))
        wanted = fieldsets.values_of(applied, schema)
        owners = owners_of(old)
        mine = (writer.manager, "Apply", writer.subresource)
        check_conflicts(old, schema, wanted, owners, writer)
        others: set[fieldsets.Path] = set().union(*(paths for owner, paths in owners.items() if owner != mine), set())
        new = fieldsets.applied_over(old, applied, schema, before=owners.get(mine, set()), others=others)
        new["metadata"] = {**new["metadata"], "managedFields": old["metadata"].get("managedFields", [])}
        return self._update(kind, old, new, writer, (applied, owners)), False

    def update(self, kind: Kind, old: Object, new: Object, writer: Writer) -> Object:
        return self._update(kind, old, new, writer, None)

    def _update(self, kind: Kind, old: Object, new: Object, writer: Writer, applied: "tuple[Object, Owners] | None") -> Object:
        check_version(kind, old, new)
        metadata = new.setdefault("metadata", {})
        # A body with managedFields replaces the owners.
        owners = owners_of(new if metadata.get("managedFields") else old)
        for key in _SERVERS_METADATA:
            metadata.pop(key, None)
            if key in old["metadata"]:
                metadata[key] = old["metadata"][key]
        new |= {"apiVersion": kind.api_version, "kind": kind.kind}
        if writer.subresource == "status":
            new = {**old, "metadata": old["metadata"], "status": new.get("status", {})}
        elif "status" in kind.subresources:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        new = copy.deepcopy(new)
        prepare(new, old, self._addresses)
        validation.check(new)
        validation.check_update(old, new)
        if applied is not None:
            own(new, applied[0], old, (writer, True, applied[1]))
        else:
            own(new, new, old, (writer, False, owners))
        if kind.kind in _WITH_GENERATION and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        return self._settle(new, old)

    def write_status(self, item: Object, status: Object, *, merge: bool = True) -> Object:
        """For controllers. Does nothing if the status is unchanged or the object no longer exists."""
        old = self.find(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        if old is None or old["metadata"]["uid"] != item["metadata"]["uid"]:
            return item
        before = old.get("status") or {}
        after = {**before, **status} if merge else status
        after = {key: value for key, value in after.items() if value is not None}
        return old if before == after else self._commit("MODIFIED", {**old, "status": after}, old)

    def write_metadata(self, item: Object, **changes: Any) -> Object:
        """For controllers: replaces `finalizers`, `annotations`, `ownerReferences` … May complete a deletion."""
        old = self.find(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        if old is None or old["metadata"]["uid"] != item["metadata"]["uid"]:
            return item
        metadata = {key: value for key, value in {**old["metadata"], **changes}.items() if value not in (None, [], {})}
        return self._settle({**old, "metadata": metadata}, old)

    def write_spec(self, item: Object, **changes: Any) -> Object:
        """For controllers: replaces fields of the spec (nodeName, replicas)."""
        old = self.get(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        new = {**old, "spec": {**old["spec"], **changes}, "metadata": dict(old["metadata"])}
        if item["kind"] in _WITH_GENERATION and new["spec"] != old["spec"]:
            new["metadata"]["generation"] += 1
        return self._settle(new, old)

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> tuple[Object, bool]:
        """(object, whether it has been removed)."""
        old = self.get(kind.kind, namespace, name)
        metadata = old["metadata"]
        if options.uid not in (None, metadata["uid"]) or options.resource_version not in (None, metadata["resourceVersion"]):
            why = f"Precondition failed: UID or resourceVersion in precondition: {options.uid}, in object meta: {metadata['uid']}"
            raise Refused(409, f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}')
        finalizers = list(metadata.get("finalizers") or [])
        propagation = options.propagation or ("Orphan" if kind.kind == "Job" else "Background")
        if propagation == "Foreground" and "foregroundDeletion" not in finalizers:
            finalizers.append("foregroundDeletion")
        if propagation == "Orphan":
            for item in list(self.everything()):
                references = item["metadata"].get("ownerReferences") or []
                kept = [ref for ref in references if ref["uid"] != metadata["uid"]]
                if len(kept) != len(references):
                    self.write_metadata(item, ownerReferences=kept)
            old = self.get(kind.kind, namespace, name)
        grace = grace_of(kind, old, options)
        if not finalizers and not grace and kind.kind != "Namespace":
            return self._commit("DELETED", old, old), True
        changes = {"finalizers": finalizers, "deletionTimestamp": later_text(grace), "deletionGracePeriodSeconds": grace}
        if metadata.get("deletionTimestamp") and grace >= metadata.get("deletionGracePeriodSeconds", 0):
            changes = {"finalizers": finalizers}
        new = {**old, "metadata": {**metadata, **changes}}
        if kind.kind in _WITH_GENERATION and not metadata.get("deletionTimestamp"):
            new["metadata"]["generation"] = metadata["generation"] + 1
        if kind.kind == "Namespace":
            new["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
        return self._settle(new, old), False

    def remove(self, item: Object) -> None:
        """Removes the object itself, at the end of a deletion."""
        old = self.find(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        if old is not None and old["metadata"]["uid"] == item["metadata"]["uid"]:
            self._commit("DELETED", old, old)

    # --- parts of writing ---

    def _settle(self, new: Object, old: Object) -> Object:
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers") and new["kind"] not in ("Namespace", "Pod"):
            return self._commit("DELETED", new, old)
        metadata = {key: value for key, value in new["metadata"].items() if value not in (None, [], {})}
        new = {**new, "metadata": metadata}
        return old if new == old else self._commit("MODIFIED", new, old)

    def _commit(self, event: str, item: Object, old: Object | None) -> Object:
        self.revision += 1
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.revision)}}
        key = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
        if event == "DELETED":
            self._objects[item["kind"]].pop(key)
        else:
            self._objects[item["kind"]][key] = item
        self.events.append(Event(self.revision, event, item["kind"], item, old))
        for listener in self.listeners:
            listener(event, item, old)
        return item

    # --- for controllers ---

    def record_event(self, about: Object, type_: str, reason: str, message: str) -> None:
        """Creates an Event about an object; a repeated one only increases its count."""
        namespace = about["metadata"].get("namespace", "default")
        name = f"{about['metadata']['name']}.{uuid.uuid5(uuid.NAMESPACE_OID, about['metadata']['uid'] + reason + message).hex[:16]}"
        namespace_object = self.find("Namespace", "", namespace)
        if namespace_object is None or namespace_object["metadata"].get("deletionTimestamp"):
            return
        old = self.find("Event", namespace, name)
        if old is not None:
            self._commit("MODIFIED", {**old, "count": old["count"] + 1, "lastTimestamp": now_text()}, old)
            return
        involved = {
            "kind": about["kind"], "apiVersion": about["apiVersion"], "name": about["metadata"]["name"], "namespace": namespace,
            "uid": about["metadata"]["uid"], "resourceVersion": about["metadata"]["resourceVersion"],
        }  # fmt: skip
        item = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": involved, "type": type_, "reason": reason,
            "message": message, "firstTimestamp": now_text(), "lastTimestamp": now_text(), "count": 1, "source": {"component": "stand-in"},
        }  # fmt: skip
        self.create(kind_of("Event"), namespace, item, CONTROLLER)

    def pods_of(self, owner: Object, selector: Object | None) -> list[Object]:
        """The Pods that a controller object owns and its selector matches."""
        return [pod for pod in self.owned_by("Pod", owner) if selector_matches(selector, pod["metadata"].get("labels") or {})]
