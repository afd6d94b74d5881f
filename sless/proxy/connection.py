"""One keep-alive connection to an instance: writes a request, parses the answer and passes it on as it arrives.

The parser, httptools, does not know HEAD, ends a message at each 1xx and ignores the end of the connection; this module handles all three.
"""

import asyncio
import select
from collections.abc import Callable
from time import monotonic
from typing import Protocol, cast

import httptools

from sless.proxy.known_answer import END, KnownAnswer, KnownAnswers
from sless.proxy.request import Headers

_FRESH_SEC = 0.002
MAX_HEAD_BYTES = 64 * 1024
MAX_FIELDS = 100
"""The limits on request heads (`server.head`) also apply to answers, since tenants' code writes them."""
_HEAD_TOO_LARGE = f"the head is over the limit of {MAX_HEAD_BYTES} bytes or {MAX_FIELDS} fields"


class Receiver(Protocol):
    """Receives the answer, on the event loop. `answer_broken` comes at most once, and nothing after it."""

    def answer_head(self, status: int, headers: Headers) -> None: ...

    def answer_data(self, data: bytes) -> None: ...

    def answer_pause(self) -> None:
        """A whole packet has been passed on; more will follow."""

    def answer_end(self) -> None: ...

    def answer_whole(self, known: KnownAnswer, body: bytes) -> None:
        """Called instead of the four other methods if the whole answer is known."""

    def answer_broken(self, reason: str) -> None: ...

    def request_writable(self) -> None:
        """The instance can take more of the request body."""


class UpstreamConnection(asyncio.Protocol):
    """`lost` is called with the connection when it is closed; `known` are the answer heads of the instance."""

    def __init__(self, lost: Callable[["UpstreamConnection"], None], known: KnownAnswers) -> None:
        self._lost = lost
        self._known = known
        self._parser = httptools.HttpResponseParser(self)
        self._receiver: Receiver | None = None
        self._headers: Headers = []
        self._head_only = False
        self._status = 0
        self._head_bytes = self._unfinished_bytes = 0
        self._framed = False
        self._ended = False
        self._unparsed = True
        """No part of the answer has been parsed yet."""
        self._transport: asyncio.Transport | None = None
        self._poll = select.poll()
        self._idle_since = 0.0
        self.read_paused = False
        self.write_paused = False
        self.reusable = False
        """The last answer was complete and both sides keep the connection."""

    # --- for the pool ---

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def is_stale(self) -> bool:
        """The instance has closed it or sent unexpected data, and the event loop has not noticed yet. Skipped for a connection that
        was busy a moment ago, to save a system call per request under load."""
        return self.closed or (monotonic() - self._idle_since > _FRESH_SEC and bool(self._poll.poll(0)))

    def begin(self, receiver: Receiver, *, head_only: bool) -> None:
        """Binds the connection to one exchange. `head_only`: its answer has no body."""
        self._receiver = receiver
        self._head_only = head_only
        self._headers = []
        self._status = 0
        self._head_bytes = self._unfinished_bytes = 0
        self._framed = False
        self._ended = False
        self._unparsed = True
        self.reusable = False

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def pause_reading(self) -> None:
        if not self.read_paused and not self.closed:
            self.read_paused = True
            cast(asyncio.Transport, self._transport).pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused and not self.closed:
            self.read_paused = False
            cast(asyncio.Transport, self._transport).resume_reading()

    def abort(self) -> None:
        """Closes it immediately; the receiver is not called again."""
        self._receiver = None
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN | select.POLLRDHUP)

    def data_received(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is None:
            self.abort()
            return
        unparsed = self._unparsed and not self._head_only
        if unparsed:
            size = data.find(END) + len(END)
            known = self._known.find(data[:size])
            if known is not None and known.length == len(data) - size:
                self._receiver = None
                self.reusable = True
                self._idle_since = monotonic()
                receiver.answer_whole(known, data[size:])
                return
        self._unparsed = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._break("it answered with an upgrade that was not requested")
        except httptools.HttpParserError as error:
            if self._ended:
                # The answer is complete, but data follows it: the connection cannot be used again.
                self.reusable = False
                self._end()
            else:
                self._break(str(error.__context__ or error))
        else:
            if self._ended:
                if unparsed and self.reusable:
                    self._known.learn(data, self._status, self._headers)
                self._end()
            elif self._receiver is not None:
                self._unfinished_bytes += 0 if self._status else len(data)
                if self._unfinished_bytes > MAX_HEAD_BYTES:
                    self._break(_HEAD_TOO_LARGE)
                    return
                self._receiver.answer_pause()

    def connection_lost(self, exc: Exception | None) -> None:
        receiver, self._receiver = self._receiver, None
        self.reusable = False
        self._transport = None
        self._lost(self)
        if receiver is None:
            return
        if self._status and not self._framed and exc is None:
            receiver.answer_end()
        else:
            receiver.answer_broken("in the middle of its answer" if self._status else "before it answered")

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        if self._receiver is not None:
            self._receiver.request_writable()

    # --- httptools ---

    def on_message_begin(self) -> None:
        if self._ended:
            raise ValueError("it sent more than one answer")
        self._headers = []
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > MAX_HEAD_BYTES or len(self._headers) > MAX_FIELDS:
            raise ValueError(_HEAD_TOO_LARGE)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            return
        if not 200 <= status <= 599:
            raise ValueError(f"its status {status} is outside 200-599")
        self._status = status
        self._framed = self._head_only or status in (204, 304) or any(
            name in (b"content-length", b"transfer-encoding") for name, _ in self._headers
        )  # fmt: skip
        if self._receiver is not None:
            self._receiver.answer_head(status, self._headers)
        if self._head_only:
            self._ended = True
            self.reusable = self._parser.should_keep_alive()
            # The old parser waits for a body that will not arrive.
            self._parser = httptools.HttpResponseParser(self)

    def on_body(self, data: bytes) -> None:
        if self._receiver is not None and not self._head_only:
            self._receiver.answer_data(data)

    def on_message_complete(self) -> None:
        if self._status and not self._ended:
            self._ended = True
            self.reusable = self._framed and self._parser.should_keep_alive()

    def _end(self) -> None:
        """Called when the whole packet has been parsed, so that bytes after the answer are not taken for the next answer."""
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            self._idle_since = monotonic()
            receiver.answer_end()

    def _break(self, reason: str) -> None:
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            receiver.answer_broken(reason)
