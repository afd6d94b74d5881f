"""One exchange with an instance: slot, connection, request, answer; streaming both ways.

`Forwarder.forward` answers the caller or raises before anything was answered: SlessError for whoever answers errors, CallerGone when
there is nobody left. Once the answer has begun, a failure aborts it and only the record tells.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from sless.domain.model import CallStatus
from sless.errors import SlessError
from sless.proxy.connection import UpstreamConnection
from sless.proxy.exchange import BrokenOff, Exchange, OverTime
from sless.proxy.failure import WhyGone, body_too_large, broken_off, over_time, status_of
from sless.proxy.heads import Trust, answer_of, request_head
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.live_route import LiveRoute
from sless.proxy.request import BodyTooLarge, CallerGone, CallerStream, CallRecord, Headers, Request
from sless.proxy.suspects import Suspects
from sless.proxy.sweep import Sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardOptions:
    instance_wait_sec: float
    max_body_bytes: int
    trust: Trust
    why_gone: WhyGone
    report_unresponsive: Callable[[str], None]
    """Both are called in a thread."""


@dataclass(slots=True, kw_only=True)
class Forwarding:
    """One call to forward. `extra_headers` are added to the answer (CORS)."""

    live: LiveRoute
    call: CallRecord
    request: Request
    caller: CallerStream
    extra_headers: Headers


class Forwarder:
    def __init__(self, options: ForwardOptions, sweep: Sweep) -> None:
        self.options = options
        self.sweep = sweep
        self.suspects = Suspects(sweep)

    async def forward(self, forwarding: Forwarding) -> None:
        if forwarding.request.length > self.options.max_body_bytes:
            raise body_too_large(self.options.max_body_bytes)
        # Before a slot is taken, so that a caller that is slow to send holds none.
        first = await forwarding.caller.read() if forwarding.request.has_body else (b"", False)
        instance, connection = await self._reach(forwarding)
        one = _OneExchange(self, forwarding, instance, connection)
        try:
            await one.run(*first)
        except (BrokenOff, OverTime, BodyTooLarge, CallerGone, SlessError, asyncio.CancelledError) as error:
            connection.abort()
            await self.settle(one, error)
        finally:
            self.sweep.discard(one.exchange)
            instance.give_back(connection)
            forwarding.live.release(instance)

    async def _reach(self, forwarding: Forwarding) -> tuple[LiveEndpoint, UpstreamConnection]:
        """A slot and a connection. An instance that cannot be reached costs nothing: nothing has been sent to it."""
        live, call = forwarding.live, forwarding.call
        deadline = monotonic() + self.options.instance_wait_sec
        call.cold = not live.instances
        while True:
            instance = await live.take(self.options.instance_wait_sec, deadline)
            try:
                connection = await instance.connection()
            except OSError:
                live.release_unreachable(instance)
                # Alive or not, what nobody can reach serves nobody: the backend looks and replaces it.
                await asyncio.to_thread(self.options.report_unresponsive, instance.endpoint.id)
                continue
            except asyncio.CancelledError:
                live.release(instance)
                raise
            instance.calls += 1
            call.version = instance.endpoint.version
            return instance, connection

    async def _explain(self, one: "_OneExchange", error: BaseException) -> SlessError | None:
        """What the caller is told of a failure; None: nobody is there to be told."""
        route = one.forwarding.live.route
        match error:
            case BrokenOff():
                return await broken_off(route, one.instance, error, self.options.why_gone)
            case OverTime():
                self.suspects.add(one.forwarding.live, one.instance)
                await asyncio.to_thread(self.options.report_unresponsive, one.instance.endpoint.id)
                return over_time(route, one.timeout_sec)
            case SlessError():
                return error
            case BodyTooLarge():
                return body_too_large(self.options.max_body_bytes)
        return None

    async def settle(self, one: "_OneExchange", error: BaseException) -> None:
        """Ends a call that failed: raises what the caller is to be told, or aborts the answer that has begun."""
        call = one.forwarding.call
        told = await self._explain(one, error)
        if told is None:
            call.finish(CallStatus.CANCELLED, "the caller went away" if isinstance(error, CallerGone) else "the server stopped")
            raise error
        call.finish(status_of(error), told.message)
        if not one.begun:
            raise told
        one.forwarding.caller.abort()


class _OneExchange:
    """The course of one call on one connection."""

    def __init__(self, forwarder: Forwarder, forwarding: Forwarding, instance: LiveEndpoint, connection: UpstreamConnection) -> None:
        revision = forwarding.live.route.revision
        self.forwarding = forwarding
        self.instance = instance
        self.timeout_sec = revision.timeout_sec if revision else 0
        self.begun = False
        """Something of the answer has been sent."""
        self.exchange = Exchange(connection, self.timeout_sec)
        self._connection = connection
        self._forwarder = forwarder
        self._pump: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Called by the sweep: the call takes a while. While the body is still read, reading it notices a caller that leaves."""
        if self._pump is None:
            self.forwarding.caller.watch(self.exchange.caller_gone)

    async def run(self, first: bytes, more: bool) -> None:
        """`first` is the first piece of the body; `more` follow."""
        self._connection.begin(self.exchange, head_only=self.forwarding.request.method == "HEAD")
        try:
            self._send(first, more)
            self._forwarder.sweep.add(self.exchange, self)
            await self.exchange.head()
            await self._answer()
        finally:
            if self._pump is not None:
                self._pump.cancel()

    def _send(self, data: bytes, more: bool) -> None:
        request, call = self.forwarding.request, self.forwarding.call
        head = request_head(call, request, self.timeout_sec, self._forwarder.options.trust)
        if not request.has_body:
            # An empty body that was announced stays announced: POST without content-length would be a 411 elsewhere.
            self._connection.write(head + (b"content-length: 0\r\n\r\n" if request.method not in ("GET", "HEAD") else b"\r\n"))
            return
        call.request_bytes = len(data)
        if call.request_bytes > self._forwarder.options.max_body_bytes:
            raise BodyTooLarge
        if not more:
            self._connection.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(data), data))
            return
        framing = b"transfer-encoding: chunked" if request.streamed else b"content-length: %d" % request.length
        self._connection.write(b"%b%b\r\n\r\n" % (head, framing))
        self._pump = asyncio.get_running_loop().create_task(self._send_rest(data))

    async def _send_rest(self, data: bytes) -> None:
        """The body as it comes; a failure of the caller's ends the exchange."""
        call, exchange, limit = self.forwarding.call, self.exchange, self._forwarder.options.max_body_bytes
        streamed = self.forwarding.request.streamed
        more = True
        try:
            while True:
                if data:
                    self._connection.write(b"%x\r\n%b\r\n" % (len(data), data) if streamed else data)
                    exchange.touch()
                if not more:
                    break
                await exchange.writable()
                data, more = await self.forwarding.caller.read()
                call.request_bytes += len(data)
                if call.request_bytes > limit:
                    raise BodyTooLarge
            if streamed:
                self._connection.write(b"0\r\n\r\n")
            self._pump = None
            self.forwarding.caller.watch(exchange.caller_gone)
        except (CallerGone, BodyTooLarge, SlessError) as error:
            exchange.fail(error)

    async def _answer(self) -> None:
        exchange, forwarding = self.exchange, self.forwarding
        call, caller = forwarding.call, forwarding.caller
        answer = answer_of(exchange.status, exchange.headers, call.request_id.encode("latin-1"))
        call.http_status = answer.status
        call.error = answer.error
        self.begun = True
        await caller.start(answer.status, answer.headers + forwarding.extra_headers)
        more = True
        while more:
            data = await exchange.read()
            call.response_bytes += len(data)
            more = not exchange.ended or exchange.waiting
            if data or not more:
                await caller.write(data, more)
        call.finish_answered()
        if self._pump is not None:
            # It answered without reading the whole body: the rest of it would be taken for the next request.
            self._connection.abort()
