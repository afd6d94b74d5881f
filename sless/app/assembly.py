"""Creates and connects all parts of one worker process. Wiring only; rules are elsewhere."""

import logging
import os
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from time import monotonic

from sless import ids, metrics
from sless.app.adapters import RunQueue, connect_kube, history_link, make_flask, overview_reader, run_limits_of, scaler_of, tenant_loops
from sless.app.database import holder_of, open_encrypted
from sless.app.lifecycle import Later, run_steps
from sless.asgi import Application, ApplicationParts
from sless.backend import make_local_backend
from sless.builder.local import make_local_builder
from sless.code import open_code_store
from sless.code.contexts import FolderContextStore, open_context_store
from sless.config import Settings
from sless.domain.durations import Durations
from sless.domain.limits import defaults_of
from sless.domain.model import LogLine, Version
from sless.domain.ports import Backend, Builder, CodeStore
from sless.host.disk import is_full
from sless.host.material import Material, MaterialKey
from sless.outbound import outbound_of
from sless.proxy.plane import DataPlane, PlaneParts
from sless.reconcile.builds import BuildsLoop
from sless.reconcile.callbacks import CallbacksLoop
from sless.reconcile.collect import Collector
from sless.reconcile.cron import TICK_SEC, CronLoop
from sless.reconcile.decide import IMPORTS_AT_ONCE
from sless.reconcile.demand import DemandLoop
from sless.reconcile.events import EventsLoop, Listeners
from sless.reconcile.failures import ERRORS_SEC, note_failure
from sless.reconcile.instances import InstancesLoop
from sless.reconcile.leader import Leader
from sless.reconcile.loop import Loop, Loops
from sless.reconcile.outbox import NoticeOutbox
from sless.reconcile.runs import REST_SEC as RUNS_REST_SEC
from sless.reconcile.runs import RunsLoop
from sless.store import Signals
from sless.tokens import RevokedTokens, TokenVerifier
from sless.usecases import Usecases
from sless.validators import make_validator

_log = logging.getLogger(__name__)

MakeBackend = Callable[[Callable[[], None]], Backend]
"""Takes `changed`, which the backend calls when its observations change."""


@dataclass(frozen=True, slots=True)
class _RequestWaker:
    """ports.Waker of the use cases. Makes sure that the URL of a new trigger works once the request that creates it is answered."""

    assembly: "Assembly"

    def wake(self, topic: str) -> None:
        if topic == "routes":
            self.assembly.plane.routes.sync(self.assembly.durations.routes_sec)
        else:
            self.assembly.wake(topic)


class Assembly:
    """All parts of one worker. They refer to each other in a circle (the backend wakes the loops, which drive the backend), which the
    methods of this object close. They are only called once all parts exist."""

    def __init__(self, settings: Settings, make_backend: MakeBackend | None, durations: Durations) -> None:
        self.settings = settings
        self.durations = durations
        self.holder = holder_of(settings.data_dir)
        history = history_link(settings, self.holder)  # first, because it forks
        self.store = open_encrypted(settings, holder=self.holder)
        self.code: CodeStore = open_code_store(settings)
        self.material = Material(settings.data_dir, self.code)
        self.kube = connect_kube(settings) if settings.backend == "kubernetes" else None
        self.installation = self.store.meta_ensure("installation", ids.new_id(8)) if self.kube else ""
        self._ensure_namespace: Callable[[str], None] | None = None
        make = make_backend or (self._make_kubernetes if self.kube else self._make_local)
        self.backend: Backend = make(self._changed)
        self.contexts = open_context_store(settings, self.installation) if self.kube else None
        self.builder: Builder = self._make_builder()
        self.plane = DataPlane(
            settings,
            PlaneParts(
                routes=self.store.routes,
                history=history,
                queue=RunQueue(self.store, self.wake, defaults_of(settings)),
                backend=self.backend,
                demand_changed=lambda: self.demand.changed(),
                instances_mb=self._instances_mb,
                pull_logs=self.kube is not None,  # the local backend gets all lines through pipes
            ),
        )
        self.validator = make_validator(settings, self.store.verdicts)
        self.leader = Leader(self.store, self.holder, durations=durations)
        self.loops = self._make_loops()
        self.signals = Signals(self.store.database, self.wake)
        self.stopping = threading.Event()

    def application(self) -> Application:
        revoked = RevokedTokens(self.store.revocations.ids)
        verifier = TokenVerifier(self.settings, is_revoked=revoked.__contains__)
        usecases = Usecases(
            settings=self.settings,
            store=self.store,
            code=self.code,
            waker=_RequestWaker(self),
            freshen_logs=self.plane.freshen_logs,
            waiting_calls=self.plane.waiting.depth,
            routes_settled=self._routes_settled,
            tokens_revoked=revoked.forget,
            validator=self.validator,
            installation=self.installation,
        )
        flask = Later(lambda: make_flask(usecases, verifier, self.settings))
        parts = ApplicationParts(
            plane=self.plane,
            verifier=verifier,
            flask=flask,
            afterwards=flask.load,
            follow_logs=usecases.follow_logs,
            follow_build=usecases.follow_build,
            find_unready=self._find_unready,
            start=self._start,
            stop=self._stop,
            drain=self._drain,
            read_overview=overview_reader(usecases, self.settings),
            find_context=self.contexts.get_path if isinstance(self.contexts, FolderContextStore) else None,
            durations=self.durations,
        )
        return Application(self.settings, parts)

    def _routes_settled(self) -> bool:
        return self.plane.routes.revision >= self.store.routes.revision() or self.plane.routes.sync(self.durations.routes_sec)

    def wake(self, topic: str) -> None:
        """ports.Waker. Routes have their own polling thread; everything else is a loop."""
        if topic == "routes":
            self.plane.routes.wake()
        else:
            self.loops.wake(topic)

    def _make_builder(self) -> Builder:
        if self.kube is None or self.contexts is None:
            return make_local_builder(self.settings, self.material, durations=self.durations)
        # Imported here, because it imports an HTTP client that a server without a cluster does not need.
        from sless.builder.kubernetes import make_kubernetes_builder

        return make_kubernetes_builder(
            self.settings, self.kube, self.installation, self.code, self.contexts, durations=self.durations,
            ensure_namespace=self._ensure_namespace,
        )  # fmt: skip

    def _make_local(self, changed: Callable[[], None]) -> Backend:
        return make_local_backend(self.settings, self.material, self._on_lines, changed, durations=self.durations)

    def _make_kubernetes(self, changed: Callable[[], None]) -> Backend:
        from sless.backend.kubernetes import ClusterParts, KubernetesBackend

        assert self.kube is not None
        backend = KubernetesBackend(
            ClusterParts(
                settings=self.settings, kube=self.kube, installation=self.installation, code=self.code, on_lines=self._on_lines,
                changed=changed, durations=self.durations,
            )
        )  # fmt: skip
        self._ensure_namespace = backend.ensure_namespace
        return backend

    def _on_lines(self, lines: list[LogLine]) -> None:
        self.plane.recorder.add_lines(lines)

    def _changed(self) -> None:
        self.instances.changed()

    def _make_loops(self) -> Loops:
        builds = BuildsLoop(
            store=self.store,
            builder=self.builder,
            waker=self,
            holder=self.holder,
            at_once=self.settings.builds_at_once,
            imports_at_once=IMPORTS_AT_ONCE if self.kube else max(self.settings.builds_at_once, os.cpu_count() or 1),
            limits=defaults_of(self.settings),
        )
        self.runs = self._make_runs()
        self.demand = DemandLoop(
            store=self.store, waker=self, holder=self.holder, is_leader=self.leader.is_leader, own=lambda: self.plane.demand.loads(),
            durations=self.durations,
        )  # fmt: skip
        self.instances = self._make_instances(lambda: builds.holds() | self.runs.holds())
        self.cron = CronLoop(store=self.store, waker=self)
        outbound = outbound_of(self.settings.outbound_allow)
        self.callbacks = CallbacksLoop(store=self.store, outbound=outbound, waker=self)
        self.notices = CallbacksLoop(store=self.store, outbound=outbound, waker=self, outbox=NoticeOutbox(self.store))
        self.events = EventsLoop(
            store=self.store,
            settings=self.settings,
            listeners=Listeners(outbound, self.plane.messages),
            is_leader=self.leader.is_leader,
            loop=lambda: self.plane.loop,
        )
        collector = self._make_collector()
        tick_sec = self.durations.tick_sec
        return Loops(
            [
                Loop(topic="leader", tick=self._lead, interval_sec=self.durations.lease_check_sec, leader_only=False),
                Loop(topic="builds", tick=builds.tick, interval_sec=tick_sec),
                Loop(topic="demand", tick=self.demand.tick, interval_sec=self.durations.demand_sec, leader_only=False),
                Loop(topic="instances", tick=self.instances.tick, interval_sec=tick_sec),
                Loop(topic="runs", tick=self.runs.tick, interval_sec=tick_sec, rest_sec=RUNS_REST_SEC),
                Loop(topic="callbacks", tick=self.callbacks.tick, interval_sec=tick_sec),
                Loop(topic="notices", tick=self.notices.tick, interval_sec=tick_sec),
                Loop(topic="events", tick=self.events.tick, interval_sec=tick_sec, leader_only=False),
                Loop(topic="cron", tick=self.cron.tick, interval_sec=TICK_SEC),
                Loop(topic="collect", tick=collector.tick, interval_sec=self.durations.collect_sec),
                Loop(topic="prune", tick=collector.prune, interval_sec=self.durations.prune_sec),
                Loop(topic="errors", tick=self.store.reconcile_errors.write, interval_sec=ERRORS_SEC, leader_only=False),
                *tenant_loops(self.store, self.plane, self.leader, self.durations),
            ],
            self.leader.is_leader,
            partial(note_failure, self.store),
        )

    def _make_instances(self, held: Callable[[], set[str]]) -> InstancesLoop:
        return InstancesLoop(
            store=self.store, backend=self.backend, code=self.code, waker=self, held=held, loads=self.demand.loads,
            scaler=scaler_of(self.settings, self.durations, self.plane.run_room.claimed_mb),
        )  # fmt: skip

    def _instances_mb(self, namespace: str) -> int:
        return self.instances.memory_mb.get(namespace, 0) if self.leader.is_leader() else 0

    def _make_runs(self) -> RunsLoop:
        return RunsLoop(
            store=self.store, backend=self.backend, invoker=self.plane.invoker, waker=self, holder=self.holder,
            room=self.plane.run_room, limits=run_limits_of(self.settings),
        )  # fmt: skip

    def _make_collector(self) -> Collector:
        return Collector(
            store=self.store,
            code=self.code,
            builder=self.builder,
            settings=self.settings,
            sweep=self._sweep,
            stopping=lambda: self.stopping.is_set(),
        )

    def _lead(self) -> None:
        if self.leader.keep():
            self.instances.lead()
            for topic in ("builds", "instances", "runs", "cron", "events"):
                self.wake(topic)
        elif not self.leader.is_leader():
            metrics.clear_leader_metrics()
            self.runs.release_runs()

    def _sweep(self, kept: Collection[Version]) -> None:
        """Removes unpacked code of removed versions."""
        self.material.collect({MaterialKey(code_key=item.code_key, artifact=item.artifact, runtime=item.runtime) for item in kept})

    def _find_unready(self) -> str | None:
        self.store.ping()
        return "the disk of the data folder is full" if is_full(self.settings.data_dir) else None

    def _start(self) -> None:
        self.leader.renew()
        self.loops.start()
        self.signals.start()

    def _drain(self) -> None:
        """Waits for messages and runs. Messages that are not done in time are requeued; the next leader restarts asynchronous calls."""
        deadline = monotonic() + max(1.0, self.settings.graceful_timeout_sec - self.durations.drain_margin_sec)
        run_steps(
            self.runs.stop_starting,
            lambda: self.events.stop(deadline - monotonic()),
            lambda: self.runs.drain(max(0.0, deadline - monotonic())),
        )

    def _count_uptime(self) -> None:
        if self.leader.is_leader():  # else another server counts
            self.instances.stop()

    def _stop(self) -> None:
        self.stopping.set()
        run_steps(
            self.signals.stop, self.loops.stop, self.callbacks.stop, self.notices.stop,
            self._count_uptime, self.cron.stop, self.builder.close, self.backend.close, self.leader.resign,
            self.store.close,
        )  # fmt: skip
