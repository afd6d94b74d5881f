"""Adapters from one package to a protocol of another."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING
from wsgiref.types import WSGIApplication

from sless import ids
from sless.app.database import database_url_of
from sless.asgi.overviews import ReadOverview
from sless.children import command_of
from sless.config import Settings, passed_on
from sless.domain.durations import Durations
from sless.domain.limits import defaults_of, limits_of
from sless.domain.model import Run
from sless.domain.queue_limits import QueueSizes
from sless.errors import SlessError
from sless.host.memory import machine_memory_mb
from sless.proxy.history_child import Writer, link_to_child
from sless.proxy.plane import DataPlane
from sless.proxy.recorder import MakeLink
from sless.reconcile.leader import Leader
from sless.reconcile.limit_notices import LimitNotices
from sless.reconcile.loop import Loop
from sless.reconcile.runs import RunsLoopLimits
from sless.reconcile.scaler import Scaler
from sless.reconcile.tenant_use import TenantUseLoop
from sless.store import Store, history_process
from sless.tokens import TokenVerifier
from sless.usecases import Usecases

if TYPE_CHECKING:
    from sless.kube import Kube


def tenant_loops(store: Store, plane: DataPlane, leader: Leader, durations: Durations) -> list[Loop]:
    """Loops on every replica for the limits of tenants. With SQLite, which has one server, there is no use by others."""
    notices = LimitNotices(store=store, noted=plane.limits_reached)
    limits = Loop(topic="limits", tick=notices.tick, interval_sec=durations.tick_sec, leader_only=False)
    if store.database.is_sqlite:
        return [limits]

    def charge(calls: Mapping[str, int]) -> None:
        if plane.loop is not None and plane.loop.is_running():
            plane.loop.call_soon_threadsafe(plane.routes.charge, calls)

    use = TenantUseLoop(
        store=store, holder=store.holder, is_leader=leader.is_leader, calls=plane.routes.calls, runs=plane.run_room.own,
        charge=charge, set_runs=plane.run_room.set_others, durations=durations,
    )  # fmt: skip
    return [limits, Loop(topic="tenant use", tick=use.tick, interval_sec=durations.demand_sec, leader_only=False)]


def run_limits_of(settings: Settings) -> RunsLoopLimits:
    return RunsLoopLimits(
        max_runs=settings.max_runs, per_workload=settings.async_per_function, result_bytes=settings.max_result_bytes,
        of_tenants=defaults_of(settings),
    )  # fmt: skip


def scaler_of(settings: Settings, durations: Durations, runs_mb: Callable[[str], int]) -> Scaler:
    """Local instances share the memory of this machine; those in a cluster are on other machines."""
    memory_mb = None if settings.backend == "kubernetes" else settings.max_memory_mb or machine_memory_mb() * 4 // 5
    return Scaler(durations=durations, most=settings.max_instances, memory_mb=memory_mb, limits=defaults_of(settings), runs_mb=runs_mb)


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
    # Calls do not need these: a server is ready 0.3 s sooner if they are imported afterwards.
    from sless.http import create_app

    import_module("sless.tokens.signatures")  # so that the first token does not wait for it
    return create_app(usecases, verifier, settings)


_PASSED_ON = ("HOME", "LANG", "LC_*", "LD_LIBRARY_PATH", "PG*", "SSL_*", "TMPDIR", "TZ")
"""Variables read by Python, SQLite and PostgreSQL's library."""


def history_link(settings: Settings, holder: str) -> MakeLink:
    """Call this before anything starts a thread, because it forks this process if it can."""
    order = {"database_url": database_url_of(settings), "holder": holder, "session": ids.new_id(), "log_level": settings.log_level}
    writer = Writer(history_process.main, command_of(history_process.__name__), passed_on(_PASSED_ON))
    return link_to_child(writer, json.dumps(order).encode())
