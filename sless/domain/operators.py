"""Reports on tenants and revoked tokens, for operators."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from sless.domain.model import Kind, Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePlace:
    """The place of an item in a list that is sorted by time, newest first. `key` sorts items of the same time, and is unique."""

    at: datetime
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedToken:
    """`token_id` is the `jti`. `sub` is empty if only the id was given."""

    token_id: str
    expires_at: datetime
    revoked_at: datetime
    sub: str
    reason: str

    @property
    def place(self) -> TimePlace:
        return TimePlace(at=self.revoked_at, key=self.token_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantReport:
    """`counts` of resources, as in `store.tenants.counts`; the other figures cover the days that `usage` shows."""

    tenant: Tenant
    counts: dict[str, int]
    invocations: int
    errors: int
    gb_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingBuild:
    """A workload whose newest version has failed. `active` is the version that still serves."""

    namespace: str
    kind: Kind
    name: str
    version: int
    active: int | None
    message: str
    failed_at: datetime
    version_id: str

    @property
    def place(self) -> TimePlace:
        return TimePlace(at=self.failed_at, key=self.version_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileError:
    """`workload_id` is empty for an error of a whole tick. `namespace`, `kind` and `name` are None for such an error, and for a workload
    that is gone. `message` is the newest of `count` errors."""

    loop: str
    workload_id: str
    namespace: str | None
    kind: Kind | None
    name: str | None
    message: str
    count: int
    first_at: datetime
    last_at: datetime

    @property
    def place(self) -> TimePlace:
        return TimePlace(at=self.last_at, key=f"{self.loop}/{self.workload_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """`due_at` is when the first entry was to start; None for an empty queue."""

    queue: str
    waiting: int
    due_at: datetime | None


def sub_hash_of(sub: str) -> str:
    """Lets operators tell tenants apart without seeing the subject."""
    return hashlib.sha256(sub.encode(errors="replace")).hexdigest()
