"""Dependencies and helpers that all use cases share."""

import functools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sless import clock
from sless.code.intake import Intake
from sless.config import Settings
from sless.domain.instance_bounds import InstanceLimits, bounds_of
from sless.domain.limits import LimitName, TenantLimits, check_size, defaults_of, limits_of, refusal_of
from sless.domain.model import Kind, Tenant, Workload, WorkloadSpec
from sless.domain.operators import QueueDepth
from sless.domain.ports import CodeStore, Validator, Waker
from sless.domain.routing import suspension_of
from sless.domain.spec import SpecLimits
from sless.errors import Code, SlessError
from sless.store import Store
from sless.tokens import Caller

T = TypeVar("T")


def no_calls() -> QueueDepth:
    """For a process that takes no calls."""
    return QueueDepth(queue="calls", waiting=0, due_at=None)


LINES_FRESH_SEC = 0.4
"""Maximum age of the log lines that a reader gets."""
MERGE_SEC = 10.0
MERGE_PAUSE_SEC = 0.02


@dataclass(frozen=True, kw_only=True)
class UseCaseParts:
    settings: Settings
    store: Store
    code: CodeStore
    waker: Waker
    intake: Intake
    validator: Validator
    installation: str = ""
    """Id in the keys of uploads, so that installations can share a bucket."""
    routes_settled: Callable[[], bool] = lambda: True
    """Waits until this process routes by the current state of the database; False if that takes too long."""
    waiting_calls: Callable[[], QueueDepth] = no_calls
    """The calls that wait for an instance or a run slot in this process. Each replica of the server knows only its own."""

    @functools.cached_property
    def spec_limits(self) -> SpecLimits:
        limits = InstanceLimits(least=self.settings.min_instances, most=self.settings.max_instances)
        return SpecLimits(env_bytes=self.settings.max_env_bytes, instances=limits)

    def wake(self, *topics: str) -> None:
        for topic in topics:
            self.waker.wake(topic)

    def ensure_tenant(self, caller: Caller, namespace: str) -> Tenant:
        """Creates the tenant on first use. An operator who acts for a namespace does not become its subject."""
        return self.store.tenants.ensure(namespace, caller.tenant if caller.namespace == namespace else "")

    @functools.cached_property
    def default_limits(self) -> dict[str, int]:
        return defaults_of(self.settings)

    def limits_of(self, tenant: Tenant | None) -> TenantLimits:
        return limits_of(self.default_limits, tenant.limits if tenant else {})

    def check_count(self, tenant: Tenant, name: LimitName) -> None:
        """Raises LIMIT_REACHED if one more would exceed the limit. The limit is not exact, because two concurrent calls may both pass."""
        self.limits_of(tenant).check(name, self.store.tenants.counts(tenant.namespace)[name] + 1)

    def check_size(self, tenant: Tenant | None, kind: Kind, spec: WorkloadSpec) -> None:
        """Raises LIMIT_REACHED for a workload that could never run."""
        least = 0 if kind is Kind.JOB else bounds_of(kind, spec, self.settings.max_instances).least
        check_size(self.limits_of(tenant), least, spec.memory_mb)

    def check_code(self, namespace: str, size_bytes: int) -> None:
        """Call this before code is stored. Raises LIMIT_REACHED."""
        limits = self.limits_of(self.store.tenants.find(namespace))
        limits.check(LimitName.CODE_BYTES, self.store.tenants.code_bytes(namespace) + size_bytes)

    def count_build(self, namespace: str) -> None:
        """Call this before a version to build is created. Raises TOO_MANY_REQUESTS."""
        most = self.limits_of(self.store.tenants.find(namespace))[LimitName.BUILDS_PER_HOUR]
        if not self.store.tenants.count_build(namespace, most):
            now = clock.now()
            raise refusal_of(LimitName.BUILDS_PER_HOUR, most, most + 1, 3600 - now.minute * 60 - now.second)


COUNTED: dict[Kind, LimitName] = {Kind.FUNCTION: LimitName.FUNCTIONS, Kind.SERVICE: LimitName.SERVICES, Kind.JOB: LimitName.JOBS}


def refuse_suspended(workload: Workload) -> None:
    """Raises READ_ONLY with the operator's reason."""
    if workload.suspended is not None:
        raise SlessError(Code.READ_ONLY, f'{workload.kind} "{workload.name}" is {suspension_of(workload.suspended)}')


def etag_of(resource_id: str, generation: int) -> str:
    return f'"{resource_id}-{generation}"'


def check_match(if_match: str | None, etag: str) -> bool:
    """Whether If-Match names this state. Raises PRECONDITION_FAILED if it names another one."""
    if if_match is None or if_match.strip() == "*":
        return False
    if etag not in (part.strip() for part in if_match.split(",")):
        raise SlessError(
            Code.PRECONDITION_FAILED, f"If-Match: expected the current ETag {etag}; the resource has changed since it was read"
        )
    return True


def merge_until_written(if_match: str | None, attempt: Callable[[], T]) -> T:
    """Reads, merges and writes again if another request wrote in between, so that concurrent merges of different fields all succeed. With
    an If-Match, such a change results in a 412. Raises UNAVAILABLE if others win for MERGE_SEC."""
    deadline = time.monotonic() + MERGE_SEC
    while True:
        try:
            return attempt()
        except SlessError as error:
            if error.code is not Code.PRECONDITION_FAILED or (if_match is not None and if_match.strip() != "*"):
                raise
            if time.monotonic() >= deadline:
                raise SlessError(Code.UNAVAILABLE, "the resource changes too often; try again", retry_after_sec=1) from error
        time.sleep(random.uniform(0, MERGE_PAUSE_SEC))
