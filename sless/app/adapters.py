"""Adapters from one package to a protocol that another one expects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sless.domain.model import Run
from sless.store import Store


@dataclass(frozen=True, slots=True)
class RunQueue:
    """ports.AsyncQueue over the runs table."""

    store: Store
    wake: Callable[[str], None]

    def accept_all(self, runs: Sequence[Run]) -> None:
        self.store.runs.insert_all(runs)
        self.wake("runs")
