"""The data plane: assembles the proxy, starts and stops it on an event loop."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Protocol

from sless import metrics
from sless.config import Settings
from sless.domain.addresses import parse_allowed
from sless.domain.call_sums import Outcomes
from sless.domain.limits import defaults_of
from sless.domain.ports import AsyncQueue, RouteSource
from sless.domain.statistics import LATENCY_BOUNDS_MS
from sless.errors import ConfigError
from sless.proxy.accepting import Acceptor, AsyncSettings
from sless.proxy.bodies import Bodies
from sless.proxy.demand import DemandMeter
from sless.proxy.failure import InstanceFailures
from sless.proxy.forward import Forwarder, ForwardOptions
from sless.proxy.heads import Trust
from sless.proxy.invoke import Invocations, InvokeParts
from sless.proxy.invoker import LoopInvoker
from sless.proxy.large_event import EventReader
from sless.proxy.limits_reached import LimitsReached
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.logs import FRESH_SEC, LogPuller
from sless.proxy.messages import MessageCalls
from sless.proxy.oneoff import OneOffRunner, RunBackend
from sless.proxy.recorder import MakeLink, Recorder
from sless.proxy.relay import Relays
from sless.proxy.request import BodyLimit
from sless.proxy.routes import RouteTable
from sless.proxy.run_room import RunRoom
from sless.proxy.sweep import Sweep
from sless.proxy.wait_queue import WaitQueue

FRESH_LOGS_SEC = 1.0
"""How long a reader of logs waits for the newest lines from the instances."""


class PlaneBackend(RunBackend, Protocol):
    """The part of domain.ports.Backend that the plane needs. Called from several threads; `app` adds a lock where needed."""

    def why_gone(self, endpoint_id: str) -> str | None: ...

    def report_unresponsive(self, endpoint_id: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneParts:
    """`pull_logs` False: the backend itself delivers the log lines of its instances, so they are not polled."""

    routes: RouteSource
    history: MakeLink
    queue: AsyncQueue
    backend: PlaneBackend
    pull_logs: bool = True
    waiting: WaitQueue = field(default_factory=WaitQueue)
    demand_changed: Callable[[], None] = lambda: None
    """Called on the event loop when calls wait for an instance."""
    instances_mb: Callable[[str], int] = lambda namespace: 0
    """Returns the memory of a tenant's starting instances, if this process is the one that starts them."""


class DataPlane:
    """Created anywhere, started on its event loop. Threads may use `routes.wake`, `recorder.add_lines` and `invoker.begin`."""

    def __init__(self, settings: Settings, parts: PlaneParts) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """None until `start`."""
        self.sweep = Sweep()
        self.waiting = parts.waiting
        self.limits_reached = LimitsReached()
        self.recorder = Recorder(parts.history, observer=_count)
        self.demand = DemandMeter(lambda: self.routes.standing(), parts.demand_changed)
        self.routes = RouteTable(
            parts.routes, draining=self._draining, queue=parts.waiting, limits=defaults_of(settings), waits=self.demand.waits
        )
        self.logs = self._log_puller() if parts.pull_logs else None
        self.run_room = RunRoom(lambda namespace: max(self.routes.instances_mb(namespace), parts.instances_mb(namespace)))
        self.oneoff = OneOffRunner(
            parts.backend, parts.waiting, max_runs=settings.max_runs, wait_sec=settings.instance_wait_sec,
            limits_of=self.routes.limits_of, room=self.run_room,
        )  # fmt: skip
        failures = InstanceFailures(self.sweep, parts.backend.why_gone, parts.backend.report_unresponsive)
        self.forwarder = Forwarder(_options(settings), self.sweep, failures)
        self.invoker = LoopInvoker(self.routes, self.forwarder, self.oneoff, max_result_bytes=settings.max_result_bytes)
        self.acceptor = Acceptor(parts.queue)
        self.events = EventReader()
        self.bodies = Bodies(settings.max_held_bytes, what="request bodies", setting="max_held_bytes")
        self.invocations = Invocations(
            InvokeParts(
                table=self.routes, forwarder=self.forwarder, recorder=self.recorder, oneoff=self.oneoff, acceptor=self.acceptor,
                async_settings=_async_settings(settings), events=self.events, bodies=self.bodies,
                limits_reached=self.limits_reached,
            )
        )  # fmt: skip

        self.messages = MessageCalls(self.routes, self.forwarder, self.recorder)
        self.relays = Relays(self.routes, self.forwarder, self.recorder)

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.sweep.start()
        self.recorder.start()
        self.invoker.start()
        if self.logs is not None:
            self.logs.start()
        self.demand.start()
        await self.routes.start()

    async def stop(self) -> None:
        """Call this after the last call has ended: fetches the last log lines and writes the rest of the history. All steps run even if one
        fails; its error is raised at the end."""
        async with contextlib.AsyncExitStack() as stack:  # runs in reverse order
            for close in (self.recorder.stop, self.oneoff.close, self.events.close, self.acceptor.close, self.forwarder.failures.close):
                stack.push_async_callback(asyncio.to_thread, close)
            stack.push_async_callback(self._end_explanations)
            stack.push_async_callback(self.sweep.stop)
            stack.push_async_callback(self.routes.stop)
            stack.push_async_callback(self.demand.stop)
            stack.push_async_callback(self.forwarder.failures.stop)
            if self.logs is not None:
                stack.push_async_callback(self.logs.stop)
            stack.callback(self.invoker.stop)

    async def _end_explanations(self) -> None:
        await asyncio.gather(*self.relays.explaining, return_exceptions=True)

    def _log_puller(self) -> LogPuller:
        def namespace_of(workload_id: str) -> str:
            live = self.routes.find_by_id(workload_id)
            return live.route.namespace if live is not None else workload_id

        return LogPuller(self.routes.instances, self.recorder.add_lines, self.sweep, namespace_of=namespace_of)

    def freshen_logs(self, workload_id: str, max_age_sec: float = FRESH_SEC) -> None:
        """Fetches log lines of a workload into the history, unless that was done within `max_age_sec`. Gives up if its instances do not
        answer soon. Called from any thread but the loop's."""
        if self.logs is None or self.loop is None or not self.loop.is_running():
            return
        with contextlib.suppress(TimeoutError, CancelledError):
            asyncio.run_coroutine_threadsafe(self.logs.freshen(workload_id, max_age_sec), self.loop).result(FRESH_LOGS_SEC)
        self.recorder.flush(FRESH_LOGS_SEC)

    def _draining(self, instance: LiveEndpoint) -> None:
        if self.logs is not None:
            self.logs.draining(instance)


def _options(settings: Settings) -> ForwardOptions:
    try:
        trust = Trust(settings.trusted_proxies)
    except ValueError as error:
        raise ConfigError(f"SLESS_TRUSTED_PROXIES: expected addresses or CIDRs, found {error}") from error
    return ForwardOptions(
        instance_wait_sec=settings.instance_wait_sec,
        trust=trust,
        sandbox=settings.functions_sandbox and settings.backend == "kubernetes",
    )


def _async_settings(settings: Settings) -> AsyncSettings:
    try:
        limit = BodyLimit(settings.max_json_bytes, "max_json_bytes")
        return AsyncSettings(allowed=parse_allowed(settings.outbound_allow), body_limit=limit)
    except ValueError as error:
        raise ConfigError(f"SLESS_OUTBOUND_ALLOW: {error}") from error


def _count(outcomes: Outcomes) -> None:
    """Counts a written batch in the metrics."""
    metrics.CALLS.add_latency(LATENCY_BOUNDS_MS, outcomes.histogram, outcomes.duration_ms)
    metrics.CALLS.add_outcomes(outcomes.calls)
