"""A view of the cluster as last observed: per kind, over all namespaces, selected by labels."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sless.kube.edits import mark_of
from sless.kube.names import RUN, WORKLOAD
from sless.kube.stamp import stamp_of

Json = dict[str, Any]

CACHED_KINDS = (
    "Namespace", "ResourceQuota", "LimitRange", "NetworkPolicy", "ServiceAccount", "Secret", "ConfigMap", "Service", "Ingress",
)  # fmt: skip
"""Kinds of which only the metadata is observed, by the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedObject:
    """The metadata of an object. `mark`: see `kube.edits`."""

    kind: str
    namespace: str
    name: str
    stamp: str
    deleting: bool
    labels: dict[str, str]
    created_at: str
    resource_version: str
    mark: str

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


@dataclass(slots=True, kw_only=True)
class ClusterView:
    """`deployments` and `pods` of instances by workload id, `jobs` and `run_pods` by run id. `settled` is False shortly after an outage of
    the API, when pods may still have their old state, because nodes report late."""

    deployments: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, list[Json]] = field(default_factory=dict)
    jobs: dict[str, Json] = field(default_factory=dict)
    run_pods: dict[str, Json] = field(default_factory=dict)
    settled: bool = True


def cached_object_of(kind: str, item: Json, before: CachedObject | None = None) -> CachedObject:
    """`before`: the previous observation; its mark is reused if the object has not changed."""
    metadata = item["metadata"]
    version = metadata.get("resourceVersion", "")
    return CachedObject(
        kind=kind, namespace=metadata.get("namespace", ""), name=metadata["name"], stamp=stamp_of(item),
        deleting=bool(metadata.get("deletionTimestamp")), labels=metadata.get("labels") or {},
        created_at=metadata.get("creationTimestamp", ""), resource_version=version,
        mark=before.mark if before is not None and before.resource_version == version else mark_of(item),
    )  # fmt: skip


def object_key_of(item: Json) -> str:
    """`Secret/sless-fn-0123/hello-env`."""
    return f"{item['kind']}/{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def is_older(version: str, than: str) -> bool:
    """Compares versions, which are numbers that grow with every change in the cluster."""
    return version.isdigit() and than.isdigit() and int(version) < int(than)


def label_of(item: Json, label: str) -> str:
    return str((item["metadata"].get("labels") or {}).get(label, ""))


def view_of(deployments: Iterable[Json], pods: Iterable[Json], jobs: Iterable[Json]) -> ClusterView:
    view = ClusterView(
        deployments={label_of(item, WORKLOAD): item for item in deployments}, jobs={label_of(item, RUN): item for item in jobs}
    )
    owner = {run_id: job["metadata"].get("uid") for run_id, job in view.jobs.items()}
    for pod in pods:
        run_id = label_of(pod, RUN)
        if not run_id:
            view.pods.setdefault(label_of(pod, WORKLOAD), []).append(pod)
        # A retry reuses the name of the previous attempt, whose pod may still exist.
        elif owner.get(run_id) in [one.get("uid") for one in pod["metadata"].get("ownerReferences") or ()]:
            view.run_pods[run_id] = pod
    return view


def code_in_use(view: ClusterView) -> set[str]:
    """`namespace/name` of ConfigMaps used as volumes by pods, Deployments or Jobs."""
    specs = [item["spec"]["template"]["spec"] | {"namespace": item["metadata"]["namespace"]}
             for item in (*view.deployments.values(), *view.jobs.values())]  # fmt: skip
    specs += [pod["spec"] | {"namespace": pod["metadata"]["namespace"]}
              for pod in (*view.run_pods.values(), *(pod for group in view.pods.values() for pod in group))]  # fmt: skip
    return {f"{spec['namespace']}/{volume['configMap']['name']}" for spec in specs for volume in spec.get("volumes") or ()
            if "configMap" in volume}  # fmt: skip


class ObjectCache:
    """All other objects of this installation, by `CachedObject.key`. Includes writes of this process at once; a list that began before a
    write does not undo it. Thread-safe."""

    def __init__(self, installation: str) -> None:
        self.installation = installation
        self._lock = threading.Lock()
        self._objects: dict[str, CachedObject] = {}
        self._written: dict[str, float] = {}
        """Time at which this process last wrote or deleted an object."""
        self._marks: dict[str, str] = {}
        """Marks of objects that this process wrote, as returned by the API."""
        self._dropped: dict[str, str] = {}
        """Version at which this process deleted an object, so that older events do not bring it back."""

    def find(self, key: str) -> CachedObject | None:
        cached = self._objects.get(key)
        return cached if cached is not None and not cached.deleting else None

    def holds(self, manifest: Json) -> bool:
        """Whether the object in the cluster is exactly as this process wrote it, so that it need not be written."""
        cached = self.find(object_key_of(manifest))
        return cached is not None and cached.stamp == stamp_of(manifest) and self._marks.get(cached.key) == cached.mark

    def is_edited(self, key: str) -> bool:
        """Whether another client has changed it since this process wrote it."""
        cached = self._objects.get(key)
        return cached is not None and self._marks.get(key, cached.mark) != cached.mark

    def find_stamp(self, key: str) -> str | None:
        """Hash of the manifest that it was written from; "" if another client has edited it, None if it does not exist."""
        cached = self.find(key)
        return None if cached is None else "" if self.is_edited(key) else cached.stamp

    def all(self) -> list[CachedObject]:
        with self._lock:
            return list(self._objects.values())

    def put(self, kind: str, item: Json) -> None:
        cached = cached_object_of(kind, item)
        with self._lock:
            self._objects[cached.key] = cached
            self._marks[cached.key] = cached.mark
            self._written[cached.key] = time.monotonic()

    def drop(self, key: str) -> None:
        with self._lock:
            if (gone := self._objects.pop(key, None)) is not None:
                self._dropped[key] = gone.resource_version
            self._written[key] = time.monotonic()

    def drop_namespace(self, name: str) -> None:
        for cached in self.all():
            if cached.namespace == name or cached.key == f"Namespace//{name}":
                self.drop(cached.key)

    def tidy(self) -> None:
        """Drops entries that only matter for a moment."""
        horizon = time.monotonic() - 60
        with self._lock:
            self._written = {key: at for key, at in self._written.items() if at > horizon}
            self._dropped = {key: version for key, version in self._dropped.items() if key in self._written}
            self._marks = {key: mark for key, mark in self._marks.items() if key in self._objects}

    def observe(self, kind: str, item: Json) -> None:
        """Stores an object that has changed."""
        key = object_key_of({**item, "kind": kind})
        cached = cached_object_of(kind, item, self._objects.get(key))
        with self._lock:
            known = self._objects.get(key)
            version = known.resource_version if known is not None else self._dropped.get(key, "")
            if not is_older(cached.resource_version, version):
                self._objects[key] = cached

    def forget(self, kind: str, item: Json) -> None:
        """Removes an object that is gone."""
        key = object_key_of({**item, "kind": kind})
        with self._lock:
            known = self._objects.get(key)
            if known is not None and not is_older(str(item["metadata"].get("resourceVersion", "")), known.resource_version):
                del self._objects[key]

    def merge(self, kind: str, items: Iterable[Json], began: float) -> None:
        """Stores all objects of one kind from a list that began at `began` (monotonic)."""
        known = self._objects
        listed = [cached_object_of(kind, item, known.get(object_key_of({**item, "kind": kind}))) for item in items]
        with self._lock:
            recent = {key for key, at in self._written.items() if at >= began}
            kept = {key: cached for key, cached in self._objects.items() if cached.kind != kind or key in recent}
            self._objects = kept | {cached.key: cached for cached in listed if cached.key not in recent}
