"""What to do next for one deployment: pure rules, called again after everything that happens."""

from dataclasses import dataclass
from enum import StrEnum

from sless.domain.ports import Revision

START_TIMEOUT_SEC = 60.0
SETTLE_SEC = 1.5
"""How long an instance still takes calls after it is shown as draining: proxies read their routes each second."""
UNLIMITED_DRAIN_SEC = 60.0
"""What calls get to end in when the revision has no time limit."""
STOP_SEC = 12.0
"""From SIGTERM to SIGKILL; a runtime takes 10 s at most."""
STUCK_STOP_SEC = 2.0
"""The same when all that runs in it hangs."""
OVERDUE_GRACE_SEC = 2.0
UNRESPONSIVE_GRACE_SEC = 5.0
MAX_BACK_OFF_SEC = 300.0
STEADY_SEC = 60.0
"""An instance that lived this long did not crash because of how it starts: the back-off begins anew."""


class State(StrEnum):
    """starting → ready → draining → stopping → ended; each may be skipped but the last."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredInstances:
    """`not_before` is the end of the back-off; times are seconds of the monotonic clock, here and below."""

    revision: Revision
    replicas: int
    not_before: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """`since` when it came into its state. `active` calls that run in it, as last told; None when not asked yet. `overdue_since` and
    `unresponsive_since`: since when calls hang in it, since when it does not answer at all."""

    id: str
    revision: Revision
    state: State
    since: float
    healthy: bool = False
    active: int | None = None
    used_mb: int | None = None
    """Set when it is over its memory."""
    overdue_since: float | None = None
    unresponsive_since: float | None = None


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
    """`crash`: it counts for the back-off."""

    id: str
    reason: str
    crash: bool = False


Action = Start | MarkReady | Drain | Terminate | Kill


def decide(desired: DesiredInstances | None, instances: list[InstanceView], now: float) -> list[Action]:
    """`desired` None: nothing is to run."""
    actions: list[Action] = []
    living: list[InstanceView] = []
    for instance in instances:
        action = _own_action_of(instance, now)
        if action is not None:
            actions.append(action)
        if not isinstance(action, Kill) and instance.state in (State.STARTING, State.READY):
            living.append(instance)
    if desired is None:
        return actions + [_retire(instance, now) for instance in living]
    current = [one for one in living if one.revision == desired.revision and not is_stuck(one, now)]
    return actions + _scale(desired, current, now) + _replace(desired, living, current, now)


def _own_action_of(instance: InstanceView, now: float) -> Action | None:
    """What follows from the instance alone."""
    waited = now - instance.since
    if instance.used_mb is not None:
        return Kill(id=instance.id, reason=f"out of memory: used {instance.used_mb} of {instance.revision.memory_mb} MB", crash=True)
    match instance.state:
        case State.STARTING if instance.healthy:
            return MarkReady(id=instance.id)
        case State.STARTING if waited >= START_TIMEOUT_SEC:
            return Kill(id=instance.id, reason=f"function did not start within {START_TIMEOUT_SEC:.0f} s", crash=True)
        case State.DRAINING if waited >= drain_limit_sec_of(instance.revision) or (waited >= SETTLE_SEC and instance.active == 0):
            return Terminate(id=instance.id)
        case State.STOPPING if waited >= (STUCK_STOP_SEC if instance.overdue_since is not None else STOP_SEC):
            return Kill(id=instance.id, reason="instance did not end when told to")
    return None


def _scale(desired: DesiredInstances, current: list[InstanceView], now: float) -> list[Action]:
    surplus = len(current) - desired.replicas
    if surplus > 0:
        leaving = sorted(current, key=lambda one: (_is_ready(one), one.since))[:surplus]
        return [_retire(one, now) for one in leaving]
    if surplus < 0 and now >= desired.not_before:
        return [Start(count=-surplus)]
    return []


def _replace(desired: DesiredInstances, living: list[InstanceView], current: list[InstanceView], now: float) -> list[Action]:
    """Instances of another revision, and stuck ones, leave one by one as new ones become ready: there are never fewer than wished."""
    others = [one for one in living if one not in current]
    ready = sum(map(_is_ready, current))
    kept = max(0, desired.replicas - ready)
    serving = sorted((one for one in others if _is_ready(one)), key=lambda one: (is_stuck(one, now), -one.since))
    leaving = serving[kept:] + [one for one in others if not _is_ready(one)]
    return [_retire(one, now) for one in leaving]


def _retire(instance: InstanceView, now: float) -> Action:
    if not _is_ready(instance):
        return Kill(id=instance.id, reason="instance was not needed any more")
    if is_mute(instance, now):
        return Kill(id=instance.id, reason="instance did not answer any more and was replaced")
    return Drain(id=instance.id)


def _is_ready(instance: InstanceView) -> bool:
    return instance.state is State.READY or instance.healthy


def is_mute(instance: InstanceView, now: float) -> bool:
    return instance.unresponsive_since is not None and now - instance.unresponsive_since >= UNRESPONSIVE_GRACE_SEC


def is_stuck(instance: InstanceView, now: float) -> bool:
    """Calls hang in it, or it does not even answer a health check."""
    overdue = instance.overdue_since is not None and now - instance.overdue_since >= OVERDUE_GRACE_SEC
    return overdue or is_mute(instance, now)


def drain_limit_sec_of(revision: Revision) -> float:
    return SETTLE_SEC + (revision.timeout_sec or UNLIMITED_DRAIN_SEC)


def back_off_sec_of(crashes: int, chance: float) -> float:
    """Seconds until the next start after `crashes` in a row: at once after the first, since one call that ends its process must not
    make the next one wait; then 2, 4, 8 … 300, each less up to a quarter. `chance` is in [0, 1)."""
    if crashes <= 1:
        return 0.0
    return min(MAX_BACK_OFF_SEC, 2.0 ** (crashes - 1)) * (1 - chance / 4)
