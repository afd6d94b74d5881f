"""Protocols that `app` fills, and the values that cross them. A part that may not import another names here what it needs of it."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from sless.domain.building import Builder as Builder
from sless.domain.building import BuilderUnavailable as BuilderUnavailable
from sless.domain.building import BuildSpec as BuildSpec
from sless.domain.building import BuildStatus as BuildStatus
from sless.domain.building import ContextStore as ContextStore
from sless.domain.event import result_of
from sless.domain.model import CallStatus, CallTrigger, Endpoint, Invocation, Kind, LogLine, Run
from sless.domain.statistics import CallStats
from sless.errors import Code

# --- what runs ---


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
    """The wish for standing instances of one workload. Equal revisions and replicas need no roll-out, whatever the generation."""

    revision: Revision
    replicas: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDeployment:
    """`generation` is the newest one for which all replicas are ready (0: none yet). `message` says why instances are missing, "" if none
    are; `failing` when an instance crashed or could not start and is in back-off."""

    workload_id: str
    generation: int
    endpoints: tuple[Endpoint, ...]
    message: str = ""
    failing: bool = False


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
    """What a handler answered, or why it did not. `body` are the bytes server mode would have sent. `error_type` None with an error: the
    answer was meant, and its status says that it is a failure."""

    ok: bool
    error: str | None
    error_type: str | None
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def result(self) -> str | None:
        """JSON text, the same for a run and a call of an instance; None of a failure."""
        return result_of(self.status, self.headers, self.body) if self.ok else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """`status` running, succeeded, failed, timeout or cancelled. `outcome` is None when the process left none (killed, exited); then
    `message` says why in a user's words, with the last log lines. `non_retryable`: the same run would end the same way again.
    `crashed`: the instance ended meanwhile, be it for this call or for another one that it had."""

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
    """Where user code runs. Methods are idempotent, may be called from any thread and return soon; slow work happens in the background
    and shows in `observe`. Raises BackendUnavailable when it cannot see."""

    def observe(self) -> dict[str, ObservedDeployment]:
        """All deployments of this installation by workload id."""

    def apply(self, deployment: Deployment) -> None:
        """Starts or rolls towards the wish: new instances first, old ones drained after the new are ready."""

    def remove(self, workload_id: str) -> None:
        """Drains and stops all instances; `observe` stops showing the workload when nothing of it runs."""

    def keep_namespaces(self, in_use: Collection[str]) -> None:
        """The tenants' namespaces that hold workloads; what the backend made for others may go."""

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None:
        """Starts one run; `done` is called from a thread of the backend when it has ended. A known id starts nothing.
        Raises errors.SlessError when this machine has no room for it."""

    def observe_runs(self) -> dict[str, ObservedRun]:
        """Runs that are going on or whose outcome has not been removed, also those of an earlier process."""

    def remove_run(self, run_id: str) -> None:
        """Stops the run if it goes on, forgets its outcome."""

    def why_gone(self, endpoint_id: str) -> str | None:
        """Why an instance ended (`out of memory: used 140 of 128 MB`, `function exited with code 3`), None when it runs or is unknown."""

    def report_unresponsive(self, endpoint_id: str) -> None:
        """A call on this instance went over its time: look at it soon, replace it if calls hang in it."""

    def close(self) -> None:
        """Ends everything this process started. Blocks until it is gone."""


class BackendUnavailable(Exception):
    """Cannot see, which is not the same as gone: the tick ends and nothing changes."""


# --- code ---


class CodeStore(Protocol):
    """Immutable blobs (normalised zips) by key, `ns/workload_id/sha256-upload.zip`. `put` is all or nothing and durable when it returns."""

    def put(self, key: str, source: Path) -> None: ...

    def open(self, key: str) -> BinaryIO:
        """Raises errors.NotFound."""

    def delete(self, key: str) -> None:
        """An absent key is no error."""


# --- calls ---


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPolicy:
    """An http trigger as the proxy needs it. `key_hashes` are sha256 hex digests of the accepted `X-Sless-Key` values."""

    enabled: bool = True
    methods: tuple[str, ...] = ()
    auth: str = "none"
    key_hashes: tuple[str, ...] = ()
    cors: dict[str, Any] | None = None
    rate_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One workload as the proxy sees it. `revision` None: no version has ever become ready. `blocked` is why a call cannot be
    served now (code, sentence), None if it can; `http` None: no http trigger."""

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
    revision: int
    routes: tuple[Route, ...]


class RouteSource(Protocol):
    def find_snapshot(self, since_revision: int) -> RouteSnapshot | None:
        """All routes, or None when nothing has changed since that revision. Called from a thread."""


class HistorySink(Protocol):
    def add_history(self, invocations: Sequence[Invocation], stats: Iterable[CallStats], lines: Sequence[LogLine]) -> None:
        """Writes one batch in one transaction. Rows and lines that are there already are left as they are; stats are added up."""


class AsyncQueue(Protocol):
    def accept_all(self, runs: Sequence[Run]) -> None:
        """Durable when it returns. Raises SlessError when it cannot take them all; then it has taken none."""


class Invoker(Protocol):
    """Calls a workload for a reconciler: an instance if the workload has any, else a one-off run."""

    def begin(self, run: Run, timeout_sec: float, done: Callable[[ObservedRun], None]) -> Callable[[], None]:
        """Does not wait: calls `done` once, from any thread, also when the call could not be made. Returns a function that cancels the
        call; `done` then gets a cancelled run. Raises SlessError when the server is stopping."""


class Waker(Protocol):
    def wake(self, topic: "str") -> None:
        """Makes the loop of this topic (`builds`, `instances`, `runs`, `routes`, `cron` …) tick now. Never needed for correctness."""


# --- what is followed -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest:
    """`version` is set for a build log. `query` holds the last value of each parameter; `after` is the cursor of a caller that comes
    back (Last-Event-ID), None at first."""

    namespace: str
    kind: Kind
    name: str
    version: int | None
    query: dict[str, str]
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowPage:
    """Lines behind the last page as the caller sees them, without line breaks. `after` is the cursor behind them; `ended` holds the final
    word (a build's state) when nothing more will come."""

    lines: tuple[str, ...]
    after: int
    ended: str | None = None


class Follower(Protocol):
    def read(self) -> FollowPage:
        """What is new since the last `read`. Called in a thread, one call at a time."""
