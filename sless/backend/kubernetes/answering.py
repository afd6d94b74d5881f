"""Checks the health of new pods as soon as they have an address, because the kubelet's probes are a second apart and report late.

An instance that answers gets calls at once; as soon as the kubelet has found it ready, the kubelet decides.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from sless.backend.kubernetes.observation import address_of, instance_id_of
from sless.backend.kubernetes.unresponsive import find_pod_health
from sless.backend.kubernetes.view import ClusterView
from sless.kube.pod_state import container_status_of

Json = dict[str, Any]

_ASK_SEC = 0.03
_TIMEOUT_SEC = 0.3
_REST_SEC = 1.0
"""Pause before the next check of a pod that did not even refuse the connection, so that it does not delay the others."""


class Answering:
    """Calls `changed`, in its own thread, when another pod answers."""

    def __init__(self, changed: Callable[[], None], address_of: Callable[[Json], str | None] = address_of) -> None:
        self._changed = changed
        self._address_of = address_of
        self._lock = threading.Condition()
        self._unanswered: dict[str, tuple[str, float]] = {}
        """Address and the earliest time of the next check, by instance."""
        self._answered: frozenset[str] = frozenset()
        self._ready: frozenset[str] = frozenset()
        """Instances that the kubelet has found ready."""
        self._stopping = False
        self._thread: threading.Thread | None = None

    def __contains__(self, instance_id: object) -> bool:
        return instance_id in self._answered

    def on_view(self, view: ClusterView) -> None:
        """Called in the thread of `Observer`."""
        pods = {instance_id_of(pod): pod for group in view.pods.values() for pod in group}
        self._ready = (self._ready & pods.keys()) | {key for key, pod in pods.items() if container_status_of(pod).get("ready")}
        unready = {key: address for key, pod in pods.items() if key not in self._ready and (address := self._address_of_running(pod))}
        with self._lock:
            self._answered &= unready.keys()
            self._unanswered = {
                key: (address, self._unanswered.get(key, ("", 0.0))[1]) for key, address in unready.items() if key not in self._answered
            }
            if self._unanswered and self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="sless-kube-answering", daemon=True)
                self._thread.start()
            self._lock.notify_all()

    def close(self) -> None:
        with self._lock:
            self._stopping = True
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _address_of_running(self, pod: Json) -> str | None:
        running = "running" in (container_status_of(pod).get("state") or {})
        return self._address_of(pod) if running and not pod["metadata"].get("deletionTimestamp") else None

    def _run(self) -> None:
        while not self._stopping:
            with self._lock:
                self._lock.wait_for(lambda: self._unanswered or self._stopping)
                unanswered = dict(self._unanswered)
            for instance_id, (address, not_before) in unanswered.items():
                if time.monotonic() >= not_before and not self._stopping:
                    self._ask(instance_id, address)
            time.sleep(_ASK_SEC)

    def _ask(self, instance_id: str, address: str) -> None:
        began = time.monotonic()
        answers = find_pod_health(address, _TIMEOUT_SEC) is not None
        slow = time.monotonic() - began >= _TIMEOUT_SEC
        with self._lock:
            if instance_id not in self._unanswered:
                return
            if answers:
                del self._unanswered[instance_id]
                self._answered |= {instance_id}
            elif slow:
                self._unanswered[instance_id] = (address, time.monotonic() + _REST_SEC)
        if answers:
            self._changed()
