"""The log of an ended instance comes from the right run of its container."""

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from sless.backend.kubernetes.crash_logs import CrashLogs
from sless.backend.kubernetes.observation import ended_instances_of

ENDED = {"terminated": {"exitCode": 134}}
RUNNING = {"running": {}}


def pod(state: dict[str, Any], *, restarts: int, before: dict[str, Any] | None = None) -> dict[str, Any]:
    status = {"name": "function", "restartCount": restarts, "state": state, "lastState": before or {}}
    container = {"name": "function", "resources": {"limits": {"memory": "64Mi"}}}
    metadata = {"uid": "u1", "name": "p", "namespace": "n", "labels": {}}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"containerStatuses": [status]}}


class Cluster:
    def __init__(self, now: dict[str, Any] | None) -> None:
        self.now = now

    def list(self, kind: str, *, namespace: str, fields: str) -> list[dict[str, Any]]:
        assert (kind, namespace, fields) == ("Pod", "n", "metadata.name=p")
        return [self.now] if self.now else []

    def pod_logs(self, namespace: str, name: str, *, container: str, previous: bool, tail_lines: int) -> str:
        return "of the previous run\n" if previous else "of the last run\n"


@pytest.mark.parametrize(
    ("observed", "now", "line"),
    [
        (pod(ENDED, restarts=0), pod(ENDED, restarts=0), "of the last run"),
        (pod(ENDED, restarts=0), None, "of the last run"),
        (pod(RUNNING, restarts=1, before=ENDED), pod(RUNNING, restarts=1, before=ENDED), "of the previous run"),
        # The kubelet has started the container again since the pod was observed.
        (pod(ENDED, restarts=0), pod(RUNNING, restarts=1, before=ENDED), "of the previous run"),
    ],
    ids=["ended", "gone", "restarted", "restarted-meanwhile"],
)
def test_the_log_is_read_from_the_run_that_ended(observed: dict[str, Any], now: dict[str, Any] | None, line: str) -> None:
    (instance,) = ended_instances_of(observed)
    instances: Any = SimpleNamespace(reasons={}, tails={})
    cluster: Any = Cluster(now)
    read = Event()
    logs = CrashLogs(cluster, instances, lambda *_: None, read.set)
    logs.on_view(SimpleNamespace(pods={"w": [observed]}))  # type: ignore[arg-type]
    assert read.wait(10)
    logs.close()
    assert instances.tails[instance] == (line,)
