"""The HTTP protocol of a connection: sends requests to the fast path (`proxy.relay`) or to ASGI, and keeps their order."""

import asyncio
from typing import Any, Protocol
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from sless.errors import Code, SlessError
from sless.proxy.request import Request
from sless.server.cycle import Cycle
from sless.server.head import Repeated, find_repeated
from sless.server.limited import LimitedProtocol

_FAST_BODY_BYTES = 64 * 1024
_LAST_REQUEST_SEC = 2.0
"""How long an idle connection waits for one more request while the server stops."""
_MOST_PIPELINED = 100
_CALL = b"/fn/"
# The slow path handles asynchronous calls (`prefer`) and refuses service workers.
_SLOW_PATH_FIELDS = frozenset({b"expect", b"upgrade", b"transfer-encoding", b"prefer", b"service-worker"})


class FastRelay(Protocol):
    """The part of proxy.relay.Relay that is used here."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def caller_gone(self) -> None: ...


class FastCall:
    """One call on the fast path. Replaces a Cycle and has the attributes that uvicorn uses."""

    __slots__ = (
        "_door", "_timer", "body", "disconnected", "keep_alive", "message_event", "more_body", "relay", "request", "response_complete",
    )  # fmt: skip

    def __init__(self, door: "FrontDoor", request: Request, *, keep_alive: bool) -> None:
        self._door = door
        self._timer: asyncio.TimerHandle | None = None
        self.request = request
        self.body = b""
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False
        self.more_body = True
        self.message_event = self
        self.relay: FastRelay | None = None

    def set(self) -> None:
        """Stands in for `message_event`, which the fast path does not await."""

    def wait_for_body(self) -> None:
        self._timer = self._door.loop.call_later(self._door.durations.body_sec, self._door.body_is_late)

    def stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- proxy.relay.CallerSocket ---

    def relay_write(self, data: bytes) -> None:
        if not self.disconnected:
            self._door.transport.write(data)

    def relay_end(self) -> None:
        self.response_complete = True
        if not self.disconnected:
            if not self.keep_alive:
                self._door.transport.close()
            self._door.on_response_complete()

    def relay_abort(self) -> None:
        self.response_complete = True
        if not self.disconnected:
            self._door.transport.abort()


class FrontDoor(LimitedProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._relays = getattr(self.app, "relays", None)
        self._hosts = getattr(self.app, "hosts", None)
        self._root = b""
        """The prefix put before the request's path on a host of a function."""
        self._misdirected: SlessError | None = None
        self._last = False
        """Whether the next request on this connection is the last, as the server is stopping."""
        self._running: Cycle | FastCall | None = None
        """The request whose answer is due next."""
        self._repeated: Repeated | None = None
        """The last request, if the parser was at a boundary before and after it."""

    # --- the connection ---

    def connection_lost(self, exc: Exception | None) -> None:
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
            if isinstance(running, FastCall):
                running.stop_waiting()
                if running.relay is not None:
                    running.relay.caller_gone()
        self.pipeline.clear()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        begin_shutdown = getattr(self.app, "begin_shutdown", None)
        if begin_shutdown is not None:
            begin_shutdown()
        self._last = True
        if self.is_idle():
            # Closing now would lose a request on its way. A proxy in front keeps connections open and does not retry a POST; its next
            # answer on this connection tells it that the connection closes.
            self.loop.call_later(_LAST_REQUEST_SEC, self._close_if_idle)
        else:
            self.cycle.keep_alive = False

    def _close_if_idle(self) -> None:
        if self.is_idle():
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if isinstance(self._running, FastCall) and self._running.relay is not None:
            self._running.relay.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if isinstance(self._running, FastCall) and self._running.relay is not None:
            self._running.relay.resume()

    def is_idle(self) -> bool:
        return (self._running is None or self._running.response_complete) and not self.pipeline

    def drop_unfinished(self) -> None:
        cycle: Any = self.cycle
        running: Any = self._running
        if cycle is None or not cycle.more_body or cycle.response_complete:
            return
        if cycle is not running:
            self.pipeline.popleft()
            return
        # End the call as if its caller had left: the part of the answer that was sent cannot be undone.
        begun = type(cycle) is Cycle and cycle.response_started
        cycle.disconnected = True
        cycle.response_complete = True
        cycle.message_event.set()
        if type(cycle) is FastCall:
            cycle.stop_waiting()
        if begun:
            self.transport.abort()

    # --- requests ---

    def data_received(self, data: bytes) -> None:
        repeated, between = self._repeated, not self._in_head and not self._refused and self.is_idle()
        if repeated is not None and between and len(data) == repeated.size and data.startswith(repeated.head) and self._head_timer is None:
            self._idle_since = None
            fast = FastCall(self, repeated.request, keep_alive=not self._last)
            fast.body = data[len(repeated.head) :]
            fast.more_body = False
            self.cycle = self._running = fast  # type: ignore[assignment]  # has the attributes that uvicorn uses
            self._begin_fast(fast)
            return
        self._repeated = None
        super().data_received(data)
        cycle: Any = self.cycle
        if between and type(cycle) is FastCall and not cycle.more_body and cycle.keep_alive:
            self._repeated = find_repeated(data, cycle.request)

    def serve_head(self, method: bytes, version: str) -> None:
        if self._hosts is not None:
            self._root, self._misdirected = self._hosts.prefix_of(self.headers, self.url)
            self.url = self._root + self.url
        if self._relays is not None and self._misdirected is None and version == "1.1" and self.url.startswith(_CALL) and self.is_idle():
            request = self._fast_request(method)
            if request is not None:
                fast = FastCall(self, request, keep_alive=self.parser.should_keep_alive() and not self._last)
                self.cycle = self._running = fast  # type: ignore[assignment]  # has the attributes that uvicorn uses
                if request.length:
                    fast.wait_for_body()
                return
        self._start(self._cycle(self._scope(method, version)))

    def _fast_request(self, method: bytes) -> Request | None:
        """The request, if its head admits the fast path."""
        url = self.url
        path, _, query = url.partition(b"?")
        if b"#" in url:
            return None
        for name, _ in self.headers:
            if name in _SLOW_PATH_FIELDS:
                return None
        request = Request(method.decode("ascii"), path, query, self.headers)
        assert self._relays is not None
        if request.length and (request.length > _FAST_BODY_BYTES or not self._relays.waits_for_body(path)):
            return None
        request.client = self.client[0] if self.client else ""
        if self._root:
            request.shown_path = path[len(self._root) :]
        return request

    def _cycle(self, scope: Any) -> Cycle:
        modern = scope["http_version"] == "1.1"
        return Cycle(
            scope=scope, transport=self.transport, flow=self.flow, logger=self.logger, access_logger=self.access_logger, access_log=False,
            default_headers=self.server_state.default_headers, message_event=asyncio.Event(),
            expect_100_continue=modern and any(pair[0] == b"expect" and pair[1].lower() == b"100-continue" for pair in self.headers),
            keep_alive=modern and self.parser.should_keep_alive() and not self._last, on_response=self.on_response_complete,
        )  # fmt: skip

    def _scope(self, method: bytes, version: str) -> Any:
        try:
            url = httptools.parse_url(self.url)
        except httptools.HttpParserInvalidURLError:
            self.stop(SlessError(Code.INVALID, "the URL of the request is not valid"))
        raw_path = url.path or b"/"
        path = raw_path.decode("ascii")
        return {
            "type": "http", "asgi": {"version": self.asgi_version, "spec_version": "2.3"}, "http_version": version,
            "server": self.server, "client": self.client, "scheme": self.scheme,
            "root_path": self._root.decode("ascii"), "headers": self.headers,
            "state": {"misdirected": self._misdirected}, "method": method.decode("ascii"), "raw_path": raw_path,
            "path": unquote(path) if "%" in path else path, "query_string": url.query or b"",
        }  # fmt: skip

    def _start(self, cycle: Cycle) -> None:
        if self.is_idle():
            self.cycle = cycle
            self._start_asgi_task(cycle, self.app)
        elif len(self.pipeline) >= _MOST_PIPELINED:
            self.stop(SlessError(Code.TOO_MANY_REQUESTS, f"more than {_MOST_PIPELINED} requests wait on this connection"))
        else:
            self.cycle = cycle
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    # --- bodies ---

    def on_body(self, body: bytes) -> None:
        cycle: Any = self.cycle
        if cycle.response_complete:
            self.ignore_body(len(body))
            return
        cycle.body += body
        if type(cycle) is Cycle:
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        cycle: Any = self.cycle
        if self._in_head or cycle.response_complete:
            return
        cycle.more_body = False
        if type(cycle) is FastCall:
            self._begin_fast(cycle)
        else:
            cycle.message_event.set()

    def _begin_fast(self, fast: FastCall) -> None:
        fast.stop_waiting()
        assert self._relays is not None
        fast.relay = self._relays.begin(fast.request, fast.body, fast)
        if fast.relay is None:
            cycle = self._cycle(self._scope(fast.request.method.encode(), "1.1"))
            cycle.body = bytearray(fast.body)
            cycle.more_body = False
            cycle.message_event.set()
            self.cycle = cycle
            self._start_asgi_task(cycle, self.app)

    def body_is_late(self) -> None:
        """Refuses a call whose body is late; it has not started."""
        if not self._refused:
            self.refuse(SlessError(Code.REQUEST_TIMEOUT, f"the request body was not complete within {self.durations.body_sec:g} s"))

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        else:
            self.wait_for_next()
