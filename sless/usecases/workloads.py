"""Functions and services."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sless.domain.model import Kind, Phase, Workload, WorkloadSpec
from sless.domain.phase import PhaseView
from sless.domain.spec import Mode, Named, parse_function
from sless.errors import Code, SlessError
from sless.store import Store
from sless.tokens import Caller
from sless.usecases.parts import COUNTED, UseCaseParts, check_match, etag_of, merge_until_written, refuse_suspended
from sless.usecases.recode import recode
from sless.usecases.views import WorkloadView, view_workload, view_workloads


class Workloads:
    """Operations on functions, or on services."""

    def __init__(self, parts: UseCaseParts, kind: Kind) -> None:
        self._parts = parts
        self._store = parts.store
        self._kind = kind

    def create(self, caller: Caller, namespace: str, body: Any) -> WorkloadView:
        """Raises Invalid, EXISTS, LIMIT_REACHED."""
        named = parse_function(body, kind=self._kind, limits=self._parts.spec_limits)
        tenant = self._parts.ensure_tenant(caller, namespace)
        free_name(self._store, self._store.workloads.find_callable(namespace, named.name))
        self._parts.check_count(tenant, COUNTED[self._kind])
        self._parts.check_size(tenant, self._kind, named.spec)
        workload = self._store.workloads.insert(namespace, self._kind, named.name, named.spec)
        self._parts.wake("routes", "instances")
        return view_workload(self._store, workload)

    def get(self, namespace: str, name: str) -> WorkloadView:
        return self._settled([view_workload(self._store, self._store.workloads.get(namespace, self._kind, name))])[0]

    def list(self, namespace: str, *, limit: int | None, after: str | None) -> Sequence[WorkloadView]:
        found = self._store.workloads.list_in(namespace, [self._kind], limit=limit, after_name=after)
        return self._settled(view_workloads(self._store, found, self._store.triggers.list_in(namespace) if found else []))

    def replace(self, namespace: str, name: str, body: Any, if_match: str | None = None) -> WorkloadView:
        return self._change(self._store.workloads.get(namespace, self._kind, name), body, Mode.REPLACE, if_match)

    def merge(self, namespace: str, name: str, body: Any, if_match: str | None = None) -> WorkloadView:
        return merge_until_written(
            if_match, lambda: self._change(self._store.workloads.get(namespace, self._kind, name), body, Mode.MERGE, if_match)
        )

    def delete(self, namespace: str, name: str, if_match: str | None = None) -> WorkloadView:
        """Marks it as deleted. The control loops stop its instances and runs, then remove the row."""
        workload = self._store.workloads.get(namespace, self._kind, name)
        check_match(if_match, etag_of(workload.id, workload.generation))
        self._store.workloads.mark_deleted(workload.id)
        self._parts.wake("routes", "instances", "runs", "builds")
        return view_workload(
            self._store, self._store.workloads.find_by_id(workload.id) or replace(workload, deleted_at=workload.updated_at)
        )

    def _settled(self, views: Sequence[WorkloadView]) -> Sequence[WorkloadView]:
        """Shows Ready only once the routes of this process have switched, because a client that reads Ready may call immediately."""
        if not any(view.phase.phase is Phase.READY for view in views) or self._parts.routes_settled():
            return views
        return [replace(view, phase=_deploying(view.phase)) if view.phase.phase is Phase.READY else view for view in views]

    def _change(self, workload: Workload, body: Any, mode: Mode, if_match: str | None) -> WorkloadView:
        existing = Named(name=workload.name, spec=workload.spec)
        spec = parse_function(body, existing, mode, kind=workload.kind, limits=self._parts.spec_limits).spec
        self._parts.check_size(self._store.tenants.find(workload.namespace), workload.kind, spec)
        matched = check_match(if_match, etag_of(workload.id, workload.generation))
        changed = write_spec(self._parts, workload, spec, checked=matched or mode is Mode.MERGE)
        return view_workload(self._store, changed)


def _deploying(phase: PhaseView) -> PhaseView:
    return replace(phase, phase=Phase.DEPLOYING, message="this server has not read the new routes yet")


def write_spec(parts: UseCaseParts, workload: Workload, spec: WorkloadSpec, *, checked: bool) -> Workload:
    """Stores the spec, unless it is unchanged. `checked`: only if the workload has not changed since it was read. Another runtime or
    entrypoint results in a new version of the same code."""
    if spec == workload.spec and workload.deleted_at is None:
        return workload
    changed = parts.store.workloads.update_spec(workload.id, spec, expected_generation=workload.generation if checked else None)
    if (spec.runtime, spec.entrypoint) != (workload.spec.runtime, workload.spec.entrypoint):
        recode(parts, changed)
    parts.wake("routes", "instances")
    return changed


def free_name(store: Store, owner: Workload | None) -> None:
    """Frees the name by deleting its owner, if that has Failed and never worked. Raises EXISTS otherwise."""
    if owner is None or owner.deleted_at is not None:
        return
    refuse_suspended(owner)
    if owner.active_version is None and view_workload(store, owner).phase.phase is Phase.FAILED:
        store.workloads.mark_deleted(owner.id)
        return
    raise SlessError(Code.EXISTS, f'{owner.kind} "{owner.name}" already exists')
