"""What operators see and decide about tenants."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from sless.domain.model import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedToken:
    """`token_id` is the `jti`. `sub` is empty if only that was known."""

    token_id: str
    expires_at: datetime
    revoked_at: datetime
    sub: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantReport:
    """`counts` of resources, as in `store.tenants.counts`; the rest is of the last days that usage shows."""

    tenant: Tenant
    counts: dict[str, int]
    invocations: int
    errors: int
    gb_seconds: float


def sub_hash_of(sub: str) -> str:
    """Tells operators which tenant it is without showing the subject."""
    return hashlib.sha256(sub.encode(errors="replace")).hexdigest()
