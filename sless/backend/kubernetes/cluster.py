"""KubernetesBackend: puts the modules of this package behind ports.Backend."""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sless.backend.kubernetes.answering import Answering
from sless.backend.kubernetes.crash_logs import CrashLogs
from sless.backend.kubernetes.fit import fit_of
from sless.backend.kubernetes.instances import Instances, Objects
from sless.backend.kubernetes.observation import instance_id_of
from sless.backend.kubernetes.observer import Observer
from sless.backend.kubernetes.run_log import CALL_RESULT_BYTES, RunLogs
from sless.backend.kubernetes.runs import KubernetesRuns
from sless.backend.kubernetes.tenants import TenantNamespaces
from sless.backend.kubernetes.unresponsive import UnresponsivePods
from sless.backend.kubernetes.view import ClusterView, ObjectCache
from sless.backend.kubernetes.writer import Writer
from sless.backend.outcome import RunLimits
from sless.config import Settings
from sless.domain.durations import Durations
from sless.domain.ports import BackendUnavailable, CodeStore, Deployment, ObservedDeployment, ObservedRun, RunSpec
from sless.host.lines import Sink
from sless.kube import Kube
from sless.kube.tenant import tenant_policy_of

_log = logging.getLogger(__name__)

SOURCE_ROUNDS = 4
"""The pull secret is not watched, but read in every fourth round of the clean-up."""
WHY_AGE_SEC = 0.1
WHY_WAIT_SEC = 2.0
"""How long a failed call waits for the cluster's reason; the kubelet needs about a second."""
CRASH_LOG_SEC = 0.5
CRASH_POLL_SEC = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterParts:
    """`installation` is the id in the labels of all objects."""

    settings: Settings
    kube: Kube
    installation: str
    code: CodeStore
    on_lines: Sink
    changed: Callable[[], None]
    durations: Durations = field(default_factory=Durations)


class KubernetesBackend:
    """See ports.Backend. Each replica has one; only the leader calls `observe`, `apply`, `remove` and `keep_namespaces`."""

    def __init__(self, given: ClusterParts) -> None:
        """Raises ConfigError. Makes no API request until a method needs one."""
        kube = given.kube
        self._changed_outside = given.changed
        cache, durations = ObjectCache(given.installation), given.durations
        self._tenants = TenantNamespaces(kube, tenant_policy_of(given.settings, given.installation), cache, durations.empty_namespace_sec)
        objects = Objects(
            kube=kube, fit=fit_of(given.settings, given.installation), cache=cache, tenants=self._tenants, code=given.code,
            durations=durations,
        )  # fmt: skip
        self._objects = objects
        self._writer = Writer(self._wrote, durations.flush_sec)
        self._answering = Answering(self._wrote)
        self._instances = Instances(objects=objects, writer=self._writer, answering=self._answering)
        limits = RunLimits(job=given.settings.max_result_bytes, call=CALL_RESULT_BYTES)
        self._logs = RunLogs(kube, limits, given.on_lines)
        self._runs = KubernetesRuns(objects, self._writer, self._logs, given.changed)
        self._crashes = CrashLogs(kube, self._instances, given.on_lines, self._wrote)
        self._unresponsive = UnresponsivePods(kube, self._replaced, durations)
        self._observer = Observer(kube, cache, durations, on_view=self._on_view, on_cache=self._on_cache)
        self._in_use: frozenset[str] = frozenset()
        self._view = ClusterView()
        self._rounds = 0
        self._closed = False
        self._observer.start()

    def observe(self) -> dict[str, ObservedDeployment]:
        self._observer.view(leading=True)
        return self._instances.observed

    def apply(self, deployment: Deployment) -> None:
        self._observer.view(leading=True)
        self._instances.apply(deployment)
        if self._writer.is_busy():
            self._observer.active()

    def remove(self, workload_id: str) -> None:
        self._instances.remove(workload_id, self._observer.view(leading=True))
        self._observer.active()

    def keep_namespaces(self, in_use: Collection[str]) -> None:
        self._in_use = frozenset(in_use)

    def ensure_namespace(self, namespace: str) -> None:
        """Ensures a tenant's namespace, for the builder. Makes no request if it is complete. Raises KubeError."""
        self._tenants.ensure_present(namespace)

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None:
        if self._closed:
            raise BackendUnavailable("the server is stopping")
        self._runs.start(run, done, self._find_view())
        self._observer.active()

    def observe_runs(self) -> dict[str, ObservedRun]:
        return self._runs.observe(self._observer.view())

    def remove_run(self, run_id: str) -> None:
        self._runs.remove(run_id, self._find_view())

    def why_gone(self, endpoint_id: str) -> str | None:
        if endpoint_id not in self._instances.reasons:
            self._observer.refresh(WHY_AGE_SEC, WHY_WAIT_SEC)
        self._await_crash_log(endpoint_id)
        return self._instances.reasons.get(endpoint_id)

    def _await_crash_log(self, endpoint_id: str) -> None:
        """Waits for the log, which is read a moment later, because an exit code alone does not name a panic."""
        end = time.monotonic() + CRASH_LOG_SEC
        while self._instances.reasons.get(endpoint_id, "").startswith("function ") and endpoint_id not in self._instances.tails:
            if time.monotonic() >= end:
                return
            time.sleep(CRASH_POLL_SEC)

    def report_unresponsive(self, endpoint_id: str) -> None:
        """Called on any replica, including those that do not observe the cluster otherwise."""
        self._unresponsive.report(endpoint_id, lambda: self._find_pod(endpoint_id))

    def close(self) -> None:
        """Leaves pods running, which the next server finds."""
        if self._closed:
            return
        self._closed = True
        self._observer.close()
        for worker in (self._writer, self._logs, self._crashes, self._unresponsive, self._answering):
            worker.close()
        self._objects.kube.close()

    # --- from other threads ---

    def _find_pod(self, endpoint_id: str) -> dict[str, Any] | None:
        self._observer.refresh(WHY_WAIT_SEC, WHY_WAIT_SEC)
        pods = (pod for group in self._view.pods.values() for pod in group)
        return next((pod for pod in pods if instance_id_of(pod) == endpoint_id), None)

    def _find_view(self) -> ClusterView | None:
        try:
            return self._observer.view()
        except BackendUnavailable:
            return None

    def _wrote(self) -> None:
        """Evaluates the cluster again after a write or a refusal."""
        self._observer.active()

    def _replaced(self, instance_id: str, reason: str) -> None:
        self._instances.reasons[instance_id] = reason
        self._observer.active()

    def _on_view(self, view: ClusterView) -> None:
        self._view = view
        self._answering.on_view(view)
        changed = self._instances.on_view(view)
        self._crashes.on_view(view)
        self._runs.on_view(view)
        if self._observer.is_leading():
            self._instances.drop_unresponsive(view)
            self._instances.replace_crashed(view)
        if changed or self._runs.is_busy():
            self._observer.active_soon()
        if changed:
            self._changed_outside()

    def _on_cache(self, view: ClusterView) -> None:
        """Cleans up, on the leader."""
        self._rounds += 1
        if self._rounds % SOURCE_ROUNDS == 1:
            self._tenants.read_source()
        for namespace in self._tenants.outdated(self._in_use):
            self._writer.put(f"tenant:{namespace}", partial(self._tenants.ensure, namespace))
        for cached in (*self._instances.orphans(view), *self._runs.orphans(view)):
            _log.info("removing %s: no longer used", cached.key)
            self._writer.put(f"orphan:{cached.key}", partial(self._objects.delete, cached.key))
        homes = {item["metadata"]["namespace"] for item in (*view.deployments.values(), *view.jobs.values(), *view.run_pods.values())}
        homes |= {pod["metadata"]["namespace"] for pods in view.pods.values() for pod in pods}
        for cached in self._tenants.unused(self._in_use, lambda name: name in homes):
            _log.info("removing namespace %s: empty", cached.name)
            self._writer.put(f"namespace:{cached.name}", partial(self._tenants.remove, cached))
