"""Reports on tenants, suspension and allowed code, for operators."""

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from sless import clock
from sless.domain.code_check import AllowedCode
from sless.domain.metering import UsageRow
from sless.domain.model import Kind, Tenant, Workload
from sless.domain.operators import FailingBuild, QueueDepth, ReconcileError, TenantReport, TimePlace
from sless.domain.routing import suspension_of
from sless.domain.validate import mistakes_of
from sless.errors import Code, Detail, Invalid, NotFound, SlessError
from sless.usecases.parts import UseCaseParts, refuse_suspended
from sless.usecases.tenants import USAGE_DAYS

MAX_BILLED_DAYS = 400
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHANGED = ("routes", "instances", "runs", "builds", "events", "cron")


class Operators:
    def __init__(self, parts: UseCaseParts) -> None:
        self._parts = parts
        self._store = parts.store

    def list(self, *, limit: int | None, after: str | None, suspended: bool | None = None) -> Sequence[TenantReport]:
        """Tenants by namespace. `suspended` filters: True only suspended ones, False only the others."""
        return self._reports(self._store.tenants.list(limit, after, suspended))

    def get(self, namespace: str) -> TenantReport:
        tenant = self._store.tenants.find(namespace)
        if tenant is None:
            raise NotFound("namespace", namespace)
        return self._reports([tenant])[0]

    def _reports(self, tenants: Sequence[Tenant]) -> Sequence[TenantReport]:
        names = [tenant.namespace for tenant in tenants]
        counts = self._store.tenant_reports.counts_of(names)
        calls = self._store.tenant_reports.calls_of(names, clock.now() - timedelta(days=USAGE_DAYS))
        reports = []
        for tenant in tenants:
            number, errors, gb_seconds = calls.get(tenant.namespace, (0, 0, 0.0))
            reports.append(
                TenantReport(
                    tenant=tenant, counts=counts[tenant.namespace], invocations=number, errors=errors, gb_seconds=gb_seconds
                )
            )  # fmt: skip
        return reports

    def suspend(self, namespace: str, body: Any) -> TenantReport:
        """Calls get a 503, instances and runs stop, triggers do not fire, the tenant cannot write. Raises NotFound, Invalid."""
        self._store.suspensions.set_tenant(namespace, _reason_of(body))
        self._parts.wake(*_CHANGED)
        return self.get(namespace)

    def resume(self, namespace: str) -> TenantReport:
        """Ends the suspension of the tenant; workloads suspended separately stay suspended. Raises NotFound."""
        self._store.suspensions.set_tenant(namespace, None)
        self._parts.wake(*_CHANGED)
        return self.get(namespace)

    def suspend_workload(self, namespace: str, kind: Kind, name: str, body: Any) -> Workload:
        """Suspends one function, service or job. Raises NotFound, Invalid."""
        return self._set(self._store.workloads.get(namespace, kind, name), _reason_of(body))

    def resume_workload(self, namespace: str, kind: Kind, name: str) -> Workload:
        return self._set(self._store.workloads.get(namespace, kind, name), None)

    def check_writable(self, namespace: str, kind: Kind | None, name: str | None) -> None:
        """Call this before a tenant changes anything in the namespace, or this workload. Raises READ_ONLY with the operator's reason."""
        reason = self._store.suspensions.find_tenant_reason(namespace)
        if reason is not None:
            raise SlessError(Code.READ_ONLY, f'namespace "{namespace}" is {suspension_of(reason)}')
        workload = self._store.workloads.find(namespace, kind, name) if kind is not None and name is not None else None
        if workload is not None:
            refuse_suspended(workload)

    def billing(self, first: date, last: date, namespace: str | None = None) -> Sequence[UsageRow]:
        """Usage by namespace and day. Raises Invalid."""
        if not first <= last <= first + timedelta(days=MAX_BILLED_DAYS):
            message = f"expected a day from {first} to {MAX_BILLED_DAYS} days later, found {last}"
            raise Invalid(Detail(field="to", message=message))
        return self._store.metering.usage(first, last, namespace)

    def failing_builds(self, limit: int | None, after: TimePlace | None = None) -> Sequence[FailingBuild]:
        """Newest first."""
        return self._store.tenant_reports.failing_builds(limit, after)

    def reconcile_errors(self, limit: int | None, after: TimePlace | None = None) -> Sequence[ReconcileError]:
        """Newest first."""
        return self._store.reconcile_errors.list(limit, after)

    def queues(self) -> Sequence[QueueDepth]:
        """The calls that wait in this process, then the stored queues, which all replicas share."""
        return [self._parts.waiting_calls(), *self._store.tenant_reports.queues()]

    def list_allowed(self, limit: int | None, after: str | None) -> Sequence[AllowedCode]:
        """By content hash."""
        return self._store.verdicts.list_allowed(limit, after)

    def allow(self, sha256: str, body: Any) -> AllowedCode:
        """Exempts this content from the code checks from now on. Raises Invalid."""
        _check_sha256(sha256)
        if mistakes := mistakes_of("AllowCode", body):
            raise Invalid(*mistakes)
        allowed = AllowedCode(sha256=sha256, reason=str(body.get("reason") or ""))
        self._store.verdicts.allow(allowed)
        return allowed

    def disallow(self, sha256: str) -> None:
        _check_sha256(sha256)
        if not self._store.verdicts.disallow(sha256):
            raise NotFound("allowed code", sha256)

    def _set(self, workload: Workload, reason: str | None) -> Workload:
        self._store.suspensions.set_workload(workload.id, reason)
        self._parts.wake(*_CHANGED)
        return self._store.workloads.get_by_id(workload.id)


def _check_sha256(text: str) -> None:
    if not _SHA256.fullmatch(text):
        raise Invalid(Detail(field="sha256", message=f"expected 64 hexadecimal digits in lower case, found {text[:80]!r}"))


def _reason_of(body: Any) -> str:
    if mistakes := mistakes_of("Suspend", body):
        raise Invalid(*mistakes)
    return str(body.get("reason") or "")
