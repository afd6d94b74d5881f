"""Rules for the next actions in an instance group, evaluated after every event. Pure."""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from sless.domain.durations import Durations, backoff_sec
from sless.domain.ports import Revision

RESTARTS_PER_WINDOW = 20
"""Instances of a group that may be replaced without waiting after they have served calls, per `Durations.restart_window_sec`."""


class State(StrEnum):
    """starting → ready → draining → stopping; states may be skipped."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredInstances:
    """`not_before` is the end of the back-off. Times here and below are seconds of the monotonic clock."""

    revision: Revision
    replicas: int
    not_before: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """`since`: when it entered its state. `active`: number of running calls in its last report, None before the first one.
    `overdue_since`: since when calls have been over their time limit; `unresponsive_since`: since when health checks have failed."""

    id: str
    revision: Revision
    state: State
    since: float
    healthy: bool = False
    active: int | None = None
    used_mb: int | None = None
    """Reason to end it, set once it exceeds its memory limit."""
    overdue_since: float | None = None
    unresponsive_since: float | None = None

    @property
    def is_ready(self) -> bool:
        return self.state is State.READY or self.healthy


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkReady:
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """`crash`: whether it counts towards the back-off."""

    id: str
    reason: str
    crash: bool = False


Action = Start | MarkReady | Drain | Terminate | Kill


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules at one moment."""

    now: float
    durations: Durations = field(default_factory=Durations)

    def decide(self, desired: DesiredInstances | None, instances: list[InstanceView]) -> list[Action]:
        """The next actions. No instance should run if `desired` is None."""
        actions: list[Action] = []
        living: list[InstanceView] = []
        for instance in instances:
            action = self._own_action_of(instance, kept=desired is not None)
            if action is not None:
                actions.append(action)
            if not isinstance(action, Kill) and instance.state in (State.STARTING, State.READY):
                living.append(instance)
        if desired is None:
            return actions + [self._retire(instance) for instance in living]
        current = [one for one in living if one.revision == desired.revision and not self._must_be_replaced(one)]
        return actions + self._scale(desired, current) + self._replace(desired, living, current)

    def _own_action_of(self, instance: InstanceView, *, kept: bool) -> Action | None:
        """The action for an instance regardless of the others. `kept`: its workload is not being removed."""
        waited, limits = self.now - instance.since, self.durations
        if instance.used_mb is not None:
            return Kill(id=instance.id, reason=f"out of memory: used {instance.used_mb} of {instance.revision.memory_mb} MB", crash=True)
        match instance.state:
            case State.STARTING if instance.healthy:
                return MarkReady(id=instance.id)
            case State.STARTING if waited >= limits.start_sec:
                return Kill(id=instance.id, reason=f"function did not start within {limits.start_sec:.0f} s", crash=True)
            case State.DRAINING if waited >= self._drain_sec_of(instance, kept) or (waited >= limits.settle_sec and instance.active == 0):
                return Terminate(id=instance.id)
            case State.STOPPING if waited >= (limits.stop_sec if instance.overdue_since is None else limits.unresponsive_stop_sec):
                return Kill(id=instance.id, reason="instance did not stop after SIGTERM")
        return None

    def _scale(self, desired: DesiredInstances, current: list[InstanceView]) -> list[Action]:
        surplus = len(current) - desired.replicas
        if surplus > 0:
            leaving = sorted(current, key=lambda one: (one.is_ready, one.since))[:surplus]
            return [self._retire(one) for one in leaving]
        if surplus < 0 and self.now >= desired.not_before:
            return [Start(count=-surplus)]
        return []

    def _replace(self, desired: DesiredInstances, living: list[InstanceView], current: list[InstanceView]) -> list[Action]:
        """Drains instances of other revisions, and those to be replaced, one by one as new ones become ready, so that the number of ready
        instances never drops below the desired one."""
        others = [one for one in living if one not in current]
        ready = sum(one.is_ready for one in current)
        kept = max(0, desired.replicas - ready)
        serving = sorted((one for one in others if one.is_ready), key=lambda one: (self._must_be_replaced(one), -one.since))
        leaving = serving[kept:] + [one for one in others if not one.is_ready]
        return [self._retire(one) for one in leaving]

    def _retire(self, instance: InstanceView) -> Action:
        if not instance.is_ready:
            return Kill(id=instance.id, reason="instance was no longer needed")
        if self._is_unresponsive(instance):
            return Kill(id=instance.id, reason="instance stopped answering and was replaced")
        return Drain(id=instance.id)

    def _is_unresponsive(self, instance: InstanceView) -> bool:
        return instance.unresponsive_since is not None and self.now - instance.unresponsive_since >= self.durations.unresponsive_grace_sec

    def _must_be_replaced(self, instance: InstanceView) -> bool:
        """Whether its calls hang, or it does not even answer health checks."""
        overdue = instance.overdue_since is not None and self.now - instance.overdue_since >= self.durations.overdue_grace_sec
        return overdue or self._is_unresponsive(instance)

    def _drain_sec_of(self, instance: InstanceView, kept: bool) -> float:
        """Time for running calls to end. Without a time limit, calls get longer if fewer instances are needed than if none should run."""
        unlimited_sec = self.durations.unlimited_call_sec if kept else self.durations.unlimited_drain_sec
        return self.durations.settle_sec + (instance.revision.timeout_sec or unlimited_sec)


@dataclass(slots=True, kw_only=True)
class Restarts:
    """When a group may start an instance after a crash. An instance that has served calls is replaced at once, at most RESTARTS_PER_WINDOW
    times per window, so that a call that ends its process does not delay the next one. If it never became ready, the wait grows with each
    failed start."""

    durations: Durations
    failed_starts: int = 0
    _served: deque[float] = field(default_factory=lambda: deque(maxlen=RESTARTS_PER_WINDOW))

    def next_start_at(self, now: float, chance: float, *, had_served: bool) -> float:
        """Call this once per crash. `chance` is in [0, 1)."""
        if not had_served:
            self.failed_starts += 1
            return now + back_off_sec_of(self.failed_starts, chance, self.durations.max_back_off_sec)
        self.failed_starts = 0
        oldest = self._served[0] if len(self._served) == RESTARTS_PER_WINDOW else None
        start_at = now if oldest is None else max(now, oldest + self.durations.restart_window_sec)
        self._served.append(start_at)
        return start_at


def back_off_sec_of(failures: int, chance: float, max_sec: float) -> float:
    """Seconds until the next start after `failures` in a row: 2, 4, 8 … `max_sec`, each shortened by up to a quarter."""
    return backoff_sec(failures, first_sec=2.0, max_sec=max_sec) * (1 - chance / 4)
