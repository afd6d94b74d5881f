"""The objects, and what writing one means: versions, ownership of fields, deletion with finalizers and grace. No HTTP here.

Objects are replaced, never changed in place: whoever holds one holds a snapshot.
"""

import collections
import copy
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.kube import admission, fieldsets, patches, validation
from tests.kube.defaults import set_defaults
from tests.kube.errors import Refused, forbidden, not_found
from tests.kube.kinds import Kind, kind_of
from tests.kube.schemas import resolve, schema_of
from tests.kube.selectors import selector_matches

Object = dict[str, Any]
Listener = Callable[[str, Object, Object | None], None]
KEPT_EVENTS = 4000
_SERVERS_METADATA = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields",
    "namespace",
)  # fmt: skip
_WITH_GENERATION = {"Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob", "Ingress", "NetworkPolicy", "PodDisruptionBudget"}


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who writes: the field manager, and how. `subresource` is `status`, `scale` or empty."""

    manager: str = "unknown"
    subresource: str = ""
    force: bool = False


CONTROLLER = Writer(manager="kube-controller-manager")
KUBELET = Writer(manager="kubelet")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    grace_sec: int | None = None
    propagation: str = ""
    uid: str | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    revision: int
    type: str
    kind: str
    item: Object


@dataclass(slots=True)
class Registry:
    revision: int = 100
    listeners: list[Listener] = field(default_factory=list)
    events: "collections.deque[Event]" = field(default_factory=lambda: collections.deque(maxlen=KEPT_EVENTS))
    warnings: list[str] = field(default_factory=list)
    _objects: dict[str, dict[tuple[str, str], Object]] = field(default_factory=lambda: collections.defaultdict(dict))
    _addresses: Iterator[int] = field(default_factory=lambda: iter(range(1, 60000)))

    def clear(self) -> None:
        """As on the first day; nobody is told."""
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
        """By namespace and name."""
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
        name = self._check_place(kind, namespace, item)
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
        self._prepare(item)
        validation.check(item)
        self._admit(kind, item)
        self._own(item, wanted if applied else item, None, (writer, applied, {}))
        return self._commit("ADDED", item, None)

    def replace(self, kind: Kind, namespace: str, name: str, item: Object, writer: Writer) -> Object:
        """PUT. Raises Refused."""
        old = self.get(kind.kind, namespace, name)
        found = item.get("metadata", {}).get("name", name)
        if found != name:
            raise Refused(400, f"the name of the object ({found}) does not match the name on the URL ({name})")
        return self.update(kind, old, copy.deepcopy(item), writer)

    def patch(self, kind: Kind, place: tuple[str, str], how: str, patch: Any, writer: Writer) -> Object:
        """`how` is json, merge or strategic."""
        old = self.get(kind.kind, *place)
        schema = resolve(schema_of(kind.kind, kind.api_version))
        new = patches.patched(how, copy.deepcopy(old), patch, schema)
        return self.update(kind, old, new, writer)

    def apply(self, kind: Kind, place: tuple[str, str], applied: Object, writer: Writer) -> tuple[Object, bool]:
        """Server-side apply: (object, whether it is new)."""
        namespace, name = place
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
        owners = _owners_of(old)
        mine = (writer.manager, "Apply", writer.subresource)
        self._check_conflicts(old, schema, wanted, owners, writer)
        others: set[fieldsets.Path] = set().union(*(paths for key, paths in owners.items() if key != mine), set())
        new = fieldsets.applied_over(old, applied, schema, before=owners.get(mine, set()), others=others)
        new["metadata"] = {**new["metadata"], "managedFields": old["metadata"].get("managedFields", [])}
        return self._update(kind, old, new, writer, (applied, owners)), False

    def update(self, kind: Kind, old: Object, new: Object, writer: Writer) -> Object:
        return self._update(kind, old, new, writer, None)

    def _update(self, kind: Kind, old: Object, new: Object, writer: Writer, applied: "tuple[Object, _Owners] | None") -> Object:
        self._check_version(kind, old, new)
        metadata = new.setdefault("metadata", {})
        # Who sends managedFields says anew who owns what.
        owners = _owners_of(new if metadata.get("managedFields") else old)
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
        self._prepare(new, old)
        validation.check(new)
        validation.check_update(old, new)
        if applied is not None:
            self._own(new, applied[0], old, (writer, True, applied[1]))
        else:
            self._own(new, new, old, (writer, False, owners))
        if kind.kind in _WITH_GENERATION and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        return self._settle(new, old)

    def write_status(self, item: Object, status: Object, *, merge: bool = True) -> Object:
        """By a controller. Nothing happens when it says what was said; None for an object that is gone."""
        old = self.find(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        if old is None or old["metadata"]["uid"] != item["metadata"]["uid"]:
            return item
        before = old.get("status") or {}
        after = {**before, **status} if merge else status
        after = {key: value for key, value in after.items() if value is not None}
        return old if before == after else self._commit("MODIFIED", {**old, "status": after}, old)

    def write_metadata(self, item: Object, **changes: Any) -> Object:
        """By a controller: `finalizers`, `annotations`, `ownerReferences` … replaced. An object that loses its last finalizer goes."""
        old = self.find(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        if old is None or old["metadata"]["uid"] != item["metadata"]["uid"]:
            return item
        metadata = {key: value for key, value in {**old["metadata"], **changes}.items() if value not in (None, [], {})}
        return self._settle({**old, "metadata": metadata}, old)

    def write_spec(self, item: Object, **changes: Any) -> Object:
        """By a controller: fields of the spec replaced (nodeName, replicas)."""
        old = self.get(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        new = {**old, "spec": {**old["spec"], **changes}, "metadata": dict(old["metadata"])}
        if item["kind"] in _WITH_GENERATION and new["spec"] != old["spec"]:
            new["metadata"]["generation"] += 1
        return self._settle(new, old)

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> tuple[Object, bool]:
        """(object, whether it is gone)."""
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
            self._orphan(old)
            old = self.get(kind.kind, namespace, name)
        grace = self._grace_of(kind, old, options)
        if not finalizers and not grace and kind.kind != "Namespace":
            return self._commit("DELETED", old, old), True
        changes = {"finalizers": finalizers, "deletionTimestamp": _later(grace), "deletionGracePeriodSeconds": grace}
        if metadata.get("deletionTimestamp") and grace >= metadata.get("deletionGracePeriodSeconds", 0):
            changes = {"finalizers": finalizers}
        new = {**old, "metadata": {**metadata, **changes}}
        if kind.kind in _WITH_GENERATION and not metadata.get("deletionTimestamp"):
            new["metadata"]["generation"] = metadata["generation"] + 1
        if kind.kind == "Namespace":
            new["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
        return self._settle(new, old), False

    def remove(self, item: Object) -> None:
        """Really, by the part that finishes a deletion."""
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
        self.events.append(Event(self.revision, event, item["kind"], item))
        for listener in self.listeners:
            listener(event, item, old)
        return item

    def _check_place(self, kind: Kind, namespace: str, item: Object) -> str:
        name = str(item["metadata"].get("name") or "")
        found = item["metadata"].get("namespace", namespace)
        if kind.namespaced and found != namespace:
            raise Refused(
                400, f"the namespace of the provided object does not match the namespace sent on the request: {found}, {namespace}"
            )
        if not name:
            raise Refused(422, f'{kind.kind} "" is invalid: metadata.name: Required value: name or generateName is required')
        if not kind.namespaced:
            return name
        place = self._objects["Namespace"].get(("", namespace))
        if place is None:
            raise not_found("namespaces", namespace)
        if place["metadata"].get("deletionTimestamp"):
            refusal = forbidden(
                kind.resource, name, f"unable to create new content in namespace {namespace} because it is being terminated"
            )
            refusal.details = {**(refusal.details or {}), "causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
            raise refusal
        return name

    def _check_version(self, kind: Kind, old: Object, new: Object) -> None:
        metadata, found = new.get("metadata") or {}, old["metadata"]
        for key in ("uid", "resourceVersion"):
            if metadata.get(key) not in (None, found[key]):
                why = "the object has been modified; please apply your changes to the latest version and try again"
                if key == "uid":
                    why = f"Precondition failed: UID in precondition: {metadata[key]}, UID in object meta: {found[key]}"
                details = {"name": found["name"], "kind": kind.plural}
                raise Refused(409, f'Operation cannot be fulfilled on {kind.resource} "{found["name"]}": {why}', details=details)

    def _prepare(self, item: Object, old: Object | None = None) -> None:
        """What the server fills in."""
        for text, value in (item.pop("stringData", None) or {}).items() if item["kind"] == "Secret" else ():
            item.setdefault("data", {})[text] = patches.base64_of(value)
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
                number = 0 if before else next(self._addresses)
                item["spec"].setdefault("clusterIP", before or f"10.96.{number // 250}.{number % 250 + 1}")
                item["spec"].setdefault("clusterIPs", [item["spec"]["clusterIP"]])
            case "Job":
                self._prepare_job(item, old)
            case "Pod" if old is None:
                item["status"] = {"phase": "Pending", "qosClass": "Burstable"}

    def _prepare_job(self, item: Object, old: Object | None) -> None:
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

    def _admit(self, kind: Kind, item: Object) -> None:
        if kind.kind == "Pod":
            admission.admit_pod(self, item)
            set_defaults(item)
        if kind.namespaced:
            admission.admit_quota(self, kind, item)
        if kind.kind in ("Deployment", "Job", "ReplicaSet"):
            place = self.find("Namespace", "", item["metadata"]["namespace"]) or {}
            labels = place.get("metadata", {}).get("labels") or {}
            level = labels.get("pod-security.kubernetes.io/warn", labels.get("pod-security.kubernetes.io/enforce", ""))
            violations = admission.security_violations(item["spec"]["template"]["spec"], level)
            if violations:
                self.warnings.append(f'would violate PodSecurity "{level}:latest": ' + ", ".join(violations))

    def _check_conflicts(
        self, live: Object, schema: fieldsets.Schema, wanted: dict[fieldsets.Path, Any], owners: "_Owners", writer: Writer
    ) -> None:
        """Without force: 409 naming owners and fields. With it the others lose those fields."""
        values = fieldsets.values_of(live, schema)
        mine = (writer.manager, "Apply", writer.subresource)
        found = []
        for key, paths in owners.items():
            if key == mine:
                continue
            differ = {
                path
                for path in paths & set(wanted)
                # What is empty says nothing that could be contradicted.
                if not path[-1].startswith("k:") and wanted[path] not in ({}, []) and values.get(path) != wanted[path]
            }
            if differ and writer.force:
                paths -= differ
            found += [(key[0], path) for path in sorted(differ)]
        if found and not writer.force:
            causes = [
                {"reason": "FieldManagerConflict", "message": f'conflict with "{name}"', "field": "." + ".".join(part[2:] for part in path)}
                for name, path in found
            ]
            shown = "; ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
            raise Refused(409, f"Apply failed with {len(causes)} conflict(s): {shown}", details={"causes": causes})

    def _own(self, item: Object, wanted: Object, old: Object | None, how: "tuple[Writer, bool, _Owners]") -> None:
        """Writes managedFields. An apply owns what it says, another write what it changed. `how`: (writer, applied, owners so far)."""
        writer, applied, owners = how
        kind = kind_of(item["kind"])
        schema = resolve(schema_of(kind.kind, kind.api_version))
        key = (writer.manager, "Apply" if applied else "Update", writer.subresource)
        if applied:
            owners[key] = fieldsets.fields_of(wanted, schema) - {("f:status",)}
        else:
            changed, gone = fieldsets.changed_fields(old or {}, wanted, schema)
            for paths in owners.values():
                paths -= changed | gone
            owners[key] = owners.get(key, set()) | changed
        existing = [] if old is None else old["metadata"].get("managedFields") or []
        item["metadata"]["managedFields"] = _managed_fields(item, owners, existing)

    def _orphan(self, owner: Object) -> None:
        for item in list(self.everything()):
            references = item["metadata"].get("ownerReferences") or []
            kept = [ref for ref in references if ref["uid"] != owner["metadata"]["uid"]]
            if len(kept) != len(references):
                self.write_metadata(item, ownerReferences=kept)

    def _grace_of(self, kind: Kind, item: Object, options: DeleteOptions) -> int:
        if kind.kind != "Pod":
            return 0
        if not item["spec"].get("nodeName") or (item.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        return options.grace_sec if options.grace_sec is not None else int(item["spec"].get("terminationGracePeriodSeconds", 30))

    # --- what controllers share ---

    def record_event(self, about: Object, type_: str, reason: str, message: str) -> None:
        """An Event about an object; the same one again only counts up."""
        namespace = about["metadata"].get("namespace", "default")
        name = f"{about['metadata']['name']}.{uuid.uuid5(uuid.NAMESPACE_OID, about['metadata']['uid'] + reason + message).hex[:16]}"
        place = self.find("Namespace", "", namespace)
        if place is None or place["metadata"].get("deletionTimestamp"):
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
        """The Pods that this controller object owns and its selector takes."""
        return [pod for pod in self.owned_by("Pod", owner) if selector_matches(selector, pod["metadata"].get("labels") or {})]


_Owners = dict[tuple[str, str, str], set[fieldsets.Path]]


def _owners_of(item: Object) -> _Owners:
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): fieldsets.from_fields_v1(entry["fieldsV1"])
        for entry in item["metadata"].get("managedFields") or []
    }


def _managed_fields(item: Object, owners: _Owners, before: list[Object]) -> list[Object]:
    """An entry whose fields did not change keeps its time, so that a write without a change changes nothing."""
    known = {(entry["manager"], entry["operation"], entry.get("subresource", "")): entry for entry in before}
    entries = []
    for key, paths in sorted(owners.items(), key=lambda pair: pair[0]):
        if not paths:
            continue
        fields = fieldsets.to_fields_v1(paths)
        old = known.get(key)
        if old is not None and json.dumps(old["fieldsV1"], sort_keys=True) == json.dumps(fields, sort_keys=True):
            entries.append(old)
            continue
        entry = {
            "manager": key[0], "operation": key[1], "apiVersion": item["apiVersion"], "time": now_text(),
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        }  # fmt: skip
        entries.append({**entry, "subresource": key[2]} if key[2] else entry)
    return entries


def _later(seconds: int) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
