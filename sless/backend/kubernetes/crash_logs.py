"""Reads the logs of ended containers: the last lines for the message, all of them for the history."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sless.backend.kubernetes.instances import Instances
from sless.backend.kubernetes.observation import ended_instances_of
from sless.backend.kubernetes.view import ClusterView, label_of
from sless.domain.exits import reported
from sless.host.lines import LineReader, Sink
from sless.kube import Kube, KubeError, Unavailable
from sless.kube.names import MAIN_CONTAINER, NAMESPACE, WORKLOAD
from sless.kube.pod_state import container_status_of, restarts_of

Json = dict[str, Any]

_log = logging.getLogger(__name__)

TAIL_LINES = 500
THREADS = 2


class CrashLogs:
    """Reads each ended container's log once. Calls `changed` after each."""

    def __init__(self, kube: Kube, instances: Instances, sink: Sink, changed: Callable[[], None]) -> None:
        self._kube = kube
        self._instances = instances
        self._sink = sink
        self._changed = changed
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="sless-kube-crashes")
        self._requested: dict[str, None] = {}
        self._closed = False

    def on_view(self, view: ClusterView) -> None:
        for pods in view.pods.values():
            for pod in pods:
                for instance in ended_instances_of(pod):
                    if instance not in self._requested and not self._closed:
                        self._requested[instance] = None
                        self._pool.submit(self._read, instance, pod)
        while len(self._requested) > 5_000:
            self._requested.pop(next(iter(self._requested)))

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _read(self, instance: str, pod: Json) -> None:
        """Top of a pool thread."""
        try:
            text = self._text_of(pod)
        except Unavailable:
            self._requested.pop(instance, None)
            return
        except KubeError as error:
            _log.debug("no log of %s: %s", instance, error)
            text = ""
        reader = LineReader(instance, label_of(pod, WORKLOAD), self._sink, namespace=label_of(pod, NAMESPACE))
        reader.take("stdout", text.encode().splitlines())
        reason = self._instances.reasons.get(instance)
        if reason:
            self._instances.reasons[instance] = reported(reason, reader.crash)
        self._instances.tails[instance] = tuple(reader.tail())
        self._changed()

    def _text_of(self, pod: Json) -> str:
        """Raises KubeError."""
        # If the container runs again, or waits to, the ended one is its previous run.
        if "terminated" not in (container_status_of(pod).get("state") or {}):
            return self._log_of(pod, previous=True)
        text = self._log_of(pod, previous=False)
        return self._log_of(pod, previous=True) if self._has_restarted(pod) else text

    def _log_of(self, pod: Json, *, previous: bool) -> str:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        return self._kube.pod_logs(namespace, name, container=MAIN_CONTAINER, previous=previous, tail_lines=TAIL_LINES)

    def _has_restarted(self, pod: Json) -> bool:
        """Since the pod was observed, so that the log may be that of the next run."""
        found = self._kube.list("Pod", namespace=pod["metadata"]["namespace"], fields=f"metadata.name={pod['metadata']['name']}")
        return any(restarts_of(now) > restarts_of(pod) for now in found)
