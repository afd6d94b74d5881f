"""Adapters from one package to a protocol that another one expects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sless.domain.model import Run
from sless.domain.queue_limits import QueueLimits, QueueSizes
from sless.errors import SlessError
from sless.store import Store


@dataclass(frozen=True, slots=True)
class RunQueue:
    """ports.AsyncQueue over the runs table, with limits of what may wait there."""

    store: Store
    wake: Callable[[str], None]
    limits: QueueLimits

    def accept_all(self, runs: Sequence[Run]) -> Sequence[SlessError | None]:
        queue = QueueSizes(self.store.runs.queued_of({run.namespace for run in runs}), self.limits)
        refused = [queue.refusal_of(run) for run in runs]
        accepted = [run for run, error in zip(runs, refused, strict=True) if error is None]
        if accepted:
            self.store.runs.insert_all(accepted)
            self.wake("runs")
        return refused
