"""uvicorn's HTTP protocol with limits. It refuses invalid requests itself.

`front_door` serves valid ones: it implements `serve_head` and the callbacks of the body.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sless.domain.durations import Durations
from sless.errors import Code, SlessError
from sless.ids import new_call_id
from sless.proxy.refuse import error_answer
from sless.server.head import (
    MAX_FIELDS,
    MAX_HEAD_BYTES,
    MAX_URL_BYTES,
    check_head,
    head_too_large,
    head_without_upgrade,
    url_too_long,
)

_DURATIONS = Durations()
LEAST_READ_BYTES = 64 * 1024
"""Minimum that a slow reader must take within `write_sec`."""
_LINGER_SEC = 2.0
_RETRY_AFTER_SEC = 5
_MOST_IGNORED_BYTES = 64 * 2**20
"""Bytes of an unread body to read and drop, in order to keep the connection for its next request."""


class _Refused(Exception):
    """Stops the parser; the protocol keeps the error."""


class LimitedProtocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.durations: Durations = getattr(self.app, "durations", _DURATIONS)
        self._in_head = False
        self._head_bytes = 0
        self._unfinished_bytes = 0
        self._ignored_bytes = 0
        self._refusal: SlessError | None = None
        self._refused = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._idle_since: float | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._leave_peers: Callable[[], None] = _nothing

    def serve_head(self, method: bytes, version: str) -> None:
        """Called when a complete head has been accepted."""
        raise NotImplementedError

    def is_idle(self) -> bool:
        """Whether no answer is due."""
        raise NotImplementedError

    def drop_unfinished(self) -> None:
        """Called when the rest of the current request will not be read, so its answer is no longer due."""
        raise NotImplementedError

    # --- the connection ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]  # uvicorn expects its subclass Transport
        peers = getattr(self.app, "peers", None)
        leave = peers.admit(self.client[0] if self.client else "") if peers is not None else _nothing
        if leave is None:
            self.refuse(SlessError(Code.TOO_MANY_REQUESTS, "too many open connections from this address", retry_after_sec=_RETRY_AFTER_SEC))
            return
        self._leave_peers = leave
        self._arm_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave_peers()
        self._disarm_head_timer()
        self._disarm_write_timer()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._arm_write_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._disarm_write_timer()

    def _arm_write_timer(self) -> None:
        self._disarm_write_timer()
        left_bytes = self.transport.get_write_buffer_size()
        self._write_timer = self.loop.call_later(self.durations.write_sec, self._check_reader, left_bytes)

    def _disarm_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _check_reader(self, before_bytes: int) -> None:
        """Aborts an answer that its caller reads too slowly, since it would hold memory for hours."""
        if before_bytes - self.transport.get_write_buffer_size() < LEAST_READ_BYTES:
            self.transport.abort()
        else:
            self._arm_write_timer()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._idle_since = None
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._continue_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self.refuse(self._refusal or SlessError(Code.INVALID, f"malformed HTTP/1.1 request: {error}"))
        else:
            if self._in_head:
                self._unfinished_bytes += len(data)
                if self._unfinished_bytes > MAX_HEAD_BYTES:
                    self.refuse(head_too_large())
                    return
            if self._head_timer is None and (self._in_head or self.is_idle()) and self._idle_since is None:
                self._arm_head_timer()

    # --- the head ---

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._in_head = True
        self._head_bytes = 0
        self._unfinished_bytes = 0

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > MAX_URL_BYTES:
            self.stop(url_too_long())

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self.headers
        headers.append((name.lower(), value))
        self._head_bytes += len(name) + len(value) + 4
        if len(headers) > MAX_FIELDS or self._head_bytes > MAX_HEAD_BYTES:
            self.stop(head_too_large())

    def on_headers_complete(self) -> None:
        parser = self.parser
        method = parser.get_method()
        if parser.should_upgrade() and method != b"CONNECT":
            return
        version = parser.get_http_version()
        self._in_head = False
        if self._head_timer is not None:
            self._disarm_head_timer()
        try:
            check_head(method, version, self.headers)
        except SlessError as error:
            self.stop(error)
        self.serve_head(method, version)

    def ignore_body(self, size: int) -> None:
        """Called when a part of a body arrives after the answer."""
        self._ignored_bytes += size
        if self._ignored_bytes > _MOST_IGNORED_BYTES:
            self.transport.close()

    def _continue_without_upgrade(self, rest: bytes) -> None:
        """Ignores an upgrade, which is only an offer. Parses the head again without it, as the parser would skip the body otherwise."""
        head = head_without_upgrade(self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(head + rest)

    # --- between requests ---

    def _unset_keepalive_if_required(self) -> None:
        """Keeps the timer, which checks `_idle_since` when it fires: cheaper than one timer per request."""
        self._idle_since = None

    def wait_for_next(self) -> None:
        """Called when an answer has ended and no other is due."""
        self._ignored_bytes = 0
        if self._refusal is not None:
            self._answer_refusal(self._refusal)
        else:
            self._idle_since = self.loop.time()
            if self.timeout_keep_alive_task is None:
                self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self._check_idle)

    def _check_idle(self) -> None:
        self.timeout_keep_alive_task = None
        if self.transport.is_closing() or self._idle_since is None:
            return
        left_sec = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left_sec <= 0:
            self.transport.close()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(left_sec, self._check_idle)

    # --- refusals ---

    def stop(self, error: SlessError) -> None:
        """For callbacks of the parser: refuses the request and stops parsing."""
        self._refusal = error
        raise _Refused

    def refuse(self, error: SlessError) -> None:
        """Answers with the error and closes, after the answers that are still due on this connection."""
        self._refusal = error
        self._refused = True
        self._disarm_head_timer()
        self.drop_unfinished()
        if self.is_idle():
            self._answer_refusal(error)

    def _answer_refusal(self, error: SlessError) -> None:
        if self.transport.is_closing():
            return
        headers, body = error_answer(error, new_call_id())
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        self.transport.write(b"".join([STATUS_LINE[error.status], *lines, b"connection: close\r\n\r\n", body]))
        # Closing while the client still sends would reset the connection, and the client might lose the answer.
        self.flow.resume_reading()
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SEC, self.transport.close)

    def _arm_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.durations.head_sec, self._head_is_late)

    def _disarm_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._in_head:
            self.refuse(SlessError(Code.REQUEST_TIMEOUT, f"the request head was not complete within {self.durations.head_sec:g} s"))
        else:
            self.transport.close()


def _nothing() -> None: ...
