"""The HTTP protocol of a connection: uvicorn's, with limits, rules and answers of its own to whatever is not served."""

import asyncio
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sless.errors import Code, SlessError
from sless.ids import new_call_id
from sless.proxy.refuse import error_answer
from sless.server.cycle import Cycle
from sless.server.head import (
    MAX_FIELDS,
    MAX_HEAD_BYTES,
    MAX_URL_BYTES,
    ascii_url,
    check_head,
    head_too_large,
    head_without_upgrade,
    url_too_long,
)

HEAD_SEC = 10.0
_LINGER_SEC = 2.0
_MOST_IGNORED_BYTES = 64 * 2**20
"""Of a body nobody reads, for the sake of the next request on the connection."""


class _Refused(Exception):
    """Ends parsing; the protocol holds the error."""


class FrontDoor(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = False
        self._head_bytes = 0
        self._unfinished_bytes = 0
        self._ignored_bytes = 0
        self._refusal: SlessError | None = None
        self._refused = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._running: Cycle | None = None

    # --- the connection ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._arm_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm_head_timer()
        self._unset_keepalive_if_required()
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(self._refusal or SlessError(Code.INVALID, f"this is no valid HTTP/1.1 request: {error}"))
        else:
            self._after(len(data))

    def _after(self, size: int) -> None:
        """After a packet has been parsed: how far is the head, and since when."""
        if self._in_head:
            self._unfinished_bytes += size
            if self._unfinished_bytes > MAX_HEAD_BYTES:
                self._refuse(head_too_large())
                return
        if self._in_head or self.cycle is None:
            self._arm_head_timer()

    def shutdown(self) -> None:
        begin_shutdown = getattr(self.app, "begin_shutdown", None)
        if begin_shutdown is not None:
            begin_shutdown()
        super().shutdown()

    # --- the head ---

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0
        self._unfinished_bytes = 0

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > MAX_URL_BYTES:
            self._stop(url_too_long())

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._head_bytes += len(name) + len(value) + 4
        if len(self.headers) > MAX_FIELDS or self._head_bytes > MAX_HEAD_BYTES:
            self._stop(head_too_large())

    def on_headers_complete(self) -> None:
        parser = self.parser
        method = parser.get_method()
        if parser.should_upgrade() and method != b"CONNECT":
            return
        version = parser.get_http_version()
        self._in_head = False
        self._disarm_head_timer()
        try:
            check_head(method, version, self.headers)
        except SlessError as error:
            self._stop(error)
        self._fill_scope(method, version)
        self._start(Cycle(
            scope=self.scope, transport=self.transport, flow=self.flow, logger=self.logger, access_logger=self.access_logger,
            access_log=False, default_headers=self.server_state.default_headers, message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue and version == "1.1",
            keep_alive=version == "1.1" and parser.should_keep_alive(), on_response=self.on_response_complete,
        ))  # fmt: skip

    def _fill_scope(self, method: bytes, version: str) -> None:
        scope: Any = self.scope
        try:
            url = httptools.parse_url(ascii_url(self.url))
        except httptools.HttpParserInvalidURLError:
            self._stop(SlessError(Code.INVALID, "the request's URL is not valid"))
        raw_path = url.path or b"/"
        path = raw_path.decode("ascii")
        scope["method"] = method.decode("ascii")
        scope["http_version"] = version
        scope["raw_path"] = raw_path
        scope["path"] = unquote(path) if "%" in path else path
        scope["query_string"] = url.query or b""

    def _start(self, cycle: Cycle) -> None:
        before = self.cycle
        self.cycle = cycle
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """An upgrade is an offer that may be passed over. The parser would skip the body, so the head is parsed anew without it."""
        head = head_without_upgrade(self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(head + rest)

    # --- the body ---

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if cycle.response_complete:
            self._ignored_bytes += len(body)
            if self._ignored_bytes > _MOST_IGNORED_BYTES:
                self.transport.close()
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if not self._in_head:
            self._ignored_bytes = 0
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._refusal is not None and not self.pipeline and self._is_idle():
            self._answer_refusal(self._refusal)

    # --- what is not served ---

    def _stop(self, error: SlessError) -> None:
        self._refusal = error
        raise _Refused

    def _refuse(self, error: SlessError) -> None:
        """Answers with the error and closes, after the answers that are still to come on this connection."""
        self._refusal = error
        self._refused = True
        self._disarm_head_timer()
        if self._is_idle():
            self._answer_refusal(error)

    def _is_idle(self) -> bool:
        return (self._running is None or self._running.response_complete) and not self.pipeline

    def _answer_refusal(self, error: SlessError) -> None:
        if self.transport.is_closing():
            return
        headers, body = error_answer(error, new_call_id())
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        self.transport.write(b"".join([STATUS_LINE[error.status], *lines, b"connection: close\r\n\r\n", body]))
        # Closing while the other side still sends would reset the connection, and the answer might be lost with it.
        self.flow.resume_reading()
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SEC, self.transport.close)

    def _arm_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SEC, self._head_is_late)

    def _disarm_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._in_head:
            self._refuse(SlessError(Code.REQUEST_TIMEOUT, f"the request head was not complete within {HEAD_SEC:g} s"))
        else:
            self.transport.close()
