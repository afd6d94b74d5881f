"""The control loop of the local backend: starts instances, checks their health and stops them as `plan` decides."""

import logging
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sless.backend import health
from sless.backend.instances import Instance, InstanceGroup, Reasons, ended_words_of
from sless.backend.plan import Action, Drain, Kill, MarkReady, Rules, Start, State, Terminate
from sless.backend.starter import Starter
from sless.domain.durations import Durations
from sless.domain.ports import Deployment, ObservedDeployment

_IDLE_SEC = 1.0
_ASK_SEC = 0.25
_WATCH_SEC = 1.0
_STRAYS_SEC = 30.0
_LAST_LINES_SEC = 0.2
_log = logging.getLogger(__name__)


class Supervisor:
    """Manages all instance groups. `changed` is called without the lock whenever `observe` would report something new."""

    def __init__(self, starter: Starter, changed: Callable[[], None], durations: Durations) -> None:
        self._starter = starter
        self._durations = durations
        self._changed = changed
        self._groups: dict[str, InstanceGroup] = {}
        self._reasons = Reasons()
        self._wakeup = threading.Condition()
        self._poked = False
        self._news = False
        self._closing = False
        # Separate pools, because an unresponsive instance occupies a thread for a second, which must not delay the start of others.
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="sless-instances")
        self._asking = ThreadPoolExecutor(max_workers=4, thread_name_prefix="sless-health")
        self._thread = threading.Thread(target=self._serve, name="sless-supervisor", daemon=True)
        self._thread.start()

    # --- called by the backend ------------------------------------------------------------------------------------------------------

    def observe(self) -> dict[str, ObservedDeployment]:
        with self._wakeup:
            return {one.workload_id: one.observed() for one in self._groups.values()}

    def apply(self, deployment: Deployment) -> None:
        workload_id = deployment.revision.workload_id
        with self._wakeup:
            group = self._groups.setdefault(workload_id, InstanceGroup(workload_id=workload_id, durations=self._durations))
            if group.desired != deployment:
                group.set_desired(deployment)
                self._news = True
                self._poke(group)

    def remove(self, workload_id: str) -> None:
        with self._wakeup:
            if group := self._groups.get(workload_id):
                group.desired = None
                self._poke(group)

    def why_gone(self, instance_id: str) -> str | None:
        with self._wakeup:
            instance = self._find(instance_id)
            code = instance.child.find_exit() if instance and instance.child else None
            if instance is not None and code is None:
                return None
            # The last lines arrive before `_on_exit`, which a child that keeps its pipes open may delay.
            self._wakeup.wait_for(lambda: self._find(instance_id) is None, _LAST_LINES_SEC)
            return self._reasons.find(instance_id) or (ended_words_of(instance, code) if instance and code is not None else None)

    def report_unresponsive(self, instance_id: str) -> None:
        with self._wakeup:
            if instance := self._find(instance_id):
                instance.watched = True
                instance.probe_at = 0.0
                self._poke(self._groups[instance.revision.workload_id])

    def close(self, grace_sec: float) -> None:
        """Stops every instance; kills those still running after `grace_sec`."""
        deadline = time.monotonic() + grace_sec
        with self._wakeup:
            self._closing = True
            for instance in self._all():
                self._end(instance, signal.SIGTERM if instance.ready_since else signal.SIGKILL, "the server stopped")
            while any(self._all()) and (left := deadline - time.monotonic()) > 0:
                self._wakeup.wait(left)
            for instance in self._all():
                self._end(instance, signal.SIGKILL, "the server stopped")
            self._wakeup.notify_all()
        self._thread.join(timeout=5)
        for pool in (self._pool, self._asking):
            pool.shutdown(wait=True, cancel_futures=True)

    # --- the loop -------------------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        strays_at = time.monotonic() + _STRAYS_SEC
        while not self._closing:
            try:
                self._tick()
                if time.monotonic() >= strays_at:
                    strays_at = time.monotonic() + _STRAYS_SEC
                    self._starter.run_dir.end_strays()
            except Exception:
                _log.exception("supervising instances failed")
                time.sleep(_IDLE_SEC)
            if self._news:
                self._news = False
                self._changed()

    def _tick(self) -> None:
        with self._wakeup:
            pause = min((one.due for one in self._groups.values()), default=time.monotonic() + _IDLE_SEC) - time.monotonic()
            if not self._poked and pause > 0:
                self._wakeup.wait(min(pause, _IDLE_SEC))
            self._poked = False
            now = time.monotonic()
            for group in list(self._groups.values()):
                if group.due <= now and not self._closing:
                    self._advance(group, now)

    def _advance(self, group: InstanceGroup, now: float) -> None:
        for instance in group.instances.values():
            self._probe(instance, now)
        rules = Rules(now=now, durations=self._durations)
        for action in rules.decide(group.desired_instances(), [one.view() for one in group.instances.values()]):
            self._perform(group, action)
        if group.desired is None and not group.instances:
            del self._groups[group.workload_id]
            self._news = True
        group.due = self._next_due(group, now)

    def _next_due(self, group: InstanceGroup, now: float) -> float:
        due = now + 3600
        for instance in group.instances.values():
            if instance.state is not State.READY or instance.watched:
                due = min(due, max(instance.probe_at, now + 0.001))
        return min(due, group.not_before) if group.not_before > now else due

    def _probe(self, instance: Instance, now: float) -> None:
        """Checks the health of an instance that starts, drains or is suspect, when that is due."""
        if now < instance.probe_at:
            return
        match instance.state:
            case State.STARTING:
                instance.next_probe()
                if instance.child is not None and not instance.asking and not instance.healthy and health.listens(instance.socket):
                    self._ask(instance)
            case State.READY if not instance.watched:
                pass
            case State.READY | State.DRAINING:
                instance.probe_at = now + (_WATCH_SEC if instance.state is State.READY else _ASK_SEC)
                self._ask(instance)
            case State.STOPPING:
                instance.probe_at = now + _WATCH_SEC

    def _ask(self, instance: Instance) -> None:
        if not instance.asking:
            instance.asking = True
            self._submit(self._asking, self._ask_now, instance)

    def _ask_now(self, instance: Instance) -> None:
        found = health.find_instance_health(instance.socket)
        with self._wakeup:
            instance.asking = False
            instance.note_health(found)
            if instance.state is State.STARTING:
                instance.healthy = found is not None
                instance.unresponsive_since = None
            elif instance.state is State.READY and found is not None and not found.overdue:
                instance.watched = False
            self._poke(self._groups.get(instance.revision.workload_id))

    # --- actions, under the lock ----------------------------------------------------------------------------------------------------

    def _perform(self, group: InstanceGroup, action: Action) -> None:
        match action:
            case Start(count=count):
                for _ in range(count):
                    self._start(group)
                return
            case MarkReady(id=instance_id):
                instance = group.instances[instance_id]
                instance.enter(State.READY)
                instance.ready_since = instance.since
                group.could_not_start = False
            case Drain(id=instance_id):
                instance = group.instances[instance_id]
                instance.enter(State.DRAINING)
                instance.active = None  # earlier reports are stale
                instance.probe_at = 0.0
            case Terminate(id=instance_id):
                self._end(group.instances[instance_id], signal.SIGTERM, "instance was drained and stopped")
            case Kill(id=instance_id, reason=reason, crash=crash):
                instance = group.instances[instance_id]
                self._end(instance, signal.SIGKILL, reason)
                instance.end_expected = not crash
        self._news = True

    def _start(self, group: InstanceGroup) -> None:
        assert group.desired is not None
        instance = self._starter.make_instance(group.desired.revision)
        group.instances[instance.id] = instance
        self._submit(self._pool, self._start_now, instance)

    def _start_now(self, instance: Instance) -> None:
        try:
            self._starter.launch(instance, self._on_exit, self._on_over_memory)
        except Exception as error:
            reason = self._starter.reason_of(error)
            if not instance.end_reason:
                instance.end_reason = reason
            self._on_exit(instance, 0)
            return
        with self._wakeup:
            if instance.end_reason and instance.child:  # stopped while it was starting
                instance.child.signal_group(signal.SIGKILL)
            self._poke(self._groups.get(instance.revision.workload_id))

    def _end(self, instance: Instance, number: signal.Signals, reason: str) -> None:
        instance.end_reason = instance.end_reason or reason
        instance.end_expected = True
        if instance.state is not State.STOPPING:
            instance.enter(State.STOPPING)
        if instance.child is not None:
            instance.child.signal_group(number)

    def _on_over_memory(self, instance: Instance, used_mb: int) -> None:
        with self._wakeup:
            instance.used_mb = used_mb
            self._poke(self._groups.get(instance.revision.workload_id))

    def _on_exit(self, instance: Instance, code: int) -> None:
        reason = ended_words_of(instance, code)
        self._submit(self._pool, self._starter.clean, instance)
        with self._wakeup:
            self._reasons.add(instance.id, reason)
            group = self._groups.get(instance.revision.workload_id)
            if group is not None and instance.id in group.instances:
                del group.instances[instance.id]
                if not instance.end_expected:
                    group.note_crash(self._starter.message_of(instance, reason), instance, random.random())
                self._news = True
                self._poke(group)
            self._wakeup.notify_all()

    def _submit(self, pool: ThreadPoolExecutor, task: Callable[[Instance], None], instance: Instance) -> None:
        try:
            pool.submit(task, instance)
        except RuntimeError:  # the server is stopping and removes the whole run folder
            pass

    # --- small ----------------------------------------------------------------------------------------------------------------------

    def _poke(self, group: InstanceGroup | None) -> None:
        if group is not None:
            group.due = 0.0
        self._poked = True
        self._wakeup.notify_all()

    def _find(self, instance_id: str) -> Instance | None:
        return next((one.instances[instance_id] for one in self._groups.values() if instance_id in one.instances), None)

    def _all(self) -> list[Instance]:
        return [instance for one in self._groups.values() for instance in one.instances.values()]
