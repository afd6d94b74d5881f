"""The nouns of sless as data classes. The store returns its rows as these; they do not depend on how they are stored."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sless.enums import StrEnum


class Kind(StrEnum):
    FUNCTION = "function"
    SERVICE = "service"
    JOB = "job"


class Phase(StrEnum):
    PENDING = "Pending"
    BUILDING = "Building"
    DEPLOYING = "Deploying"
    READY = "Ready"
    FAILED = "Failed"
    DELETING = "Deleting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    SKIPPED = "Skipped"


class VersionState(StrEnum):
    """queued → building → ready | failed | cancelled. A newer upload cancels older ones that are not yet built."""

    QUEUED = "queued"
    BUILDING = "building"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CallStatus(StrEnum):
    """Status of an invocation and of a run (contract §2)."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    MISSED = "missed"
    SKIPPED = "skipped"
    DEAD = "dead"


class TriggerType(StrEnum):
    HTTP = "http"
    CRON = "cron"
    EVENT = "event"


class CallTrigger(StrEnum):
    """The kind of trigger that started a call: `context.trigger`."""

    HTTP = "http"
    CRON = "cron"
    EVENT = "event"
    JOB = "job"
    INVOKE = "invoke"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    namespace: str
    sub: str
    limits: dict[str, int]
    created_at: datetime
    suspended: str | None = None
    """The operator's reason for suspending the tenant; None: not suspended."""
    suspended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """Desired state. `runtime` and `entrypoint` apply to the next upload; each version keeps its own.

    `replicas` and `timeout_sec` 0 (no limit) are for services only. A service has either `replicas` or `min_instances` and `max_instances`
    (`domain.instance_bounds`). The job fields are None or 0 for other kinds.
    """

    runtime: str | None
    entrypoint: str | None
    memory_mb: int = 128
    timeout_sec: int = 30
    env_vars: dict[str, str] = field(default_factory=dict)
    build_env: dict[str, str] = field(default_factory=dict)
    secret_env: dict[str, str] = field(default_factory=dict)
    concurrency: int = 50
    event_format: str = "sless"
    description: str = ""
    display_name: str = ""
    replicas: int | None = 1
    min_instances: int | None = None
    max_instances: int | None = None
    idle_seconds: int = 300
    run_id: int = 0
    event_json: str = ""
    """Job: the event as text."""
    function_ref: str | None = None
    set_fields: tuple[str, ...] = ()
    """Job with `function_ref`: which of memory_mb and timeout_sec the user set; these override the function's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Last observed state of a workload's instances. Only the reconciler writes it."""

    generation: int = 0
    version: int | None = None
    ready_instances: int = 0
    message: str = ""
    failing: bool = False
    """An instance crashed or failed to start and is in back-off (ObservedDeployment.failing)."""
    wanted: int = 0
    """The generation that `message` and `failing` are about; if it is older than the workload's, they are out of date."""
    observed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    id: str
    namespace: str
    kind: Kind
    name: str
    spec: WorkloadSpec
    generation: int
    active_version: int | None
    observed: Observed
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None
    suspended: str | None = None
    """The operator's reason for suspending it or its tenant; None: not suspended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One immutable upload. `code_key` is the key of the zip in the code store. `artifact` is the build result: the key of the dependency
    folder for the local builder ("" if there was nothing to install), the image reference on Kubernetes. If the version is not ready, it is
    an image that its build may have stored, and that goes with the version."""

    id: str
    workload_id: str
    number: int
    sha256: str
    code_hash: str | None
    """`code_hash` as sent by the client."""
    runtime: str
    entrypoint: str
    state: VersionState
    message: str
    code_key: str
    artifact: str
    size_bytes: int
    attempts: int
    auto_activate: bool
    build_env: dict[str, str]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    warnings: tuple[str, ...] = ()
    """Warnings from the code checks."""
    created_by: str | None = None
    """Subject of the token that made it; None if it was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """`spec` holds the fields of its type (see `domain.schemas`), `secrets` the write-only ones."""

    id: str
    namespace: str
    name: str
    type: TriggerType
    function_ref: str
    enabled: bool
    spec: dict[str, Any]
    secrets: dict[str, str]
    generation: int
    created_at: datetime
    updated_at: datetime
    last_schedule_time: datetime | None = None
    last_status: str | None = None
    observed_message: str = ""
    observed_active: bool = False
    """Event: a listener consumes the queue."""
    scheduled_since: datetime | None = None
    """Cron: when it was created, enabled, rescheduled or given another target. Earlier firings do not count."""
    warm: bool = False
    """Cron: an instance is kept warm for an imminent firing. Written by the scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Work accepted for later: a job's run, an asynchronous call or a cron firing. Its id is the invocation's id.

    `event` is JSON text. `job_run_id` numbers a job's runs, unique per workload. `trigger_id` and `due_at` identify a cron firing, unique
    together. `attempts` counts all attempts, `attempts_before` those before the last manual retry.
    """

    id: str
    namespace: str
    workload_id: str
    kind: Kind
    name: str
    trigger: CallTrigger
    request_id: str
    event: str
    max_attempts: int
    not_before: datetime
    created_at: datetime
    status: CallStatus = CallStatus.QUEUED
    job_run_id: int | None = None
    trigger_id: str | None = None
    due_at: datetime | None = None
    version: int | None = None
    attempts: int = 0
    claimed_by: str | None = None
    result: str | None = None
    message: str = ""
    exit_code: int | None = None
    http_status: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    callback_url: str | None = None
    attempts_before: int = 0
    request: str | None = None
    """Head and body of a call over /fn (`domain.request`), from which the event is derived."""
    size_bytes: int = 0
    """Size of the stored event and request of an asynchronous call; counts towards the limits of the queue."""
    quarantined: bool = False
    """An instance exited during this call, so it never runs together with another quarantined run of the workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A callable instance. `address` is `unix:/path` or `host:port`."""

    id: str
    workload_id: str
    version: int
    address: str
    draining: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """`seq` counts within `source_id` (an instance, or one attempt of a run). The pair is unique, so storing a line twice has no effect."""

    source_id: str
    seq: int
    workload_id: str
    invocation_id: str
    """Empty if the line does not belong to a call."""
    at: datetime
    stream: str
    text: str
    namespace: str = field(default="", compare=False)
    """Only known until the line is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call in history."""

    id: str
    request_id: str
    namespace: str
    workload_id: str
    kind: Kind
    name: str
    version: int | None
    trigger: CallTrigger
    method: str
    path: str
    status: CallStatus
    http_status: int | None
    duration_ms: float | None
    cold: bool
    attempts: int
    error: str | None
    request_bytes: int
    response_bytes: int
    started_at: datetime
    finished_at: datetime | None
    result: str | None = None
