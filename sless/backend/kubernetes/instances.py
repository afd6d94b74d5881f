"""Writes, removes and observes the Deployments of functions and services."""

import time
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

from sless import clock
from sless.backend.kubernetes.fit import Fit
from sless.backend.kubernetes.manifests import Wanted, wanted_of
from sless.backend.kubernetes.observation import (
    Memory,
    backed_off_instance_of,
    ended_instances_of,
    endpoint_of,
    generation_of,
    is_complete,
    is_rolled_out,
    needs_of,
    observed_deployment,
    replaced_pods,
    shows_pods,
)  # fmt: skip
from sless.backend.kubernetes.tenants import TenantNamespaces
from sless.backend.kubernetes.view import CachedObject, ClusterView, ObjectCache, code_in_use, object_key_of
from sless.backend.kubernetes.writer import Writer
from sless.backend.plan import Restarts
from sless.clock import parse_rfc3339
from sless.domain.durations import Durations
from sless.domain.ports import CodeStore, Deployment, ObservedDeployment, Revision
from sless.domain.runtimes import RUNTIMES
from sless.errors import Code, SlessError
from sless.kube import Exists, Kube, KubeError
from sless.kube.code_map import archive_of, code_map_manifest
from sless.kube.names import ROLE, ROLE_CODE, ROLE_INSTANCE, WORKLOAD, cluster_namespace_of, selector_of
from sless.kube.stamp import stamp_of

Json = dict[str, Any]

KEPT_REASONS = 2_000
CODE_ORPHAN_AFTER = timedelta(minutes=15)
"""Age at which an unused ConfigMap with code is deleted: it is created before anything refers to it, and again if it is missing."""


@dataclass(slots=True, kw_only=True)
class Objects:
    """Writes objects, for instances and runs."""

    kube: Kube
    fit: Fit
    cache: ObjectCache
    tenants: TenantNamespaces
    code: CodeStore
    durations: Durations

    def in_tenant(self, namespace: str, write: Callable[[], None]) -> None:
        """Calls `write` after ensuring the tenant's namespace; once more if the namespace turns out to be gone. Raises KubeError."""
        self.tenants.ensure(namespace)
        try:
            write()
        except KubeError as error:
            if error.status != 404:
                raise
            self.tenants.forget_gone(namespace)
            self.tenants.ensure(namespace)
            write()

    def apply(self, manifest: Json) -> None:
        """Applies the object unless it is up to date."""
        if not self.cache.holds(manifest):
            self.cache.put(manifest["kind"], self.kube.apply(manifest))

    def ensure_code(self, revision: Revision, code_map: str | None) -> None:
        """Creates the ConfigMap of small code. Raises KubeError, NotFound if the code is gone, SlessError for a version built for another
        backend."""
        if not revision.artifact:
            compiled = RUNTIMES[revision.runtime].language == "go"
            how = f"compiled for {revision.runtime}" if compiled else "built for Kubernetes"
            raise SlessError(Code.BUILD_FAILED, f"this version has not been {how}: upload it again")
        namespace = cluster_namespace_of(revision.namespace)
        if code_map is None or self.cache.find(f"ConfigMap/{namespace}/{code_map}") is not None:
            return
        with self.code.open(revision.code_key) as code:
            manifest = code_map_manifest(self.fit.installation, namespace, revision.workload_id, archive_of(code))
        # Pods refer to it by the name in the artifact.
        manifest["metadata"]["name"] = code_map
        try:
            made = self.kube.create(manifest)
        except Exists:
            if not (ours := self._listed(manifest)):
                # Its labels were removed by hand, so replace it; pods that have mounted it keep their copy.
                self.kube.delete("ConfigMap", code_map, namespace)
                ours = [self.kube.create(manifest)]
            made = ours[0]
        self.cache.put("ConfigMap", made)

    def _listed(self, manifest: Json) -> list[Json]:
        """The object of this name, if it has our labels."""
        selector, fields = selector_of(self.fit.installation), f"metadata.name={manifest['metadata']['name']}"
        return self.kube.list(
            manifest["kind"], namespace=manifest["metadata"]["namespace"], selector=selector, fields=fields, metadata_only=True
        )

    def delete(self, key: str) -> None:
        kind, namespace, name = key.split("/", 2)
        self.kube.delete(kind, name, namespace or None)
        self.cache.drop(key)


@dataclass(slots=True, kw_only=True)
class Instances:
    """`observed` is recomputed by `on_view`. Other state only improves messages."""

    objects: Objects
    writer: Writer
    observed: dict[str, ObservedDeployment] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why the most recent instances ended, by id."""
    tails: dict[str, tuple[str, ...]] = field(default_factory=dict)
    answering: Container[str] = ()
    _reached: dict[str, int] = field(default_factory=dict)
    _tried: dict[str, str] = field(default_factory=dict)
    """Hash of the desired Deployment last passed to the writer, by workload."""
    _wanted: dict[str, int] = field(default_factory=dict)
    """Generation of that Deployment."""
    _known: set[str] = field(default_factory=set)
    _loose_since: dict[str, float] = field(default_factory=dict)
    """Time at which each unneeded object was first found unneeded, by key: monotonic seconds."""
    _served: dict[str, None] = field(default_factory=dict)
    """Ids of the most recent instances that were ready."""
    _restarts: dict[str, Restarts] = field(default_factory=dict)

    def apply(self, desired: Deployment) -> None:
        wanted = wanted_of(self.objects.fit, desired)
        workload_id = desired.revision.workload_id
        cache = self.objects.cache
        up_to_date = all(cache.holds(item) for item in (wanted.deployment, *wanted.before, *wanted.after))
        # A write in progress may be of an older desired state, and must not be the last one.
        if up_to_date and self._has_needs(wanted.deployment) and not self.writer.is_busy(workload_id):
            self.writer.drop(workload_id)
            return
        if self._tried.get(workload_id) != stamp_of(wanted.deployment):
            # It differs from the refused one.
            self._tried[workload_id] = stamp_of(wanted.deployment)
            self._wanted[workload_id] = desired.generation
            self.writer.drop(workload_id)
        self.writer.put(workload_id, lambda: self._write(desired, wanted))

    def remove(self, workload_id: str, view: ClusterView) -> None:
        live = view.deployments.get(workload_id)
        if live is not None and live["metadata"].get("deletionTimestamp"):
            return
        if live is not None:
            self.writer.put(workload_id, lambda: self._delete(live))
        elif loose := [pod for pod in view.pods.get(workload_id, ()) if not pod["metadata"].get("deletionTimestamp")]:
            self.writer.put(workload_id, lambda: self._delete_pods(loose))
        else:
            # Nothing exists; forget the refusal.
            self.writer.drop(workload_id)

    def drop_unresponsive(self, view: ClusterView) -> None:
        """Deletes unresponsive pods whose replacements are ready."""
        for workload_id, pods in view.pods.items():
            if gone := replaced_pods(view.deployments.get(workload_id), pods):
                self.writer.put(
                    f"unresponsive:{workload_id}",
                    partial(self._delete_pods, gone, grace_sec=int(self.objects.durations.unresponsive_stop_sec)),
                )

    def replace_crashed(self, view: ClusterView) -> None:
        """Deletes pods that have served and wait for the kubelet's back-off, so that their ReplicaSet replaces them at once. As on the
        local backend, their number per minute is limited (`plan.Restarts`)."""
        self._restarts = {key: restarts for key, restarts in self._restarts.items() if key in view.pods}
        for workload_id, pods in view.pods.items():
            for pod in pods:
                instance, now = backed_off_instance_of(pod), time.monotonic()
                # Wait until its log has been read, which is deleted with the pod.
                if instance is None or instance not in self._served or instance not in self.tails:
                    continue
                del self._served[instance]
                restarts = self._restarts.setdefault(workload_id, Restarts(durations=self.objects.durations))
                if restarts.next_start_at(now, 0.0, had_served=True) <= now:
                    self.writer.put(f"crashed:{instance}", partial(self._delete_pods, [pod], grace_sec=0))

    def on_view(self, view: ClusterView) -> bool:
        """Returns whether `observed` has changed."""
        now = clock.now()
        self._remember(view)
        failures = {key: failure.message for key, failure in self.writer.failures().items() if failure.message and ":" not in key}
        observed = {}
        for workload_id in view.deployments.keys() | view.pods.keys() | failures.keys():
            deployment = view.deployments.get(workload_id)
            reached, failure = self._reached_generation(workload_id, deployment, view), failures.get(workload_id, "")
            refused = self._wanted.get(workload_id, 0)
            memory = Memory(reached=reached, refused=refused, tails=self.tails, failure=failure, answering=self.answering)
            found = observed_deployment(workload_id, deployment, view.pods.get(workload_id, []), memory, now)
            if found is not None:
                observed[workload_id] = found
        changed = observed != self.observed
        self.observed = observed
        return changed

    def orphans(self, view: ClusterView) -> list[CachedObject]:
        """Objects that no Deployment needs (with the current settings), and code to which no pod, Deployment or Job refers."""
        now, used = clock.now(), code_in_use(view)
        needed = {key for deployment in view.deployments.values() for key in needs_of(deployment)}
        # A Deployment just written counts, although a busy API may report it much later.
        cached_owners = {one.labels.get(WORKLOAD) for one in self.objects.cache.all() if one.kind == "Deployment" and not one.deleting}
        owners = view.deployments.keys() | cached_owners
        loose, unused = [], []
        for cached in self.objects.cache.all():
            age = now - parse_rfc3339(cached.created_at) if cached.created_at else timedelta(0)
            role = cached.labels.get(ROLE)
            if cached.deleting or cached.kind == "Deployment":
                continue
            # With a Deployment, only Ingresses can become superfluous (by settings); its annotations, if removed by hand, are restored.
            owner = cached.labels.get(WORKLOAD)
            loses_owner = owner not in owners or (cached.kind == "Ingress" and owner in view.deployments)
            if self.writer.is_busy(cached.labels.get(WORKLOAD, "")):
                continue
            if role == ROLE_INSTANCE and loses_owner and cached.key not in needed:
                loose.append(cached)
            elif role == ROLE_CODE and f"{cached.namespace}/{cached.name}" not in used and age > CODE_ORPHAN_AFTER:
                unused.append(cached)
        return self._loose_for_long(loose) + unused

    def _loose_for_long(self, loose: list[CachedObject]) -> list[CachedObject]:
        """Leaves out objects whose Deployment may only be missing temporarily, such as one whose labels were removed by hand."""
        now = monotonic()
        self._loose_since = {cached.key: self._loose_since.get(cached.key, now) for cached in loose}
        return [cached for cached in loose if now - self._loose_since[cached.key] > self.objects.durations.orphan_sec]

    # --- writing, in the writer's threads ---

    def _write(self, desired: Deployment, wanted: Wanted) -> None:
        def write() -> None:
            for manifest in wanted.before:
                self.objects.apply(manifest)
            self.objects.ensure_code(desired.revision, wanted.code_map)
            self.objects.apply(wanted.deployment)
            for manifest in wanted.after:
                self.objects.apply(manifest)

        self.objects.in_tenant(desired.revision.namespace, write)

    def _delete(self, live: Json) -> None:
        """Also deletes the other objects, which terminating pods no longer need, although they still take calls for a moment."""
        self.objects.delete(object_key_of({**live, "kind": "Deployment"}))
        for key in needs_of(live):
            if not key.startswith("ConfigMap/"):
                self.objects.delete(key)

    def _delete_pods(self, pods: list[Json], grace_sec: int | None = None) -> None:
        for pod in pods:
            self.objects.kube.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], grace_sec=grace_sec)

    # --- observing, in the thread of `Observer` ---

    def _reached_generation(self, workload_id: str, deployment: Json | None, view: ClusterView) -> int:
        """The newest generation that became ready; 0 if something is missing or was edited, so that it is applied again."""
        if deployment is None:
            self._reached.pop(workload_id, None)
        elif self._is_off(workload_id, deployment) or not self._has_needs(deployment):
            self._reached[workload_id] = 0
        elif is_rolled_out(deployment) and shows_pods(deployment, view.pods.get(workload_id, [])):
            self._reached[workload_id] = generation_of(deployment)
        return self._reached.get(workload_id, 0)

    def _is_off(self, workload_id: str, deployment: Json) -> bool:
        """Whether it was edited by hand, or the last write failed."""
        edited = self.objects.cache.is_edited(object_key_of({**deployment, "kind": "Deployment"}))
        return edited or self.writer.find_failure(workload_id) is not None

    def _has_needs(self, deployment: Json) -> bool:
        return is_complete(deployment, self.objects.fit.template_hash, self.objects.cache.find_stamp)

    def _remember(self, view: ClusterView) -> None:
        pods = [pod for group in view.pods.values() for pod in group]
        for pod in pods:
            for instance, reason in ended_instances_of(pod).items():
                self.reasons.setdefault(instance, reason)
        known = {endpoint.id for pod in pods if (endpoint := endpoint_of(pod, self.answering)) is not None and not endpoint.draining}
        running = {endpoint.id for pod in pods if (endpoint := endpoint_of(pod, self.answering)) is not None}
        for instance in self._known - running:
            self.reasons.setdefault(instance, "instance was removed from the cluster")
        self._known = (self._known & running) | known
        self._served.update(dict.fromkeys(known))
        for memory in (self.reasons, self.tails, self._served):
            while len(memory) > KEPT_REASONS:
                memory.pop(next(iter(memory)))
