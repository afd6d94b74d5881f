"""A call's request and its record, independent of ASGI and uvicorn."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, time
from typing import Any, Protocol

from sless.domain.model import CallStatus, CallTrigger
from sless.domain.ports import Route
from sless.errors import Code, SlessError
from sless.ids import new_call_id, valid_request_id

Headers = list[tuple[bytes, bytes]]
"""Names in lower case, in their original order."""


class CallerGone(Exception):
    """The caller closed its connection."""


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """Limit on a request body. `setting` is named in the error."""

    max_bytes: int
    setting: str

    def check(self, size_bytes: int) -> None:
        """Raises SlessError TOO_LARGE."""
        if size_bytes > self.max_bytes:
            raise SlessError(Code.TOO_LARGE, f"the request body is over the limit of {self.max_bytes} bytes ({self.setting})")


class Request:
    """The head that the caller sent. `target` is path and query for the instance."""

    extra = ""
    """Further header lines for the instance, each after a line break."""
    __slots__ = (
        "client",
        "framed",
        "full_path",
        "headers",
        "length",
        "method",
        "query",
        "request_id",
        "scheme",
        "shown_path",
        "streamed",
        "target",
    )

    def __init__(self, method: str, full_path: bytes, query: bytes, headers: Headers) -> None:
        self.method = method
        self.full_path = full_path
        self.shown_path = full_path
        """The path as sent by the caller, which has no /fn/… on a function's own host."""
        self.query = query
        self.headers = headers
        self.target = b"/"
        self.framed: tuple[Route, Any] | None = None
        """The relay's cached result for this request."""
        self.client = ""
        self.scheme = "http"
        self.request_id: str | None = None
        """The first X-Request-Id, if it is valid."""
        self.length = 0
        self.streamed = False
        """Chunked: the length is unknown."""
        for name, value in headers:
            if name == b"content-length":
                self.length = int(value)
            elif name == b"transfer-encoding":
                self.streamed = True
            elif name == b"x-request-id" and self.request_id is None:
                self.request_id = valid_request_id(value.decode("latin-1"))

    @property
    def on_own_host(self) -> bool:
        """Whether the call came to a host of the function, not to one shared with the console."""
        return self.shown_path != self.full_path

    @property
    def has_body(self) -> bool:
        return self.streamed or self.length > 0

    def header(self, name: bytes) -> bytes | None:
        """The first header of that name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    def text(self, name: bytes) -> str:
        """The first header of that name as text, "" without one."""
        return (self.header(name) or b"").decode("latin-1")


class CallerStream(Protocol):
    """The caller's side of one call."""

    async def read(self) -> tuple[bytes, bool]:
        """The next part of the body, and whether more follows. Raises CallerGone, and SlessError if none arrives in time."""

    def watch(self, gone: Callable[[], None]) -> None:
        """Calls `gone` when the caller leaves. Use it only after the whole body has been read."""

    async def start(self, status: int, headers: Headers) -> None: ...

    async def write(self, data: bytes, more: bool) -> None:
        """Returns when the caller can take more."""

    def abort(self) -> None:
        """Aborts the answer so that the caller notices."""


class CallRecord:
    """The record of a running call; the recorder turns it into an Invocation. A plain mutable object, because ten thousand calls a
    second need one each, and a frozen dataclass costs five times as much."""

    attempts = 1
    __slots__ = (
        "cold", "duration_ms", "error", "http_status", "id", "method", "path", "refused", "request_bytes", "request_id",
        "response_bytes", "route", "started", "started_at", "status", "trigger", "version",
    )  # fmt: skip

    def __init__(self, route: Route, trigger: CallTrigger, request: Request) -> None:
        self.id = new_call_id()
        self.request_id = request.request_id or self.id
        self.route = route
        self.trigger = trigger
        self.method = request.method
        self.path = request.full_path
        self.started_at = time()
        self.started = monotonic()
        self.version: int | None = None
        self.cold = False
        self.status: CallStatus | None = None
        self.http_status: int | None = None
        self.duration_ms = 0.0
        self.error: str | None = None
        self.refused = False
        self.request_bytes = 0
        self.response_bytes = 0

    def begin(self, version: int) -> None:
        """Call this when the call gets an instance."""
        self.version = version

    def finish(self, status: CallStatus, error: str | None = None) -> None:
        """Ends the record; only the first call counts."""
        if self.status is None:
            self.status = status
            self.duration_ms = (monotonic() - self.started) * 1000
            if error is not None:
                self.error = error

    def note_answer(self, status: int, error: str | None, fault: str | None) -> None:
        """Takes the head that is about to be sent; `fault` is the code of a refusal by the runtime."""
        self.http_status = status
        self.error = error
        self.refused = fault is not None

    def finish_answered(self) -> None:
        """Ends the record according to the answer: a function's own 4xx is a success; its 5xx, and a refusal by the runtime before the
        handler ran, are failures."""
        self.finish(CallStatus.FAILED if self.refused or (self.http_status or 0) >= 500 else CallStatus.SUCCEEDED)
