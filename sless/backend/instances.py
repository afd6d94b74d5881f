"""In-memory state of instances and their groups in the local backend. Changed only under the supervisor's lock."""

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from sless import clock
from sless.backend.health import Health
from sless.backend.plan import DesiredInstances, InstanceView, Restarts, State
from sless.domain.durations import Durations
from sless.domain.exits import exit_words_of, reported
from sless.domain.model import Endpoint
from sless.domain.ports import Deployment, ObservedDeployment, Revision
from sless.host.lines import LineReader
from sless.host.process import Child

_FIRST_PROBE_SEC = 0.002
_MAX_PROBE_SEC = 0.1
REASONS_KEPT = 2_000


@dataclass(slots=True, eq=False, kw_only=True)
class Instance:
    """`child` is None while it is being started. `end_reason` explains the exit and is set before sless kills it. `end_expected`: the
    exit is not a crash."""

    id: str
    revision: Revision
    socket: Path
    reader: LineReader
    created_at: datetime = field(default_factory=clock.now)
    state: State = State.STARTING
    since: float = field(default_factory=time.monotonic)
    ready_since: float | None = None
    child: Child | None = None
    healthy: bool = False
    active: int | None = None
    used_mb: int | None = None
    overdue_since: float | None = None
    unresponsive_since: float | None = None
    watched: bool = False
    """A call hung in the instance, so its health is checked every second."""
    asking: bool = False
    probe_sec: float = _FIRST_PROBE_SEC
    probe_at: float = 0.0
    end_reason: str = ""
    end_expected: bool = False

    def view(self) -> InstanceView:
        return InstanceView(
            id=self.id, revision=self.revision, state=self.state, since=self.since, healthy=self.healthy, active=self.active,
            used_mb=None if self.end_reason else self.used_mb, overdue_since=self.overdue_since, unresponsive_since=self.unresponsive_since,
        )  # fmt: skip

    def enter(self, state: State) -> None:
        self.state = state
        self.since = time.monotonic()

    def next_probe(self) -> None:
        self.probe_at = time.monotonic() + self.probe_sec
        self.probe_sec = min(self.probe_sec * 1.2, _MAX_PROBE_SEC)

    def note_health(self, health: Health | None) -> None:
        now = time.monotonic()
        if health is None:
            self.unresponsive_since = self.unresponsive_since or now
            return
        self.unresponsive_since = None
        self.active = max(0, health.active - health.overdue)
        self.overdue_since = (self.overdue_since or now) if health.overdue else None

    def endpoint(self) -> Endpoint:
        return Endpoint(
            id=self.id, workload_id=self.revision.workload_id, version=self.revision.version, address=f"unix:{self.socket}",
            draining=self.state is not State.READY, created_at=self.created_at,
        )  # fmt: skip


@dataclass(slots=True, eq=False, kw_only=True)
class InstanceGroup:
    """The instances of one workload. `desired` is None while the workload is being removed."""

    workload_id: str
    durations: Durations
    desired: Deployment | None = None
    instances: dict[str, Instance] = field(default_factory=dict)
    restarts: Restarts = field(init=False)
    not_before: float = 0.0
    message: str = ""
    could_not_start: bool = False
    """Whether the last crash happened before the instance became ready."""
    generation: int = 0
    due: float = 0.0

    def __post_init__(self) -> None:
        self.restarts = Restarts(durations=self.durations)

    def desired_instances(self) -> DesiredInstances | None:
        if self.desired is None:
            return None
        return DesiredInstances(revision=self.desired.revision, replicas=self.desired.replicas, not_before=self.not_before)

    def set_desired(self, desired: Deployment) -> None:
        """Sets the desired state. A new revision does not inherit the back-off of the old one."""
        if self.desired is None or self.desired.revision != desired.revision:
            self.restarts = Restarts(durations=self.durations)
            self.not_before, self.message, self.could_not_start = 0.0, "", False
        self.desired = desired

    def note_crash(self, reason: str, instance: Instance, chance: float) -> None:
        if self.desired is None or instance.revision != self.desired.revision:
            return
        self.could_not_start = instance.ready_since is None
        self.not_before = self.restarts.next_start_at(time.monotonic(), chance, had_served=not self.could_not_start)
        self.message = reason

    def ready(self) -> list[Instance]:
        return [
            one for one in self.instances.values() if self.desired and one.state is State.READY and one.revision == self.desired.revision
        ]

    def _endpoints(self, *, rolled_out: bool) -> Iterator[Endpoint]:
        """Endpoints for proxies. Those of older revisions are draining once the new one is rolled out, even before the instances drain."""
        for one in self.instances.values():
            if one.state in (State.READY, State.DRAINING):
                old = rolled_out and self.desired is not None and one.revision != self.desired.revision
                yield replace(one.endpoint(), draining=True) if old else one.endpoint()

    def observed(self) -> ObservedDeployment:
        ready = self.ready()
        missing = self.desired is not None and len(ready) < self.desired.replicas
        if self.desired is None:
            self.generation = 0
        elif not missing:
            self.generation = self.desired.generation
        backing_off = self.could_not_start or self.not_before > time.monotonic()
        return ObservedDeployment(
            workload_id=self.workload_id,
            generation=self.generation,
            endpoints=tuple(self._endpoints(rolled_out=self.desired is not None and not missing)),
            message=self.message if missing else "",
            failing=bool(missing and self.message and backing_off),
            wanted=self.desired.generation if self.desired else 0,
        )


def ended_words_of(instance: Instance, code: int) -> str:
    """Why the instance ended: the action of sless, or the exit code with the panic or fatal error that it reported."""
    if instance.end_reason:
        return instance.end_reason
    return reported(exit_words_of(code), instance.reader.crash)


class Reasons:
    """Remembers why the most recent instances ended."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, str] = OrderedDict()

    def add(self, instance_id: str, reason: str) -> None:
        self._by_id[instance_id] = reason
        while len(self._by_id) > REASONS_KEPT:
            self._by_id.popitem(last=False)

    def find(self, instance_id: str) -> str | None:
        return self._by_id.get(instance_id)
