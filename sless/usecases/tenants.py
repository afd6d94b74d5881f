"""Namespaces: one per tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sless import clock
from sless.domain.audit import AuditEntry, Note
from sless.domain.limits import LIMITS
from sless.domain.model import Kind, Tenant
from sless.domain.statistics import DayUsage
from sless.domain.uptime import with_uptime
from sless.domain.validate import mistakes_of
from sless.errors import Code, Detail, Invalid, NotFound, SlessError
from sless.tokens import Caller
from sless.usecases.parts import UseCaseParts

USAGE_DAYS = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    counts: dict[str, int]
    limits: dict[str, int]
    days: list[DayUsage]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsView:
    """`own` are the values set for the tenant (None: the default), `limits` those in effect."""

    namespace: str
    own: dict[str, int | None]
    limits: dict[str, int]


class TenantUseCases:
    def __init__(self, parts: UseCaseParts) -> None:
        self._parts = parts
        self._store = parts.store

    def ensure(self, caller: Caller, namespace: str) -> Tenant:
        return self._parts.ensure_tenant(caller, namespace)

    def find(self, namespace: str) -> Tenant | None:
        return self._store.tenants.find(namespace)

    def list(self, caller: Caller, *, limit: int | None, after: str | None) -> list[Tenant]:
        """Namespaces of all tenants. Raises FORBIDDEN unless the caller is an operator."""
        caller.check_operator()
        return self._store.tenants.list(limit, after)

    def limits(self, namespace: str) -> LimitsView:
        """Raises NotFound for a namespace that does not exist."""
        tenant = self._store.tenants.find(namespace)
        if tenant is None:
            raise NotFound("namespace", namespace)
        return self._limits_view(tenant)

    def set_limits(self, namespace: str, body: Any) -> LimitsView:
        """Replaces the limits set for a namespace, which is created if necessary. Missing or null limits return to their defaults. What
        exceeds a lowered limit stays. Raises Invalid."""
        if mistakes := mistakes_of("TenantLimits", body):
            raise Invalid(*mistakes)
        own = {str(name): body[name] for name in LIMITS if body.get(name) is not None}
        tenant = self._store.tenants.set_limits(namespace, own)
        self._parts.wake("routes", "instances", "builds", "runs")
        return self._limits_view(tenant)

    def _limits_view(self, tenant: Tenant) -> LimitsView:
        own = {str(name): tenant.limits.get(name) for name in LIMITS}
        return LimitsView(namespace=tenant.namespace, own=own, limits=dict(self._parts.limits_of(tenant).values))

    def limits_in_effect(self, tenant: Tenant) -> dict[str, int]:
        return dict(self._parts.limits_of(tenant).values)

    def delete(self, namespace: str, confirm: str | None) -> int:
        """Deletes everything in it; returns the number of resources. Raises Invalid unless `confirm` is the name. Instances stop later."""
        if confirm != namespace:
            message = f"expected the namespace: ?confirm={namespace}; everything in it will be deleted"
            raise Invalid(Detail(field="confirm", message=message))
        self._store.audit.add(Note(namespace=namespace, kind="namespace", name=namespace, verb="delete"))
        triggers = self._store.triggers.list_in(namespace)
        for trigger in triggers:
            self._store.triggers.remove(trigger.id)
        workloads = self._store.workloads.list_in(namespace, list(Kind))
        for workload in workloads:
            self._store.workloads.mark_deleted(workload.id)
        try:
            self._store.tenants.delete(namespace)
        except SlessError as error:
            if error.code is not Code.CONFLICT:  # not empty until the last instance has stopped, so the row stays
                raise
        self._parts.wake("routes", "instances", "runs", "builds")
        return len(triggers) + len(workloads)

    def audit(
        self, namespace: str | None, *, limit: int | None, before_id: int | None, since: datetime | None, name: str | None
    ) -> Sequence[AuditEntry]:
        """Entries of the audit trail, newest first; of the whole installation if `namespace` is None (for operators). Also for a deleted
        namespace, as long as they are kept."""
        return self._store.audit.list_in(namespace, limit=limit, before_id=before_id, since=since, name=name)

    def usage(self, namespace: str) -> Usage:
        tenant = self._store.tenants.find(namespace)
        since = clock.now() - timedelta(days=USAGE_DAYS)
        return Usage(
            counts=self._store.tenants.used(namespace),
            limits=dict(self._parts.limits_of(tenant).values),
            days=with_uptime(self._store.history.usage(namespace, since), self._store.uptime.by_day(namespace, since)),
        )
