"""Protocols that `app` implements, and the values they exchange. A room that may not import another declares here what it needs."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from sless.domain.blobs import StoredBlob
from sless.domain.building import Builder as Builder
from sless.domain.building import BuilderUnavailable as BuilderUnavailable
from sless.domain.building import BuildSpec as BuildSpec
from sless.domain.building import BuildStatus as BuildStatus
from sless.domain.building import ContextStore as ContextStore
from sless.domain.code_check import CodeToCheck, Opinion
from sless.domain.event import result_of
from sless.domain.model import CallStatus, CallTrigger, Endpoint, Invocation, Kind, LogLine, Run
from sless.domain.statistics import CallStats
from sless.errors import Code, SlessError

# --- instances and runs ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Everything a backend needs to start user code once: code, limits, environment. `env` is env_vars and secret_env merged."""

    workload_id: str
    namespace: str
    name: str
    kind: Kind
    version: int
    runtime: str
    entrypoint: str
    code_key: str
    artifact: str
    memory_mb: int
    timeout_sec: int
    concurrency: int = 50
    event_format: str = "sless"
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Desired instances of one workload. Nothing is rolled out if revision and replicas are unchanged, whatever the generation."""

    revision: Revision
    replicas: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDeployment:
    """`generation` is the newest one for which all replicas are ready (0: none yet). `message` says why instances are missing ("" if none
    are). `failing`: an instance crashed or failed to start and is in back-off. `wanted` is the generation last given to the backend;
    `message` and `failing` are about that one."""

    workload_id: str
    generation: int
    endpoints: tuple[Endpoint, ...]
    message: str = ""
    failing: bool = False
    wanted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One run: `id` is the invocation's id, `event` JSON text."""

    id: str
    revision: Revision
    event: str
    request_id: str
    trigger: CallTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A handler's answer, or its failure. `body` holds the bytes that server mode would have sent. An error without `error_type` means
    that the handler itself answered with an error status."""

    ok: bool
    error: str | None
    error_type: str | None
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def result(self) -> str | None:
        """JSON text, the same for runs and calls of instances; None for a failure."""
        return result_of(self.status, self.headers, self.body) if self.ok else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """`status` is running, succeeded, failed, timeout or cancelled. `outcome` is None if the process left none (killed, exited); then
    `message` is the reason for users, with the last log lines. `non_retryable`: the same run would end the same way again. `crashed`: the
    instance exited during the call, because of this call or another one."""

    id: str
    status: CallStatus
    outcome: Outcome | None = None
    exit_code: int | None = None
    message: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    non_retryable: bool = False
    crashed: bool = False


class Backend(Protocol):
    """Runs user code. Methods are idempotent, may be called from any thread and return soon; slow work happens in the background and shows
    in `observe`. They raise BackendUnavailable if the state cannot be read."""

    def observe(self) -> dict[str, ObservedDeployment]:
        """All deployments of this installation by workload id."""

    def apply(self, deployment: Deployment) -> None:
        """Starts or rolls out towards the desired state: new instances first; old ones drain once the new ones are ready."""

    def remove(self, workload_id: str) -> None:
        """Drains and stops all instances. `observe` omits the workload once nothing of it is left."""

    def keep_namespaces(self, in_use: Collection[str]) -> None:
        """`in_use` are the namespaces with workloads; the backend may delete what it created for others."""

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None:
        """Starts one run unless its id is known; `done` is called from a thread of the backend when it has ended. Raises
        errors.SlessError if this machine has no room for it."""

    def observe_runs(self) -> dict[str, ObservedRun]:
        """Active runs, and ended ones that have not been removed, including those of an earlier process."""

    def remove_run(self, run_id: str) -> None:
        """Stops the run if it is active and discards its outcome."""

    def why_gone(self, endpoint_id: str) -> str | None:
        """Why an instance ended (`out of memory: used 140 of 128 MB`, `function exited with code 3`); None if it runs or is unknown."""

    def report_unresponsive(self, endpoint_id: str) -> None:
        """A call on this instance timed out: check the instance soon, and replace it if it is unresponsive."""

    def close(self) -> None:
        """Stops everything this process started. Blocks until it has ended."""


class BackendUnavailable(Exception):
    """The state cannot be read. Nothing may be concluded from that, so the tick ends without changes."""


# --- code ---


class CodeStore(Protocol):
    """Immutable blobs (normalised zips) by key, `ns/workload_id/sha256-upload.zip`. `put` is atomic, and durable when it returns."""

    def put(self, key: str, source: Path) -> None: ...

    def open(self, key: str) -> BinaryIO:
        """Raises errors.NotFound."""

    def delete(self, key: str) -> None:
        """Ignores missing keys."""

    def list_blobs(self) -> Iterable[StoredBlob]:
        """All blobs, including those of other installations that share the store."""


class CodeCheck(Protocol):
    """One check of uploaded code."""

    @property
    def name(self) -> str: ...

    def opinion_of(self, code: CodeToCheck) -> Opinion:
        """Blocks for as long as it takes; a check that cannot give a verdict says so in its opinion."""


class Validator(Protocol):
    """All checks of code before it becomes a version."""

    def validate(self, code: CodeToCheck) -> tuple[str, ...]:
        """The warnings for the version. Blocks. Raises errors.SlessError INVALID_CODE when the code is refused."""


class VerdictStore(Protocol):
    """Opinions by content hash and prompt, and the code that an operator has allowed."""

    def find(self, sha256: str, prompt_key: str) -> Opinion | None: ...

    def keep(self, sha256: str, prompt_key: str, opinion: Opinion) -> None: ...

    def is_allowed(self, sha256: str) -> bool: ...


# --- calls ---


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPolicy:
    """An http trigger, as the proxy needs it. `key_hashes` are sha256 hex digests of the accepted `X-Sless-Key` values."""

    enabled: bool = True
    methods: tuple[str, ...] = ()
    auth: str = "none"
    key_hashes: tuple[str, ...] = ()
    cors: dict[str, Any] | None = None
    rate_limit: int | None = None
    callbacks: bool = False
    """Whether anonymous callers may ask for callbacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One workload, as the proxy sees it. `revision` is None until a version is ready, `http` None without an http trigger. `blocked`
    says why calls cannot be served now (code, sentence); None if they can."""

    workload_id: str
    namespace: str
    name: str
    kind: Kind
    revision: Revision | None
    http: HttpPolicy | None
    wants_instances: bool
    endpoints: tuple[Endpoint, ...]
    blocked: tuple[Code, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSnapshot:
    """`limits`: values that operators have set, by namespace."""

    revision: int
    routes: tuple[Route, ...]
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class RouteSource(Protocol):
    def find_snapshot(self, since_revision: int) -> RouteSnapshot | None:
        """All routes, or None if nothing has changed since that revision. Called from a thread."""


class HistorySink(Protocol):
    def add_history(self, invocations: Sequence[Invocation], stats: Iterable[CallStats], lines: Sequence[LogLine]) -> None:
        """Writes one batch in one transaction. Existing rows and lines are left unchanged; stats are added up."""


class AsyncQueue(Protocol):
    def accept_all(self, runs: Sequence[Run]) -> Sequence[SlessError | None]:
        """One entry per run: None if it is durable, else why it was refused. Raises SlessError when none could be written."""


class Invoker(Protocol):
    """Calls a workload for a control loop: on an instance if the workload has any, else as a one-off run."""

    def begin(self, run: Run, timeout_sec: float, done: Callable[[ObservedRun], None]) -> Callable[[], None]:
        """Returns at once. Calls `done` once, from any thread, also if the call could not be made. The returned function cancels the call;
        `done` then gets a cancelled run. Raises SlessError when the server is stopping."""


class Waker(Protocol):
    def wake(self, topic: "str") -> None:
        """Makes the loop of this topic (`builds`, `instances`, `runs`, `routes`, `cron` …) tick now. An optimisation only."""


# --- followed logs -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest:
    """`version` is set for a build log. `query` holds the last value of each parameter, `after` the cursor of a reconnecting caller
    (Last-Event-ID), None at first."""

    namespace: str
    kind: Kind
    name: str
    version: int | None
    query: dict[str, str]
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowPage:
    """The next lines for the caller, without line breaks. `after` is the cursor after them. `ended` holds the final state (of a build)
    once no more lines follow."""

    lines: tuple[str, ...]
    after: int
    ended: str | None = None


class Follower(Protocol):
    def read(self) -> FollowPage:
        """Lines since the last `read`. Called in a thread, one call at a time."""
