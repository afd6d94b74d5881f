"""The loop of event triggers: the leader runs one listener per trigger on the event loop of the data plane; the tick's thread reads desired
state and writes the observed status.

Decision: listeners run on the data plane's event loop, not in a thread with its own loop. So a message is not passed between threads, calls
use the proxy's connections directly, and two busy threads do not compete for the interpreter.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING

from sless.config import Settings
from sless.domain.messages import MessageInvoker
from sless.domain.model import Kind, Trigger, TriggerType
from sless.outbound import Outbound
from sless.reconcile.listens import (
    DesiredListener,
    Idle,
    Listen,
    ListenerStatus,
    StartListener,
    StopListener,
    decide_listens,
    desired_listeners_of,
)
from sless.store import Store

if TYPE_CHECKING:
    from sless.broker import Pool
    from sless.reconcile.listener import Listener

CHANGE_GRACE_SEC = 3700.0
"""How long running calls of a changed or disabled trigger may continue; no time-out is longer than an hour."""
FULL_TICK_SEC = 30.0
STOP_MARGIN_SEC = 5.0


def client_library() -> tuple[ModuleType, ModuleType]:
    """The modules `broker` and `listener`, imported here because it takes 0.1 s and only servers with event triggers need them."""
    from sless import broker
    from sless.reconcile import listener

    return broker, listener


class Listeners:
    """All listeners of this process. Call `apply` and `stop` on the event loop, `statuses` from any thread."""

    def __init__(self, outbound: Outbound, invoker: MessageInvoker) -> None:
        self._outbound = outbound
        self._invoker = invoker
        self._pool: Pool | None = None
        self._running: dict[str, Listener] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._stopped = False

    def apply(self, desired: Mapping[str, DesiredListener]) -> None:
        if self._stopped:
            return
        for action in decide_listens(desired, {key: item.listen for key, item in self._running.items()}):
            match action:
                case StopListener(trigger_id=trigger_id):
                    self._leave(self._running.pop(trigger_id), CHANGE_GRACE_SEC)
                case StartListener(listen=listen):
                    self._start(listen)

    def statuses(self) -> dict[str, ListenerStatus]:
        """Statuses by trigger id."""
        return {key: item.status for key, item in list(self._running.items())}

    async def stop(self, grace_sec: float) -> None:
        """Stops all listeners; none can be started again."""
        self._stopped = True
        for trigger_id in list(self._running):
            self._leave(self._running.pop(trigger_id), grace_sec)
        if self._leaving:
            _, late = await asyncio.wait(self._leaving, timeout=grace_sec + 1)
            for task in late:
                task.cancel()

    def _start(self, listen: Listen) -> None:
        broker, listener = client_library()
        self._pool = self._pool or broker.Pool(self._outbound)
        started = self._running[listen.trigger_id] = listener.Listener(listen=listen, pool=self._pool, invoker=self._invoker)
        started.start()

    def _leave(self, listener: "Listener", grace_sec: float) -> None:
        task = asyncio.get_running_loop().create_task(listener.stop(grace_sec))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


@dataclass(slots=True, kw_only=True)
class EventsLoop:
    """`tick` runs on every replica, because one that no longer leads has to stop its listeners. `loop` returns the event loop of the data
    plane, None before it runs."""

    store: Store
    settings: Settings
    listeners: Listeners
    is_leader: Callable[[], bool]
    loop: Callable[[], asyncio.AbstractEventLoop | None]
    _revision: int = -1
    _full_at: float = 0.0
    _desired: dict[str, DesiredListener] = field(default_factory=dict)
    _shown: dict[str, ListenerStatus] = field(default_factory=dict)

    def tick(self) -> None:
        loop = self.loop()
        if loop is None or loop.is_closed():
            return
        leads = self.is_leader()
        if leads:
            self._read()
        else:
            self._desired, self._shown, self._revision = {}, {}, -1
        if any(isinstance(wanted, Listen) for wanted in self._desired.values()):
            client_library()  # imported in this thread, not on the event loop
        loop.call_soon_threadsafe(self.listeners.apply, dict(self._desired))
        if leads:
            self._show()

    def stop(self, grace_sec: float) -> None:
        """Stops all listeners; blocks until their calls have ended or `grace_sec` is over. Called from any thread but the event loop's."""
        loop = self.loop()
        if loop is not None and not loop.is_closed():
            asyncio.run_coroutine_threadsafe(self.listeners.stop(grace_sec), loop).result(grace_sec + STOP_MARGIN_SEC)

    def _read(self) -> None:
        """Reads the revision first, so that the next tick reads what is written during this one."""
        revision, now = self.store.routes.revision(), monotonic()
        if revision == self._revision and now < self._full_at:
            return
        if self._revision == -1:
            # This server has just become the leader, and only leaders consume, so calls marked as running belong to a killed server.
            self.store.history.end_running_messages()
        triggers = self.store.triggers.list_all(TriggerType.EVENT)
        workloads = self.store.workloads.list_all((Kind.FUNCTION, Kind.SERVICE)) if triggers else []
        self._desired = desired_listeners_of(triggers, workloads, self.settings)
        known = {item.id: _status_of(item) for item in triggers}
        self._shown = {key: self._shown.get(key, value) for key, value in known.items()}
        self._revision, self._full_at = revision, now + FULL_TICK_SEC

    def _show(self) -> None:
        statuses = self.listeners.statuses()
        for trigger_id, wanted in self._desired.items():
            before = self._shown[trigger_id]
            if isinstance(wanted, Idle):
                now = ListenerStatus(message=wanted.reason, active=False, last_status=before.last_status)
            else:
                now = statuses.get(trigger_id, before)
                now = replace(now, last_status=now.last_status or before.last_status)
            if now != before:
                self.store.triggers.set_observed(trigger_id, message=now.message, active=now.active, last_status=now.last_status)
                self._shown[trigger_id] = now


def _status_of(trigger: Trigger) -> ListenerStatus:
    return ListenerStatus(message=trigger.observed_message, active=trigger.observed_active, last_status=trigger.last_status)
