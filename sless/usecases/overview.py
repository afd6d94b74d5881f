"""All resources of a namespace in one list, for the command line and the console."""

from dataclasses import dataclass
from datetime import datetime

from sless.domain.model import Kind, Phase, Trigger, TriggerType, Workload
from sless.usecases.parts import UseCaseParts
from sless.usecases.views import JobView, WorkloadView, view_jobs, view_workloads


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewItem:
    """`schedule` and `queue` join the values of its cron and event triggers."""

    kind: Kind
    name: str
    runtime: str | None
    phase: Phase
    active: int | None
    reachable: bool
    schedule: str
    queue: str
    created_at: datetime
    built_at: datetime | None
    message: str


class Overview:
    def __init__(self, parts: UseCaseParts) -> None:
        self._store = parts.store

    def list(self, namespace: str) -> list[OverviewItem]:
        """Functions and services by name, then jobs."""
        triggers = self._store.triggers.list_in(namespace)
        callables = self._store.workloads.list_in(namespace, [Kind.FUNCTION, Kind.SERVICE])
        jobs = self._store.workloads.list_in(namespace, [Kind.JOB])
        shown: list[tuple[WorkloadView | JobView, bool]] = [
            (view, view.reachable) for view in view_workloads(self._store, callables, triggers)
        ]
        shown += [(view, False) for view in view_jobs(self._store, jobs)]
        return [
            OverviewItem(
                kind=view.workload.kind,
                name=view.workload.name,
                runtime=view.workload.spec.runtime,
                phase=view.phase.phase,
                active=view.phase.active_version,
                reachable=reachable,
                schedule=_joined(view.workload, triggers, TriggerType.CRON, "{schedule} {timezone}"),
                queue=_joined(view.workload, triggers, TriggerType.EVENT, "{queue}"),
                created_at=view.workload.created_at,
                built_at=view.phase.last_built_at,
                message=view.phase.message,
            )
            for view, reachable in shown
        ]


def _joined(workload: Workload, triggers: list[Trigger], kind: TriggerType, form: str) -> str:
    """One entry per trigger of the workload; jobs have none."""
    mine = [item for item in triggers if item.function_ref == workload.name and item.type is kind and workload.kind is not Kind.JOB]
    return ", ".join(form.format_map(item.spec) + ("" if item.enabled else " (off)") for item in mine)
