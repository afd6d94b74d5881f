"""Small parts that fit one room to the protocol of another."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sless import clock
from sless.domain.model import CallStatus, Run
from sless.domain.ports import AcceptedCall, Backend, Deployment, ObservedDeployment, ObservedRun, RunSpec
from sless.store import Store


@dataclass(frozen=True, slots=True)
class LockedBackend:
    """Calls of the data plane and of the reconcilers, one at a time (ports.Backend asks for that)."""

    inner: Backend
    lock: threading.RLock

    def observe(self) -> dict[str, ObservedDeployment]:
        with self.lock:
            return self.inner.observe()

    def apply(self, deployment: Deployment) -> None:
        with self.lock:
            self.inner.apply(deployment)

    def remove(self, workload_id: str) -> None:
        with self.lock:
            self.inner.remove(workload_id)

    def keep_namespaces(self, in_use: Collection[str]) -> None:
        with self.lock:
            self.inner.keep_namespaces(in_use)

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None:
        with self.lock:
            self.inner.start_run(run, done)

    def observe_runs(self) -> dict[str, ObservedRun]:
        with self.lock:
            return self.inner.observe_runs()

    def remove_run(self, run_id: str) -> None:
        with self.lock:
            self.inner.remove_run(run_id)

    def why_gone(self, endpoint_id: str) -> str | None:
        return self.inner.why_gone(endpoint_id)

    def report_unresponsive(self, endpoint_id: str) -> None:
        self.inner.report_unresponsive(endpoint_id)

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True, slots=True)
class RunQueue:
    """ports.AsyncQueue over the runs table."""

    store: Store
    wake: Callable[[str], None]

    def accept_all(self, calls: Sequence[AcceptedCall]) -> None:
        now = clock.now()
        self.store.runs.insert_all([_run_of(call, now) for call in calls])
        self.wake("runs")


def _run_of(call: AcceptedCall, now: datetime) -> Run:
    return Run(
        id=call.id, namespace=call.namespace, workload_id=call.workload_id, kind=call.kind, name=call.name, trigger=call.trigger,
        request_id=call.request_id, event=call.event, status=CallStatus.QUEUED, job_run_id=None, trigger_id=None, due_at=None,
        version=None, attempts=0, max_attempts=call.max_attempts, not_before=now, claimed_by=None, result=None, message="",
        exit_code=None, http_status=None, created_at=now, started_at=None, ended_at=None, callback_url=call.callback_url,
        request=call.request,
    )  # fmt: skip
