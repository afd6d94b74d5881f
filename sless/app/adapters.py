"""Small parts that fit one room to the protocol of another."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sless.domain.model import Run
from sless.domain.ports import Backend, Deployment, ObservedDeployment, ObservedRun, RunSpec
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

    def accept_all(self, runs: Sequence[Run]) -> None:
        self.store.runs.insert_all(runs)
        self.wake("runs")
