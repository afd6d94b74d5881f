"""Checks the health of instances in which a call timed out, and replaces those in which calls hang or which do not answer.

An unresponsive pod loses the label that its ReplicaSet selects, so that a replacement is created immediately; it is deleted once the
replacement is ready (see `observation.replaced_pods`).
"""

import http.client
import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sless.backend.health import Health
from sless.backend.kubernetes.observation import endpoint_of
from sless.domain.durations import Durations
from sless.kube import Kube, KubeError
from sless.kube.names import ROLE, ROLE_UNRESPONSIVE

Json = dict[str, Any]

_log = logging.getLogger(__name__)

TIMEOUT_SEC = 1.0
ASK_EVERY_SEC = 0.5


class UnresponsivePods:
    """Calls `ended(instance_id, reason)` as soon as an instance is known to be unresponsive."""

    def __init__(self, kube: Kube, ended: Callable[[str, str], None], durations: Durations) -> None:
        self._kube = kube
        self._durations = durations
        self._ended = ended
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="sless-kube-unresponsive")
        self._checking: set[str] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def report(self, instance_id: str, find_pod: Callable[[], Json | None]) -> None:
        """`find_pod` may block, as it is called in a thread of this object."""
        with self._lock:
            if instance_id in self._checking or self._stopping.is_set():
                return
            self._checking.add(instance_id)
        self._pool.submit(self._check, instance_id, find_pod)

    def close(self) -> None:
        self._stopping.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _check(self, instance_id: str, find_pod: Callable[[], Json | None]) -> None:
        """Top of a pool thread."""
        try:
            pod = find_pod()
            endpoint = endpoint_of(pod) if pod is not None else None
            reason = self._find_reason(endpoint.address) if endpoint is not None else None
            if reason and pod is not None:
                _log.info("instance %s: %s", instance_id, reason)
                label = {"metadata": {"labels": {ROLE: ROLE_UNRESPONSIVE}}}
                self._kube.patch("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], label)
                self._ended(instance_id, reason)
        except KubeError as error:
            _log.warning("replacing instance %s failed: %s", instance_id, error)
        finally:
            with self._lock:
                self._checking.discard(instance_id)

    def _find_reason(self, address: str) -> str | None:
        """Why the instance has to be replaced; None if it answers and no call hangs."""
        overdue_since = unresponsive_since = None
        while not self._stopping.wait(ASK_EVERY_SEC):
            now = time.monotonic()
            health = find_pod_health(address)
            unresponsive_since = None if health is not None else unresponsive_since or now
            overdue_since = None if health is not None and not health.overdue else overdue_since or now
            if unresponsive_since is not None and now - unresponsive_since >= self._durations.unresponsive_grace_sec:
                return "instance stopped answering and was replaced"
            if health is not None and overdue_since is not None and now - overdue_since >= self._durations.overdue_grace_sec:
                return "calls hung in the instance and it was replaced"
            if overdue_since is None and unresponsive_since is None:
                return None
        return None


def find_pod_health(address: str, timeout_sec: float = TIMEOUT_SEC) -> Health | None:
    """The health of an instance; None without a valid answer in time. `address` is `host:port`."""
    connection = http.client.HTTPConnection(address, timeout=timeout_sec)
    try:
        connection.request("GET", "/_sless/health", headers={"X-Sless-Control": "1", "Connection": "close"})
        answer = connection.getresponse()
        body = json.loads(answer.read(64 * 1024))
        return Health(active=int(body["active"]), overdue=int(body["overdue"])) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()
