"""How runs are concluded from their logs and pods."""

import threading
from typing import Any, cast

import pytest

from sless.backend.kubernetes.run_log import MARK, RunLogs, newest_of
from sless.backend.kubernetes.run_observation import RunState
from sless.backend.outcome import RunLimits
from sless.domain.model import CallStatus
from sless.domain.ports import ObservedRun
from sless.kube import Kube, Unavailable
from sless.kube.names import KIND, MAIN_CONTAINER

METADATA = {
    "name": "r-1",
    "namespace": "sless-fn-1",
    "labels": {KIND: "function"},
    "annotations": {},
    "creationTimestamp": "2026-01-02T03:04:05Z",
}
JOB = {"metadata": METADATA}
RUNNING = {"state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}
ENDED = {"state": {"terminated": {"exitCode": 0, "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:07Z"}}}


def test_the_newest_lines_of_a_long_log_are_read_not_counting_the_outcome() -> None:
    lines = [b"%d" % number + b"x" * 99 for number in range(100)] + [MARK + b"y" * 10_000]
    assert [line[:2] for line in newest_of(lines, 250)] == [b"98", b"99"]
    assert newest_of(lines, 2**20) == lines[:-1]


def pod_of(status: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": METADATA, "status": {"containerStatuses": [{"name": MAIN_CONTAINER, **status}]}}


class FakeKube:
    """A cluster with one pod, which does not answer at first."""

    def __init__(self, pod: dict[str, Any]) -> None:
        self.pod = pod
        self.away = 1
        self.ended_jobs: list[str] = []

    def list(self, kind: str, **_: str) -> list[dict[str, Any]]:
        if self.away:
            self.away -= 1
            raise Unavailable(0, "Unavailable", "the Kubernetes API does not answer")
        return [self.pod]

    def pod_logs(self, *_: str, **__: str) -> str:
        return MARK.decode() + '{"ok": true, "status": 200, "body": "7"}}\n'

    def patch(self, kind: str, name: str, *_: Any) -> None:
        self.ended_jobs.append(name)


@pytest.mark.parametrize(("status", "expected", "ended_jobs"), [(ENDED, CallStatus.SUCCEEDED, []), (RUNNING, CallStatus.TIMEOUT, ["r-1"])])
def test_a_run_that_ended_in_time_is_not_over_its_limit(status: dict[str, Any], expected: CallStatus, ended_jobs: list[str]) -> None:
    """While the API is frozen, the view still shows it as running."""
    kube, found, concluded = FakeKube(pod_of(status)), list[ObservedRun](), threading.Event()
    logs = RunLogs(cast(Kube, kube), RunLimits(job=1000), lambda lines: None)
    state = RunState(status=CallStatus.TIMEOUT, message="timed out after 1 s", read_log=True, end_it=True)
    logs.conclude(JOB, pod_of(RUNNING), state, lambda ended: (found.append(ended), concluded.set()))
    assert concluded.wait(20)
    logs.close()
    assert [item.status for item in found] == [expected] and kube.ended_jobs == ended_jobs
