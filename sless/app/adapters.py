"""Adapters from one package to a protocol that another one expects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sless.domain.limits import limits_of
from sless.domain.model import Run
from sless.domain.queue_limits import QueueSizes
from sless.errors import SlessError
from sless.store import Store


@dataclass(frozen=True, slots=True)
class RunQueue:
    """ports.AsyncQueue over the runs table, with limits of what may wait there."""

    store: Store
    wake: Callable[[str], None]
    limits: Mapping[str, int]
    """The defaults of tenants."""

    def accept_all(self, runs: Sequence[Run]) -> Sequence[SlessError | None]:
        own = self.store.tenants.set_limits_of_all()
        queued = self.store.runs.queued_of({run.namespace for run in runs})
        queue = QueueSizes(queued, lambda namespace: limits_of(self.limits, own.get(namespace, {})))
        refused = [queue.refusal_of(run) for run in runs]
        accepted = [run for run, error in zip(runs, refused, strict=True) if error is None]
        if accepted:
            self.store.runs.insert_all(accepted)
            self.wake("runs")
        return refused
