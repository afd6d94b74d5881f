"""The slow path: one exchange with an instance: slot, connection, request, answer; streaming both ways.

`Forwarder.forward` answers the caller, or raises before anything was sent: SlessError for its caller to answer, CallerGone when the caller
has left. Once the answer has begun, a failure aborts it and appears in the record only.
"""

import asyncio
from dataclasses import dataclass, field
from time import monotonic

from sless.domain.model import CallStatus
from sless.errors import SlessError
from sless.proxy.connection import UpstreamConnection
from sless.proxy.exchange import BrokenOff, Exchange, OverTime
from sless.proxy.failure import InstanceFailures, status_of
from sless.proxy.heads import Trust, answer_of, request_head
from sless.proxy.isolation import isolated
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.live_route import LiveRoute
from sless.proxy.request import CallerGone, CallerStream, CallRecord, Headers, Request
from sless.proxy.request_body import RequestBody
from sless.proxy.sweep import Sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardOptions:
    instance_wait_sec: float
    trust: Trust
    sandbox: bool = False
    """Whether pages on the console's host are sandboxed (`isolation`)."""


@dataclass(slots=True, kw_only=True)
class Forwarding:
    """One call to forward. `extra_headers` are added to the answer (CORS)."""

    live: LiveRoute
    call: CallRecord
    request: Request
    caller: CallerStream
    extra_headers: Headers
    body: RequestBody = field(init=False)

    def __post_init__(self) -> None:
        self.body = RequestBody(self.caller, has_body=self.request.has_body)


class Forwarder:
    def __init__(self, options: ForwardOptions, sweep: Sweep, failures: InstanceFailures) -> None:
        self.options = options
        self.sweep = sweep
        self.failures = failures

    async def forward(self, forwarding: Forwarding) -> None:
        forwarding.live.tenant.body_limit.check(forwarding.request.length)
        # This comes before taking a slot, so that a caller that sends slowly holds none.
        await forwarding.body.prefetch()
        instance, connection = await self._reach(forwarding)
        one = _OneExchange(self, forwarding, instance, connection)
        try:
            await one.run()
        except (BrokenOff, OverTime, SlessError) as error:
            connection.abort()
            self.sweep.discard(one.exchange)
            self.failures.mark(forwarding.live, instance, error)
            await self._fail(one, await self.failures.explain(forwarding.live.route, instance, error, one.timeout_sec))
        except (CallerGone, asyncio.CancelledError) as error:
            connection.abort()
            forwarding.call.finish(CallStatus.CANCELLED, "the caller went away" if isinstance(error, CallerGone) else "the server stopped")
            raise
        finally:
            self.sweep.discard(one.exchange)
            instance.give_back(connection)
            forwarding.live.release(instance)

    async def _reach(self, forwarding: Forwarding) -> tuple[LiveEndpoint, UpstreamConnection]:
        """A slot and a connection. If an instance cannot be reached, tries another one, since nothing has been sent yet."""
        live, call = forwarding.live, forwarding.call
        deadline = monotonic() + self.options.instance_wait_sec
        found_none = not live.instances
        while True:
            instance = live.find_slot() or await self._wait_for_slot(forwarding, deadline)
            try:
                connection = await instance.connection()
            except OSError:
                live.release_unreachable(instance)
                await self.failures.report(instance)
                continue
            except asyncio.CancelledError:
                live.release(instance)
                raise
            instance.calls += 1
            call.cold = found_none
            call.begin(instance.endpoint.version)
            return instance, connection

    async def _wait_for_slot(self, forwarding: Forwarding, deadline: float) -> LiveEndpoint:
        """Raises CallerGone when the caller leaves first, and SlessError as `LiveRoute.take` does."""
        live, loop = forwarding.live, asyncio.get_running_loop()
        waiting = loop.create_task(live.take(self.options.instance_wait_sec, deadline))
        leaving = loop.create_task(forwarding.body.until_caller_leaves())
        try:
            await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                leaving.result()
            return waiting.result()
        except BaseException:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                live.release(waiting.result())
            raise
        finally:
            waiting.cancel()
            leaving.cancel()
            await asyncio.gather(waiting, leaving, return_exceptions=True)

    @staticmethod
    async def _fail(one: "_OneExchange", explained: SlessError) -> None:
        """Raises the error for the caller, or aborts the answer if it has begun."""
        one.forwarding.call.finish(status_of(explained), explained.message)
        if not one.begun:
            raise explained
        one.forwarding.caller.abort()


class _OneExchange:
    """The course of one call on one connection."""

    def __init__(self, forwarder: Forwarder, forwarding: Forwarding, instance: LiveEndpoint, connection: UpstreamConnection) -> None:
        revision = forwarding.live.route.revision
        self.forwarding = forwarding
        self.timeout_sec = revision.timeout_sec if revision else 0
        self.begun = False
        """A part of the answer has been sent."""
        self.exchange = Exchange(connection, self.timeout_sec)
        self._connection = connection
        self._forwarder = forwarder
        self._pump: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Called by the sweep for a call that takes a while. While the body is being read, that read notices if the caller leaves."""
        if self._pump is None:
            self.forwarding.body.watch(self.exchange.caller_gone)

    async def run(self) -> None:
        self._connection.begin(self.exchange, head_only=self.forwarding.request.method == "HEAD")
        try:
            self._send(await self.forwarding.body.read())
            self._forwarder.sweep.add(self.exchange, self)
            await self.exchange.head()
            await self._answer()
        finally:
            if self._pump is not None:
                self._pump.cancel()

    def _send(self, data: bytes) -> None:
        request, call = self.forwarding.request, self.forwarding.call
        head = request_head(call, request, self.timeout_sec, self._forwarder.options.trust)
        if not request.has_body:
            # Keep the length of an empty body: some servers answer 411 to a POST without content-length.
            self._connection.write(head + (b"content-length: 0\r\n\r\n" if request.method not in ("GET", "HEAD") else b"\r\n"))
            return
        call.request_bytes = len(data)
        self.forwarding.live.tenant.body_limit.check(call.request_bytes)
        if not self.forwarding.body.more:
            self._connection.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(data), data))
            return
        framing = b"transfer-encoding: chunked" if request.streamed else b"content-length: %d" % request.length
        self._connection.write(b"%b%b\r\n\r\n" % (head, framing))
        self._pump = asyncio.get_running_loop().create_task(self._send_rest(data))

    async def _send_rest(self, data: bytes) -> None:
        """Passes the body on as it arrives; a failure on the caller's side ends the exchange."""
        call, exchange, limit = self.forwarding.call, self.exchange, self.forwarding.live.tenant.body_limit
        body, streamed = self.forwarding.body, self.forwarding.request.streamed
        try:
            while True:
                if data:
                    self._connection.write(b"%x\r\n%b\r\n" % (len(data), data) if streamed else data)
                    exchange.touch()
                if not body.more:
                    break
                await exchange.writable()
                data = await body.read()
                call.request_bytes += len(data)
                limit.check(call.request_bytes)
            if streamed:
                self._connection.write(b"0\r\n\r\n")
            self._pump = None
            body.watch(exchange.caller_gone)
        except (CallerGone, SlessError) as error:
            exchange.fail(error)

    async def _answer(self) -> None:
        exchange, forwarding = self.exchange, self.forwarding
        call, caller = forwarding.call, forwarding.caller
        answer = answer_of(exchange.status, exchange.headers, call.request_id.encode("latin-1"))
        call.note_answer(answer.status, answer.error, answer.fault)
        self.begun = True
        headers = answer.headers
        if not forwarding.request.on_own_host:
            headers = isolated(headers, sandbox=self._forwarder.options.sandbox)
        await caller.start(answer.status, headers + forwarding.extra_headers)
        more = True
        while more:
            data = await exchange.read()
            call.response_bytes += len(data)
            more = not exchange.ended or exchange.waiting
            if data or not more:
                await caller.write(data, more)
        call.finish_answered()
        if self._pump is not None:
            # The instance answered without reading the whole body; it would take the rest for the next request.
            self._connection.abort()
