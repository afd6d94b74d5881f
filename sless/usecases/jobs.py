"""Jobs: a spec, and one run per raised run_id."""

from dataclasses import replace
from typing import Any

from sless import clock
from sless.domain.limits import LimitName
from sless.domain.model import CallStatus, Kind, Phase, Workload
from sless.domain.runs import job_run
from sless.domain.spec import Mode, Named, parse_function
from sless.domain.validate import mistakes_of
from sless.errors import Code, Detail, Invalid, SlessError
from sless.tokens import Caller
from sless.usecases.parts import UseCaseParts, check_match, etag_of, merge_until_written, refuse_suspended
from sless.usecases.views import JobView, view_jobs
from sless.usecases.workloads import write_spec


class Jobs:
    def __init__(self, parts: UseCaseParts) -> None:
        self._parts = parts
        self._store = parts.store

    def create(self, caller: Caller, namespace: str, body: Any) -> JobView:
        """Raises Invalid, EXISTS, LIMIT_REACHED."""
        named = parse_function(body, kind=Kind.JOB, limits=self._parts.spec_limits)
        tenant = self._parts.ensure_tenant(caller, namespace)
        self._free_name(self._store.workloads.find(namespace, Kind.JOB, named.name))
        self._parts.check_count(tenant, LimitName.JOBS)
        self._parts.check_size(tenant, Kind.JOB, named.spec)
        job = self._store.workloads.insert(namespace, Kind.JOB, named.name, named.spec)
        self._ensure_run(job)
        return self._view(job)

    def get(self, namespace: str, name: str) -> JobView:
        return self._view(self._store.workloads.get(namespace, Kind.JOB, name))

    def list(self, namespace: str, *, limit: int | None, after: str | None) -> list[JobView]:
        return view_jobs(self._store, self._store.workloads.list_in(namespace, [Kind.JOB], limit=limit, after_name=after))

    def merge(self, namespace: str, name: str, body: Any, if_match: str | None = None) -> JobView:
        """Raises CONFLICT if run_id would decrease."""
        return merge_until_written(if_match, lambda: self._merge(namespace, name, body, if_match))

    def delete(self, namespace: str, name: str, if_match: str | None = None) -> JobView:
        job = self._store.workloads.get(namespace, Kind.JOB, name)
        check_match(if_match, etag_of(job.id, job.generation))
        self._store.workloads.mark_deleted(job.id)
        self._parts.wake("instances", "runs", "builds")
        return self._view(self._store.workloads.find_by_id(job.id) or replace(job, deleted_at=job.updated_at))

    def _merge(self, namespace: str, name: str, body: Any, if_match: str | None) -> JobView:
        job = self._store.workloads.get(namespace, Kind.JOB, name)
        spec = parse_function(body, Named(name=name, spec=job.spec), Mode.MERGE, kind=Kind.JOB, limits=self._parts.spec_limits).spec
        self._parts.check_size(self._store.tenants.find(namespace), Kind.JOB, spec)
        check_match(if_match, etag_of(job.id, job.generation))
        if spec.run_id < job.spec.run_id:
            message = f"expected {job.spec.run_id} or more (it was run already), found {spec.run_id}"
            raise SlessError(Code.CONFLICT, f"run_id: {message}", details=[Detail(field="run_id", message=message)])
        changed = write_spec(self._parts, job, spec, checked=True)
        # Also for an unchanged run_id: the run is unique, and a crash may have prevented it before.
        self._ensure_run(changed)
        return self._view(changed)

    def import_run(self, namespace: str, name: str, body: Any) -> JobView:
        """Sets run_id and stores its run as one that took place elsewhere, without running anything. Idempotent. Raises Invalid, CONFLICT
        for a lower run_id."""
        if mistakes := mistakes_of("ImportedRun", body):
            raise Invalid(*mistakes)
        job = self._store.workloads.get(namespace, Kind.JOB, name)
        wanted = replace(job, spec=replace(job.spec, run_id=body["run_id"]))
        if wanted.spec.run_id < job.spec.run_id:
            raise SlessError(Code.CONFLICT, f"run_id: expected {job.spec.run_id} or more, found {wanted.spec.run_id}")
        now, result = clock.now(), body.get("result")
        status = CallStatus.SKIPPED if result is None else CallStatus.SUCCEEDED
        run = replace(job_run(wanted, now), status=status, result=result, ended_at=now, message="imported: it was run elsewhere")
        # Store the run first, so that the new run_id does not start it.
        self._store.runs.insert(run)
        if wanted.spec != job.spec:
            self._store.workloads.update_spec(job.id, wanted.spec)
        return self._view(self._store.workloads.get(namespace, Kind.JOB, name))

    def _ensure_run(self, job: Workload) -> None:
        """Creates the run that run_id asks for. An upload never runs a job."""
        if job.spec.run_id == 0 or job.deleted_at is not None:
            return
        self._store.runs.insert(job_run(job, clock.now()))
        self._parts.wake("runs")

    def _free_name(self, owner: Workload | None) -> None:
        """Like `workloads.free_name`, but keeps a job whose run failed, since its code works."""
        if owner is None or owner.deleted_at is not None:
            return
        refuse_suspended(owner)
        newest = self._store.versions.find_newest(owner.id)
        if owner.active_version is None and newest is not None and self._view(owner).phase.phase is Phase.FAILED:
            self._store.workloads.mark_deleted(owner.id)
            return
        raise SlessError(Code.EXISTS, f'job "{owner.name}" already exists')

    def _view(self, job: Workload) -> JobView:
        return view_jobs(self._store, [job])[0]
