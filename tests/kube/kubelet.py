"""Scheduler and kubelet of the only node."""

import itertools
import socket
from collections.abc import Callable
from typing import Any

from tests.kube import admission
from tests.kube.conditions import condition, with_condition
from tests.kube.errors import Refused
from tests.kube.images import known_images
from tests.kube.pods import CRASH_BACKOFF_SEC, Node, PodWorker
from tests.kube.quantity import value_of
from tests.kube.registry import Object
from tests.kube.scripts import Script, take_script

NODE = "node-1"
LOCK_PORT = 61999
NODE_OBJECT: Object = {
    "apiVersion": "v1", "kind": "Node",
    "metadata": {"name": NODE, "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": NODE}},
    "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "1000"}, "conditions": [{"type": "Ready", "status": "True"}]},
}  # fmt: skip


class Addresses:
    """A loopback network per stand-in, 127.N.0.0/16, so that Pods of concurrent test runs can listen on the same port."""

    def __init__(self) -> None:
        for second in range(10, 250):
            self._lock = socket.socket()
            try:
                self._lock.bind((f"127.{second}.255.254", LOCK_PORT))
            except OSError:
                self._lock.close()
                continue
            self._numbers = itertools.count(1)
            self._second = second
            return
        raise RuntimeError("no loopback network is free: 240 stand-ins run")

    def next(self) -> str:
        number = next(self._numbers) % 60_000 + 1
        return f"127.{self._second}.{number // 250}.{number % 250 + 1}"


class Kubelet:
    def __init__(self, node: Node, failed: Callable[[str], None]) -> None:
        self.node, self.failed = node, failed
        self.scripts: list[Script] = []
        self.workers: dict[str, PodWorker] = {}
        self._waiting: dict[str, Object] = {}
        self._addresses = Addresses()
        node.registry.listeners.append(self._on)

    def _on(self, event: str, item: Object, _old: Object | None) -> None:
        if item["kind"] != "Pod":
            return
        uid = item["metadata"]["uid"]
        if event == "ADDED":
            self._schedule(item)
        elif event == "DELETED":
            self._waiting.pop(uid, None)
            worker = self.workers.pop(uid, None)
            if worker is not None and worker.end is None:
                worker.abort()
            # A waiting Pod may fit now.
            for pod in list(self._waiting.values()):
                self._schedule(pod)
        elif item["metadata"].get("deletionTimestamp") and uid in self.workers:
            self.workers[uid].stop(item["metadata"].get("deletionGracePeriodSeconds", 0))

    def _schedule(self, pod: Object) -> None:
        script = take_script(self.scripts, pod)
        problem = (script.message or "1 Insufficient cpu") if script and script.act == "unschedulable" else self._problem_of(pod)
        if problem:
            text = (
                f"0/1 nodes are available: {problem}. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
            )
            self._waiting[pod["metadata"]["uid"]] = pod
            conditions = (pod.get("status") or {}).get("conditions") or []
            new = condition("PodScheduled", False, "Unschedulable", text)
            pod = self.node.registry.write_status(pod, {"phase": "Pending", "conditions": with_condition(conditions, new)})
            self.node.registry.record_event(pod, "Warning", "FailedScheduling", text)
            return
        self._waiting.pop(pod["metadata"]["uid"], None)
        pod = self.node.registry.write_spec(pod, nodeName=NODE)
        self.workers[pod["metadata"]["uid"]] = PodWorker(self.node, pod, script, self._addresses.next())

    def _problem_of(self, pod: Object) -> str:
        """Why the Pod does not fit on the node."""
        node = self.node.registry.get("Node", "", NODE)
        labels = node["metadata"].get("labels") or {}
        if any(labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
            return "1 node(s) didn't match Pod's node affinity/selector"
        others = [one for one in self.node.registry.items("Pod") if one["spec"].get("nodeName") == NODE]
        for key in ("cpu", "memory"):
            requested = admission.usage_of(pod)[f"requests.{key}"]
            used = sum(admission.usage_of(one).get(f"requests.{key}", 0) for one in others)
            if requested and used + requested > value_of(node["status"]["allocatable"][key]):
                return f"1 Insufficient {key}"
        return ""

    def read_log(self, pod: Object, query: dict[str, str]) -> Any:
        """Bytes, or an async iterator with `follow`. Raises Refused."""
        name = pod["metadata"]["name"]
        known = [one["name"] for one in admission.containers_of(pod["spec"])]
        container = query.get("container") or (known[0] if len(known) == 1 else "")
        if not container:
            raise Refused(400, f"a container name must be specified for pod {name}, choose one of: [{' '.join(known)}]")
        if container not in known:
            raise Refused(400, f"container {container} is not valid for pod {name}")
        worker = self.workers.get(pod["metadata"]["uid"])
        logs = worker.logs[container] if worker is not None else []
        if query.get("previous") == "true":
            # While the container waits for its restart, its last run counts as the previous one.
            state = next((one for one in worker.state.main if one.name == container), None) if worker else None
            if logs and state is not None and not state.running_since and state.ended is None:
                return logs[-1].read(query)
            if len(logs) < 2:
                raise Refused(400, f'previous terminated container "{container}" in pod "{name}" not found')
            return logs[-2].read(query)
        if not logs:
            reason = self._waiting_reason(pod, container)
            raise Refused(400, f'container "{container}" in pod "{name}" is waiting to start: {reason}')
        return logs[-1].follow(query) if query.get("follow") == "true" else logs[-1].read(query)

    @staticmethod
    def _waiting_reason(pod: Object, container: str) -> str:
        for status in (pod.get("status") or {}).get("containerStatuses") or []:
            if status["name"] == container:
                return str((status["state"].get("waiting") or {}).get("reason", "ContainerCreating"))
        return "ContainerCreating"

    def reset(self) -> None:
        """Ends every container and clears all scripts."""
        for worker in list(self.workers.values()):
            worker.abort()
        self.workers.clear()
        self._waiting.clear()
        self.scripts.clear()
        self.node.images = known_images()
        self.node.crash_backoff_sec, self.node.sandbox_sec = CRASH_BACKOFF_SEC, 0.0
