"""The fast path, without a task or coroutine: a small call, whose body has arrived, to an instance with a free slot and an idle connection.

The instance's packets go straight to the caller's socket. `Relays.begin` either takes a call or declines it before anything has happened;
declined calls take the slow path (`invoke`, `forward`). Both paths share the table, the slots, the header rules, the sweep, the record and
the tests.
"""

import asyncio
from time import monotonic
from typing import Protocol

from sless import metrics
from sless.domain.model import CallStatus, CallTrigger
from sless.domain.ports import Route
from sless.errors import SlessError
from sless.proxy.exchange import NEVER, broken_at
from sless.proxy.failure import status_of
from sless.proxy.forward import Forwarder
from sless.proxy.heads import STATUS_LINES, RequestFrame, Trust, kept_of, request_frame
from sless.proxy.isolation import isolated
from sless.proxy.known_answer import KnownAnswer, KnownHead
from sless.proxy.live_route import Leased
from sless.proxy.recorder import Recorder
from sless.proxy.refuse import error_answer
from sless.proxy.request import CallerGone, CallRecord, Headers, Request
from sless.proxy.routes import RouteTable


class CallerSocket(Protocol):
    """The part of the caller's connection that a relay uses."""

    keep_alive: bool

    def relay_write(self, data: bytes) -> None: ...

    def relay_end(self) -> None:
        """The answer is complete."""

    def relay_abort(self) -> None:
        """The answer is incomplete, and the caller must notice."""


class Relays:
    def __init__(self, table: RouteTable, forwarder: Forwarder, recorder: Recorder) -> None:
        self._table = table
        self.forwarder = forwarder
        self.recorder = recorder
        self.explaining: set[asyncio.Task[None]] = set()

    def waits_for_body(self, path: bytes) -> bool:
        """Whether to call `begin` once the body has arrived. Otherwise the call may be refused because of its head."""
        end = _prefix_end(path)
        live = self._table.find_by_prefix(path if end < 0 else path[:end])
        return live is not None and live.direct

    def begin(self, request: Request, body: bytes, caller: CallerSocket) -> "Relay | None":
        """`request.full_path` must start with /fn/. Returns None if the call has to take the slow path."""
        path = request.full_path
        end = _prefix_end(path)
        live = self._table.find_by_prefix(path if end < 0 else path[:end])
        if live is None or not live.direct:
            return None
        rest = b"/" if end < 0 else path[end:]
        if b"." in rest or b"%2" in rest or len(body) > live.tenant.body_limit.max_bytes:
            return None
        leased = live.find_idle()
        if leased is None:
            return None
        if not live.tenant.admit():  # the slow path refuses it
            leased.instance.give_back(leased.connection)
            live.release(leased.instance)
            return None
        request.target = rest + b"?" + request.query if request.query else rest
        relay = Relay(self, leased, request, caller)
        relay.start(request, body)
        return relay


def _prefix_end(path: bytes) -> int:
    """Where /fn/{namespace}/{name} ends; -1 if it is the whole path."""
    return path.find(b"/", path.find(b"/", 4) + 1)


def _frame_of(request: Request, route: Route, trust: Trust) -> RequestFrame:
    """Cached for a request that is repeated on a connection, as long as the route stays the same."""
    framed = request.framed
    if framed is not None and framed[0] is route:
        frame: RequestFrame = framed[1]
        return frame
    revision = route.revision
    frame = request_frame(request, CallTrigger.HTTP, revision.timeout_sec if revision else 0, trust)
    request.framed = route, frame
    return frame


class Relay:
    """One call on the fast path: receives from the connection; the sweep enforces its time-out."""

    __slots__ = (
        "_caller", "_chunked", "_connection", "_head_only", "_instance", "_live", "_own_host", "_pieces", "_relays", "_started",
        "_timeout_sec", "call", "deadline", "over",
    )  # fmt: skip

    def __init__(self, relays: Relays, leased: Leased, request: Request, caller: CallerSocket) -> None:
        live = leased.live
        revision = live.route.revision
        self.call = CallRecord(live.route, CallTrigger.HTTP, request)
        self.call.version = leased.instance.endpoint.version
        self.over = False
        self._timeout_sec = (revision.timeout_sec if revision else 0) or NEVER
        self.deadline = NEVER
        self._relays = relays
        self._live = live
        self._instance = leased.instance
        self._connection = leased.connection
        self._caller = caller
        self._started = False
        self._pieces: list[bytes] = []
        """Parts of the packet being parsed: collected to make one system call per packet instead of one per part."""
        self._chunked = False
        self._head_only = request.method == "HEAD"
        self._own_host = request.on_own_host

    def start(self, request: Request, body: bytes) -> None:
        forwarder, connection, call = self._relays.forwarder, self._connection, self.call
        self._instance.calls += 1
        call.request_bytes = len(body)
        head = _frame_of(request, call.route, forwarder.options.trust).head_of(call)
        connection.begin(self, head_only=self._head_only)
        if body or request.method not in ("GET", "HEAD"):
            connection.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        else:
            connection.write(head + b"\r\n")
        self.deadline = call.started + self._timeout_sec
        forwarder.sweep.add(self, None)

    # --- from the caller's connection ---

    def pause(self) -> None:
        if not self.over:
            self._connection.pause_reading()

    def resume(self) -> None:
        if not self.over:
            self._connection.resume_reading()

    def caller_gone(self) -> None:
        self.fail(CallerGone())

    # --- connection.Receiver ---

    def answer_head(self, status: int, headers: Headers) -> None:
        prepared = self._prepare(status, headers)
        self.call.note_answer(status, prepared.error, prepared.fault)
        lines = [prepared.head, self._head_end()]
        if not (self._head_only or status in (204, 304) or b"\r\ncontent-length: " in prepared.head):
            self._chunked = True
            lines.insert(1, b"transfer-encoding: chunked\r\n")
        self._started = True
        self._pieces = lines

    def _prepare(self, status: int, headers: Headers) -> KnownHead:
        answer = kept_of(status, headers)
        kept = answer.headers if self._own_host else isolated(answer.headers, sandbox=self._relays.forwarder.options.sandbox)
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in kept)
        return KnownHead(STATUS_LINES[status] + lines, answer.fault, answer.error)

    def _head_end(self) -> bytes:
        end = b"\r\n\r\n" if self._caller.keep_alive else b"\r\nconnection: close\r\n\r\n"
        return b"x-request-id: " + self.call.request_id.encode("latin-1") + end

    def answer_whole(self, known: KnownAnswer, body: bytes) -> None:
        prepared = known.on_own_host if self._own_host else known.on_shared_host
        if prepared is None:
            prepared = self._prepare(known.status, known.headers)
            if self._own_host:
                known.on_own_host = prepared
            else:
                known.on_shared_host = prepared
        call = self.call
        call.http_status = known.status
        call.response_bytes = len(body)
        call.error = prepared.error
        call.refused = prepared.fault is not None
        self._caller.relay_write(prepared.head + self._head_end() + body)
        self._finish()

    def answer_data(self, data: bytes) -> None:
        self.call.response_bytes += len(data)
        self._pieces.append(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def answer_pause(self) -> None:
        if self._pieces:
            data, self._pieces = b"".join(self._pieces), []
            self._touch()
            self._caller.relay_write(data)

    def answer_end(self) -> None:
        if self._chunked:
            self._pieces.append(b"0\r\n\r\n")
        if self._pieces:
            self._caller.relay_write(b"".join(self._pieces))
        self._finish()

    def _finish(self) -> None:
        self.call.finish_answered()
        self._leave()
        self._close()
        self._caller.relay_end()

    def answer_broken(self, reason: str) -> None:
        self.fail(broken_at(self.deadline, reason))

    def request_writable(self) -> None: ...

    # --- failures, also from the sweep ---

    def fail(self, error: Exception) -> None:
        if self.over:
            return
        self._connection.abort()
        self._relays.forwarder.failures.mark(self._live, self._instance, error)
        self._leave()
        if isinstance(error, CallerGone):
            self.call.finish(CallStatus.CANCELLED, "the caller went away")
            self._close()
            self._caller.relay_abort()
            return
        task = asyncio.get_running_loop().create_task(self._explain(error))
        self._relays.explaining.add(task)
        task.add_done_callback(self._relays.explaining.discard)

    async def _explain(self, error: Exception) -> None:
        """Records the reason, and answers with it if nothing has been sent yet."""
        explained = await self._relays.forwarder.failures.explain(self.call.route, self._instance, error, self._timeout_sec)
        self.call.finish(status_of(explained), explained.message)
        if self._started:
            self._close()
            self._caller.relay_abort()
        else:
            self._refuse(explained)
            self._close()
            self._caller.relay_end()

    def _refuse(self, error: SlessError) -> None:
        headers, body = error_answer(error, self.call.request_id, on_call=True)
        self.call.http_status = error.status
        self.call.response_bytes = len(body)
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        end = b"\r\n" if self._caller.keep_alive else b"connection: close\r\n\r\n"
        self._caller.relay_write(b"".join([STATUS_LINES[error.status], *lines, end, b"" if self._head_only else body]))

    def _leave(self) -> None:
        """Releases slot and connection, which another call may use from now on."""
        self.over = True
        self._relays.forwarder.sweep.discard(self)
        self._instance.give_back(self._connection)
        self._live.release(self._instance)

    def _close(self) -> None:
        self._relays.recorder.add(self.call)
        metrics.HTTP.count("fn", self.call.http_status or 499)

    def _touch(self) -> None:
        self.deadline = monotonic() + self._timeout_sec
