"""Reads the logs of ended containers: the last lines for the message, all of them for the history."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sless.backend.kubernetes.instances import Instances
from sless.backend.kubernetes.observation import ended_instances_of
from sless.backend.kubernetes.view import View, label_of
from sless.domain.exits import reported
from sless.host.lines import LineReader, Sink
from sless.kube import Kube, KubeError, Unavailable
from sless.kube.names import MAIN_CONTAINER, NAMESPACE, WORKLOAD
from sless.kube.pod_state import container_status_of

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
        self._asked: dict[str, None] = {}
        self._closed = False

    def on_view(self, view: View) -> None:
        for pods in view.pods.values():
            for pod in pods:
                for instance in ended_instances_of(pod):
                    if instance not in self._asked and not self._closed:
                        self._asked[instance] = None
                        self._pool.submit(self._read, instance, pod)
        while len(self._asked) > 5_000:
            self._asked.pop(next(iter(self._asked)))

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _read(self, instance: str, pod: Json) -> None:
        """Top of a pool thread."""
        # If the container runs again, or waits to, the ended one is its previous run.
        previous = "terminated" not in (container_status_of(pod).get("state") or {})
        try:
            text = self._kube.pod_logs(
                pod["metadata"]["namespace"], pod["metadata"]["name"], container=MAIN_CONTAINER, previous=previous, tail_lines=TAIL_LINES
            )
        except Unavailable:
            self._asked.pop(instance, None)
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
