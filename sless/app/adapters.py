"""Adapters from one package to a protocol of another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from wsgiref.types import WSGIApplication

from sless.asgi.overviews import ReadOverview
from sless.config import Settings
from sless.domain.durations import Durations
from sless.domain.limits import defaults_of, limits_of
from sless.domain.model import Run
from sless.domain.queue_limits import QueueSizes
from sless.errors import SlessError
from sless.host.memory import machine_memory_mb
from sless.reconcile.scaler import Scaler
from sless.store import Store
from sless.tokens import TokenVerifier
from sless.usecases import Usecases

if TYPE_CHECKING:
    from sless.kube import Kube


def scaler_of(settings: Settings, durations: Durations) -> Scaler:
    """Local instances share the memory of this machine; those in a cluster are on other machines."""
    memory_mb = None if settings.backend == "kubernetes" else settings.max_memory_mb or machine_memory_mb() * 4 // 5
    return Scaler(durations=durations, most=settings.max_instances, memory_mb=memory_mb, limits=defaults_of(settings))


@dataclass(frozen=True, slots=True)
class RunQueue:
    """ports.AsyncQueue over the table of runs, with limits on waiting calls."""

    store: Store
    wake: Callable[[str], None]
    limits: Mapping[str, int]
    """Default limits of tenants."""

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


def connect_kube(settings: Settings) -> "Kube":
    # Imported here, because a server without a cluster starts faster without it.
    from sless.kube import Kube

    return Kube.connect(settings)


def overview_reader(usecases: Usecases, settings: Settings) -> ReadOverview:
    def read(namespace: str) -> dict[str, str]:
        # Imported here, because it imports Flask, which calls do not need.
        from sless.http.overview import overview_texts

        return overview_texts(usecases, settings, namespace)

    return read


def make_flask(usecases: Usecases, verifier: TokenVerifier, settings: Settings) -> WSGIApplication:
    # Calls do not need it: a server is ready 0.3 s sooner if it is imported afterwards.
    from sless.http import create_app

    return create_app(usecases, verifier, settings)
