"""The composition root: the only module that knows which parts are real. Everything here is wiring; rules live elsewhere."""

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from sless import clock, ids
from sless.asgi import Application, Parts
from sless.backend import make_local_backend
from sless.build import make_local_builder
from sless.code import open_code_store
from sless.config import Settings
from sless.domain.model import CallStatus, LogLine, Run, Version
from sless.domain.ports import AcceptedCall, Backend, Builder, CodeStore, Deployment, ObservedDeployment, ObservedRun, RunSpec
from sless.errors import ConfigError, SlessError
from sless.host.material import Material, MaterialKey
from sless.http import create_app
from sless.proxy.plane import DataPlane, PlaneParts
from sless.reconcile.builds import BuildsLoop
from sless.reconcile.collect import Collector
from sless.reconcile.instances import InstancesLoop
from sless.reconcile.leader import RENEW_SEC, Leader
from sless.reconcile.loop import Loop, Loops
from sless.reconcile.runs import RunsLoop
from sless.store import Store, open_store, sqlite_url_of
from sless.tokens import TokenVerifier
from sless.usecases import Usecases

_log = logging.getLogger(__name__)

HOLDER_FILE = "holder"
ROUTES_SEC = 0.5
"""How long a request that changes routes waits for this process to know them."""


def database_url_of(settings: Settings) -> str:
    return settings.database_url or sqlite_url_of(settings.data_dir / "sless.db")


def migrate(settings: Settings) -> None:
    """Brings the database to this version's schema. Raises ConfigError when it is newer, or cannot be reached."""
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = open_store(database_url_of(settings))
    try:
        store.migrate()
    except SlessError as error:
        # Who starts the server may know where its database is, and why it does not answer; callers of the API may not.
        reason = str(error.__cause__ or "no reason given").splitlines()[0]
        raise ConfigError(f"SLESS_DATABASE_URL: {error.message}: {reason}") from error
    finally:
        store.close()


MakeBackend = Callable[[Callable[[], None]], Backend]
"""From `changed`, which the backend calls whenever it has something new to show."""


def build(settings: Settings, make_backend: MakeBackend | None = None) -> Application:
    """The ASGI application of one worker process, made after the fork. Nothing runs before its lifespan starts."""
    if settings.backend != "local":
        raise ConfigError(f"SLESS_BACKEND: {settings.backend!r} is not part of this release; expected local")
    return _Assembly(settings, make_backend).application()


@dataclass(frozen=True, slots=True)
class _LockedBackend:
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

    def report_stuck(self, endpoint_id: str) -> None:
        self.inner.report_stuck(endpoint_id)

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True, slots=True)
class _RunQueue:
    """ports.AsyncQueue over the runs table."""

    store: Store
    wake: Callable[[str], None]

    def accept(self, call: AcceptedCall) -> None:
        now = clock.now()
        self.store.runs.insert(
            Run(
                id=call.id, namespace=call.namespace, workload_id=call.workload_id, kind=call.kind, name=call.name, cause=call.cause,
                request_id=call.request_id, event=call.event, status=CallStatus.QUEUED, job_run_id=None, trigger_id=None, due_at=None,
                version=None, attempts=0, max_attempts=call.max_attempts, not_before=now, claimed_by=None, result=None, message="",
                exit_code=None, http_status=None, created_at=now, started_at=None, ended_at=None,
            )
        )  # fmt: skip
        self.wake("runs")


@dataclass(frozen=True, slots=True)
class _RequestWaker:
    """ports.Waker of the use cases: who has made a trigger may call its URL as soon as the answer is there."""

    assembly: "_Assembly"

    def wake(self, topic: str) -> None:
        if topic == "routes":
            self.assembly.plane.routes.sync(ROUTES_SEC)
        else:
            self.assembly.wake(topic)


class _Assembly:
    """All parts of one worker. They name each other in a circle (the backend wakes the loops, which drive the backend): the circle is
    closed by methods of this object, which are called only after everything is made."""

    def __init__(self, settings: Settings, make_backend: MakeBackend | None) -> None:
        self.settings = settings
        self.holder = _holder_of(settings.data_dir)
        self.store = open_store(database_url_of(settings), holder=self.holder)
        self.code: CodeStore = open_code_store(settings)
        self.material = Material(settings.data_dir, self.code)
        self.backend: Backend = _LockedBackend((make_backend or self._make_local)(self._changed), threading.RLock())
        self.builder: Builder = make_local_builder(settings, self.material)
        self.plane = DataPlane(
            settings,
            PlaneParts(
                routes=self.store.routes,
                history=self.store.history,
                queue=_RunQueue(self.store, self.wake),
                backend=self.backend,
                pull_logs=False,  # children's pipes carry every line already, also those of a crash
            ),
        )
        self.leader = Leader(self.store, self.holder)
        self.loops = self._make_loops()
        self.stopping = threading.Event()

    def application(self) -> Application:
        verifier = TokenVerifier(self.settings)
        usecases = Usecases(settings=self.settings, store=self.store, code=self.code, waker=_RequestWaker(self))
        parts = Parts(
            plane=self.plane,
            verifier=verifier,
            flask=create_app(usecases, verifier, self.settings),
            follow_logs=usecases.follow_logs,
            follow_build=usecases.follow_build,
            find_unready=self._find_unready,
            start=self._start,
            stop=self._stop,
        )
        return Application(self.settings, parts)

    def wake(self, topic: str) -> None:
        """ports.Waker. The routes' own thread polls; all else are loops."""
        if topic == "routes":
            self.plane.routes.wake()
        else:
            self.loops.wake(topic)

    def _make_local(self, changed: Callable[[], None]) -> Backend:
        return make_local_backend(self.settings, self.material, self._on_lines, changed)

    def _on_lines(self, lines: list[LogLine]) -> None:
        self.plane.recorder.add_lines(lines)

    def _changed(self) -> None:
        self.instances.changed()

    def _make_loops(self) -> Loops:
        builds = BuildsLoop(store=self.store, builder=self.builder, waker=self, holder=self.holder, at_once=self.settings.builds_at_once)
        self.runs = RunsLoop(
            store=self.store,
            backend=self.backend,
            invoker=self.plane.invoker,
            waker=self,
            holder=self.holder,
            max_runs=self.settings.max_runs,
        )
        self.instances = InstancesLoop(
            store=self.store, backend=self.backend, code=self.code, waker=self, held=lambda: builds.holds() | self.runs.holds()
        )
        collector = Collector(
            store=self.store, code=self.code, settings=self.settings, sweep=self._sweep, stopping=lambda: self.stopping.is_set()
        )
        return Loops(
            [
                Loop(topic="leader", tick=self._lead, interval_sec=RENEW_SEC, leader_only=False),
                Loop(topic="builds", tick=builds.tick, interval_sec=1),
                Loop(topic="instances", tick=self.instances.tick, interval_sec=1),
                Loop(topic="runs", tick=self.runs.tick, interval_sec=1),
                Loop(topic="collect", tick=collector.tick, interval_sec=60),
            ],
            self.leader.is_leader,
        )

    def _lead(self) -> None:
        if self.leader.renew():
            for topic in ("builds", "instances", "runs"):
                self.wake(topic)

    def _sweep(self, kept: Collection[Version]) -> None:
        """Unpacked code of versions that are gone."""
        self.material.collect({MaterialKey(code_key=item.code_key, artifact=item.artifact, runtime=item.runtime) for item in kept})

    def _find_unready(self) -> str | None:
        self.store.ping()
        return None

    def _start(self) -> None:
        self.leader.renew()
        self.loops.start()

    def _stop(self) -> None:
        self.stopping.set()
        self.loops.stop()
        self.runs.stop()
        self.builder.close()
        self.backend.close()
        self.leader.resign()
        self.store.close()


def _holder_of(data_dir: Path) -> str:
    """This data folder's name among replicas, made once: see `reconcile.leader`."""
    path = data_dir / HOLDER_FILE
    if path.exists() and (known := path.read_text().strip()):
        return known
    path.write_text(holder := ids.new_id())
    return holder
