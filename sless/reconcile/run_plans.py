"""Plans which code a run of a workload would start, and where. Reads many workloads at once; the rule is pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from sless.domain.lifecycle import OPEN_VERSION_STATES
from sless.domain.model import CallStatus, Kind, Version, VersionState, Workload
from sless.domain.ports import Revision
from sless.domain.routing import calls_instances, revision_of
from sless.errors import Code, NotFound, SlessError
from sless.reconcile.decide import job_revision_of
from sless.reconcile.decide_runs import FinishRun
from sless.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """`on_instances`: whether the call goes to an instance or is a one-off run. `cold`: it starts a process or waits for one."""

    revision: Revision
    on_instances: bool
    cold: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The run has to wait: a build is running, nothing has been uploaded yet, or an operator has suspended the function."""


Plan = Ready | Waiting | FinishRun


def run_plan_of(workload: Workload | None, target: Workload | None, newest: Version | None, active: Version | None) -> Plan:
    """`target` is the workload whose code runs: the workload itself, or the one that a job's `function_ref` names; the versions are the
    target's. `on_instances` is left False here."""
    if workload is None or workload.deleted_at is not None:
        return FinishRun(status=CallStatus.CANCELLED, message="cancelled: the workload was deleted")
    if target is None or target.deleted_at is not None:
        return FinishRun(status=CallStatus.FAILED, message=NotFound("function", workload.spec.function_ref).message)
    if workload.suspended is not None or target.suspended is not None:
        return Waiting()
    building = newest is None or newest.state in OPEN_VERSION_STATES
    if workload.kind is Kind.JOB and building:
        return Waiting()
    if active is not None and active.state is VersionState.READY:
        revision = revision_of(target, active) if target is workload else job_revision_of(workload, target, active)
        return Ready(revision=revision, on_instances=False)
    shown = active or newest
    if shown is not None and shown.state in (VersionState.FAILED, VersionState.CANCELLED):
        return FinishRun(status=CallStatus.FAILED, message=build_failed(target, shown).message)
    return Waiting()


def build_failed(workload: Workload, version: Version) -> SlessError:
    return SlessError(Code.BUILD_FAILED, f'{workload.kind} "{workload.name}" has no working version: {version.message}')


class Plans:
    """Plans of all `workload_ids` in a few queries; whether instances serve one is only read for those that start."""

    def __init__(self, store: Store, workload_ids: Iterable[str]) -> None:
        self._store = store
        self._plans: dict[str, Plan] = {}
        workloads = store.workloads.by_ids(workload_ids)
        targets = {key: self._target_of(workload) for key, workload in workloads.items()}
        known = [target.id for target in targets.values() if target is not None]
        newest, active = store.versions.newest_of(known), store.versions.active_of(known)
        self._workloads = workloads
        self._targets, self._newest, self._active = targets, newest, active

    def of(self, workload_id: str) -> Plan:
        if workload_id not in self._plans:
            target = self._targets.get(workload_id)
            key = target.id if target else ""
            plan = run_plan_of(self._workloads.get(workload_id), target, self._newest.get(key), self._active.get(key))
            self._plans[workload_id] = self._placed(self._workloads[workload_id], plan) if isinstance(plan, Ready) else plan
        return self._plans[workload_id]

    def _placed(self, workload: Workload, plan: Ready) -> Ready:
        if workload.kind is Kind.JOB:
            return plan
        triggers = self._store.triggers.list_for(workload.namespace, workload.name)
        endpoints = self._store.routes.endpoints(workload.id)
        on_instances = calls_instances(workload.kind, triggers, endpoints)
        return Ready(revision=plan.revision, on_instances=on_instances, cold=not on_instances or all(one.draining for one in endpoints))

    def _target_of(self, workload: Workload) -> Workload | None:
        reference = workload.spec.function_ref
        if workload.kind is not Kind.JOB or not reference:
            return workload
        return self._store.workloads.find_callable(workload.namespace, reference)
