"""All resources of a namespace in one list, for the console, and for terminals as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sless import clock
from sless.domain.instance_bounds import InstancesState
from sless.domain.instances_state import instances_state_of
from sless.domain.model import Kind, Phase, Trigger, TriggerType, VersionState, Workload
from sless.domain.statistics import LastCall
from sless.store import Store
from sless.usecases.parts import UseCaseParts
from sless.usecases.views import JobView, WorkloadView, view_jobs, view_workloads

SLOTS = 12
SLOT_SEC = 300
"""Slots of five minutes of the last hour, for which the list shows calls and errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewItem:
    """`triggers` are those that refer to it; jobs have none."""

    kind: Kind
    name: str
    display_name: str
    runtime: str | None
    phase: Phase
    active: int | None
    latest_state: VersionState | None
    ready_instances: int
    instances_state: InstancesState | None
    reachable: bool
    triggers: tuple[Trigger, ...]
    created_at: datetime
    built_at: datetime | None
    message: str
    slots: tuple[tuple[int, int], ...] = ()
    """(calls, errors), oldest first, SLOTS of them; empty without `activity`."""
    last: LastCall | None = None
    """The newest call; None also without `activity`."""

    @property
    def schedule(self) -> str:
        return _joined(self.triggers, TriggerType.CRON, "{schedule} {timezone}")

    @property
    def queue(self) -> str:
        return _joined(self.triggers, TriggerType.EVENT, "{queue}")


class Overview:
    def __init__(self, parts: UseCaseParts) -> None:
        self._store = parts.store

    def list(self, namespace: str, *, activity: bool = False) -> Sequence[OverviewItem]:
        """Functions and services by name, then jobs; with `activity` also the calls of the last hour and the newest call."""
        callables = self._store.workloads.list_in(namespace, [Kind.FUNCTION, Kind.SERVICE])
        jobs = self._store.workloads.list_in(namespace, [Kind.JOB])
        return self._items(namespace, callables, jobs, activity)

    def first(self, namespace: str, count: int) -> tuple[Sequence[OverviewItem], int]:
        """The first `count` items of `list` with their activity, and how many there are."""
        callables = self._store.workloads.list_in(namespace, [Kind.FUNCTION, Kind.SERVICE], limit=count)
        left = count - len(callables)
        jobs = self._store.workloads.list_in(namespace, [Kind.JOB], limit=left) if left else []
        return self._items(namespace, callables, jobs, True), self._store.workloads.count_in(namespace)

    def _items(self, namespace: str, callables: Sequence[Workload], jobs: Sequence[Workload], activity: bool) -> Sequence[OverviewItem]:
        triggers = self._store.triggers.list_in(namespace)
        shown: list[WorkloadView | JobView] = [*view_workloads(self._store, callables, triggers), *view_jobs(self._store, jobs)]
        by_target: dict[str, list[Trigger]] = {}
        for trigger in triggers:
            by_target.setdefault(trigger.function_ref, []).append(trigger)
        reader = _Activity(self._store, [view.workload.id for view in shown] if activity else [])
        return [_item_of(view, by_target, reader) for view in shown]


class _Activity:
    """Calls of the workloads in the last hour."""

    def __init__(self, store: Store, ids: Sequence[str]) -> None:
        first = int(clock.now().timestamp()) // SLOT_SEC - SLOTS + 1
        since = datetime.fromtimestamp(first * SLOT_SEC, UTC)
        self._known = set(ids)
        self._slots = store.history.slots(ids, since, timedelta(seconds=SLOT_SEC), SLOTS) if ids else {}
        self._newest = store.history.newest_of(ids) if ids else {}

    def slots(self, workload_id: str) -> tuple[tuple[int, int], ...]:
        if workload_id not in self._known:
            return ()
        return tuple(self._slots.get(workload_id, [(0, 0)] * SLOTS))

    def last(self, workload_id: str) -> LastCall | None:
        return self._newest.get(workload_id)


def _item_of(view: WorkloadView | JobView, by_target: dict[str, list[Trigger]], activity: _Activity) -> OverviewItem:
    workload, phase, triggers = view.workload, view.phase, _triggers_of(view.workload, by_target)
    return OverviewItem(
        kind=workload.kind,
        name=workload.name,
        display_name=workload.spec.display_name,
        runtime=workload.spec.runtime,
        phase=phase.phase,
        active=phase.active_version,
        latest_state=phase.latest_state,
        ready_instances=workload.observed.ready_instances,
        instances_state=instances_state_of(workload, phase, triggers),
        reachable=isinstance(view, WorkloadView) and view.reachable,
        triggers=triggers,
        created_at=workload.created_at,
        built_at=phase.last_built_at,
        message=phase.message,
        slots=activity.slots(workload.id),
        last=activity.last(workload.id),
    )


def _triggers_of(workload: Workload, by_target: dict[str, list[Trigger]]) -> tuple[Trigger, ...]:
    return () if workload.kind is Kind.JOB else tuple(by_target.get(workload.name, ()))


def _joined(triggers: Sequence[Trigger], kind: TriggerType, form: str) -> str:
    """One entry per trigger of this type."""
    mine = [item for item in triggers if item.type is kind]
    return ", ".join(form.format_map(item.spec) + ("" if item.enabled else " (off)") for item in mine)
