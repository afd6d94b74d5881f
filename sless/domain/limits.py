"""Limits of a tenant, as one table from which settings, requests, answers and refusals are derived. Pure.

The default of each limit is a setting. An operator may give a tenant other values, which are stored with the tenant.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sless.config import Settings
from sless.enums import StrEnum
from sless.errors import Code, SlessError

MOST = 2**50
"""The highest value that a limit can have."""


class LimitName(StrEnum):
    """Stable names, as in requests, answers and refusals."""

    FUNCTIONS = "functions"
    SERVICES = "services"
    TRIGGERS = "triggers"
    JOBS = "jobs"
    VERSIONS_KEPT = "versions_kept"
    CODE_BYTES = "code_bytes"
    BUILDS_PER_HOUR = "builds_per_hour"
    BUILDS_AT_ONCE = "builds_at_once"
    RUNS_AT_ONCE = "runs_at_once"
    INSTANCES = "instances"
    MEMORY_MB = "memory_mb"
    CALLS_PER_MINUTE = "calls_per_minute"
    ASYNC_PER_FUNCTION = "async_queued_per_function"
    ASYNC_PER_TENANT = "async_queued_per_tenant"
    ASYNC_BYTES = "async_queued_bytes_per_tenant"
    REQUEST_BYTES = "request_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """`setting` is the field of Settings with the default. `code` is the error code of a refusal; None if the excess waits or is removed
    instead."""

    setting: str
    unit: str
    code: Code | None
    text: str
    least: int = 0


LIMITS: dict[LimitName, Limit] = {
    LimitName.FUNCTIONS: Limit(setting="limit_functions", unit="functions", code=Code.LIMIT_REACHED, text="functions"),
    LimitName.SERVICES: Limit(setting="limit_services", unit="services", code=Code.LIMIT_REACHED, text="services"),
    LimitName.TRIGGERS: Limit(setting="limit_triggers", unit="triggers", code=Code.LIMIT_REACHED, text="triggers"),
    LimitName.JOBS: Limit(setting="limit_jobs", unit="jobs", code=Code.LIMIT_REACHED, text="jobs"),
    LimitName.VERSIONS_KEPT: Limit(
        setting="versions_kept", unit="versions", code=None, text="versions kept per function, service or job", least=1
    ),
    LimitName.CODE_BYTES: Limit(setting="limit_code_bytes", unit="bytes", code=Code.LIMIT_REACHED, text="stored code of all versions"),
    LimitName.BUILDS_PER_HOUR: Limit(
        setting="limit_builds_per_hour", unit="builds", code=Code.TOO_MANY_REQUESTS, text="builds started per clock hour (UTC)"
    ),
    LimitName.BUILDS_AT_ONCE: Limit(
        setting="limit_builds_at_once", unit="builds", code=None, text="concurrent builds; others wait", least=1
    ),
    LimitName.RUNS_AT_ONCE: Limit(
        setting="limit_runs_at_once", unit="runs", code=None,
        text="concurrent runs: jobs, and calls of functions without instances; others wait", least=1,
    ),
    LimitName.INSTANCES: Limit(setting="limit_instances", unit="instances", code=Code.LIMIT_REACHED, text="instances"),
    LimitName.MEMORY_MB: Limit(setting="limit_memory_mb", unit="MB", code=Code.LIMIT_REACHED, text="memory of instances and runs"),
    LimitName.CALLS_PER_MINUTE: Limit(
        setting="limit_calls_per_minute", unit="calls", code=Code.TOO_MANY_REQUESTS, text="calls per minute", least=1
    ),
    LimitName.ASYNC_PER_FUNCTION: Limit(
        setting="async_queued_per_function", unit="calls", code=Code.TOO_MANY_REQUESTS, text="waiting asynchronous calls per function"
    ),
    LimitName.ASYNC_PER_TENANT: Limit(
        setting="async_queued_per_tenant", unit="calls", code=Code.TOO_MANY_REQUESTS, text="waiting asynchronous calls"
    ),
    LimitName.ASYNC_BYTES: Limit(
        setting="async_queued_bytes_per_tenant", unit="bytes", code=Code.TOO_MANY_REQUESTS, text="size of waiting asynchronous calls"
    ),
    LimitName.REQUEST_BYTES: Limit(
        setting="max_call_body_bytes", unit="bytes", code=Code.TOO_LARGE, text="request body on /fn and invoke", least=1
    ),
}  # fmt: skip

SCHEMA: dict[str, dict[str, Any]] = {
    str(name): {
        "type": ["integer", "null"],
        "minimum": limit.least,
        "maximum": MOST,
        "default": None,
        "description": f"{limit.text} ({limit.unit}); null: the default, SLESS_{limit.setting.upper()}",
    }
    for name, limit in LIMITS.items()
}
"""The fields of a request that sets limits."""


class LimitExceeded(SlessError):
    """A refusal because of a limit of the tenant."""

    def __init__(self, limit: LimitName, code: Code, text: str, retry_after_sec: int | None = None) -> None:
        super().__init__(code, text, retry_after_sec=retry_after_sec)
        self.limit = limit


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """Effective limits of a tenant."""

    values: Mapping[str, int]

    def __getitem__(self, name: LimitName) -> int:
        return self.values[name]

    def check(self, name: LimitName, found: int) -> None:
        """Raises the limit's error if `found`, which includes what is asked for, exceeds it."""
        if found > self.values[name]:
            raise refusal_of(name, self.values[name], found)


def defaults_of(settings: Settings) -> dict[str, int]:
    return {str(name): int(getattr(settings, limit.setting)) for name, limit in LIMITS.items()}


def limits_of(defaults: Mapping[str, int], own: Mapping[str, int]) -> TenantLimits:
    """`own` holds the values set for the tenant; names unknown to this release are ignored."""
    return TenantLimits({name: own.get(name, value) for name, value in defaults.items()})


def check_size(limits: TenantLimits, least: int, memory_mb: int) -> None:
    """Checks that a workload with its minimum number of instances fits the limits. Raises LIMIT_REACHED."""
    limits.check(LimitName.INSTANCES, least)
    limits.check(LimitName.MEMORY_MB, memory_mb * max(1, least))


def short_text_of(name: LimitName, limits: TenantLimits) -> str:
    """Reason why work waits, or why there are fewer instances than needed."""
    return f"limit {name} of the namespace: at most {limits[name]} {LIMITS[name].unit} ({LIMITS[name].text})"


def refusal_of(name: LimitName, most: int, found: int, retry_after_sec: int | None = None) -> LimitExceeded:
    """The error for an exceeded limit. The limit must have a `code`."""
    limit = LIMITS[name]
    assert limit.code is not None
    text = f"limit {name} of the namespace: expected at most {most} {limit.unit} ({limit.text}), found {found} with this request"
    return LimitExceeded(name, limit.code, text, retry_after_sec)
