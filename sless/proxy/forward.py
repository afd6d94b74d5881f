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
from sless.proxy.connection import Connection
from sless.proxy.doubts import Doubts
from sless.proxy.entry import Entry
from sless.proxy.exchange import BrokenOff, Exchange, OverTime
from sless.proxy.failure import WhyGone, body_too_large, broken_off, over_time, status_of
from sless.proxy.heads import Trust, answer_of, request_head
from sless.proxy.request import BodyTooLarge, Call, Caller, CallerGone, Headers, Request
from sless.proxy.sweep import Sweep
from sless.proxy.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardOptions:
    instance_wait_sec: float
    max_body_bytes: int
    trust: Trust
    why_gone: WhyGone
    report_stuck: Callable[[str], None]
    """Both are called in a thread."""


@dataclass(slots=True, kw_only=True)
class Forwarding:
    """One call to forward. `extra_headers` are added to the answer (CORS)."""

    entry: Entry
    call: Call
    request: Request
    caller: Caller
    extra_headers: Headers


class Forwarder:
    def __init__(self, options: ForwardOptions, sweep: Sweep) -> None:
        self.options = options
        self.sweep = sweep
        self.doubts = Doubts(sweep)

    async def forward(self, job: Forwarding) -> None:
        if job.request.length > self.options.max_body_bytes:
            raise body_too_large(self.options.max_body_bytes)
        # Before a slot is taken, so that a caller that is slow to send holds none.
        first = await job.caller.read() if job.request.has_body else (b"", False)
        target, connection = await self._reach(job)
        one = _OneExchange(self, job, target, connection)
        try:
            await one.run(*first)
        except (BrokenOff, OverTime, BodyTooLarge, CallerGone, SlessError, asyncio.CancelledError) as error:
            connection.abort()
            await self.settle(one, error)
        finally:
            self.sweep.discard(one.exchange)
            target.give_back(connection)
            job.entry.release(target)

    async def _reach(self, job: Forwarding) -> tuple[Target, Connection]:
        """A slot and a connection. An instance that cannot be reached costs nothing: nothing has been sent to it."""
        entry, call = job.entry, job.call
        deadline = monotonic() + self.options.instance_wait_sec
        call.cold = not entry.targets
        while True:
            target = await entry.target(self.options.instance_wait_sec, deadline)
            try:
                connection = await target.connection()
            except OSError:
                entry.release_unreachable(target)
                # Alive or not, what nobody can reach serves nobody: the backend looks and replaces it.
                await asyncio.to_thread(self.options.report_stuck, target.endpoint.id)
                continue
            except asyncio.CancelledError:
                entry.release(target)
                raise
            target.calls += 1
            call.version = target.endpoint.version
            return target, connection

    async def _explain(self, one: "_OneExchange", error: BaseException) -> SlessError | None:
        """What the caller is told of a failure; None: nobody is there to be told."""
        route = one.job.entry.route
        match error:
            case BrokenOff():
                return await broken_off(route, one.target, error, self.options.why_gone)
            case OverTime():
                self.doubts.add(one.job.entry, one.target)
                await asyncio.to_thread(self.options.report_stuck, one.target.endpoint.id)
                return over_time(route, one.timeout_sec)
            case SlessError():
                return error
            case BodyTooLarge():
                return body_too_large(self.options.max_body_bytes)
        return None

    async def settle(self, one: "_OneExchange", error: BaseException) -> None:
        """Ends a call that failed: raises what the caller is to be told, or aborts the answer that has begun."""
        call = one.job.call
        told = await self._explain(one, error)
        if told is None:
            call.finish(CallStatus.CANCELLED, "the caller went away" if isinstance(error, CallerGone) else "the server stopped")
            raise error
        call.finish(status_of(error), told.message)
        if not one.begun:
            raise told
        one.job.caller.abort()


class _OneExchange:
    """The course of one call on one connection."""

    def __init__(self, forwarder: Forwarder, job: Forwarding, target: Target, connection: Connection) -> None:
        revision = job.entry.route.revision
        self.job = job
        self.target = target
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
            self.job.caller.watch(self.exchange.caller_gone)

    async def run(self, first: bytes, more: bool) -> None:
        """`first` is the first piece of the body; `more` follow."""
        self._connection.begin(self.exchange, head_only=self.job.request.method == "HEAD")
        try:
            self._send(first, more)
            self._forwarder.sweep.add(self.exchange, self)
            await self.exchange.head()
            await self._answer()
        finally:
            if self._pump is not None:
                self._pump.cancel()

    def _send(self, data: bytes, more: bool) -> None:
        request, call = self.job.request, self.job.call
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
        call, exchange, limit = self.job.call, self.exchange, self._forwarder.options.max_body_bytes
        streamed = self.job.request.streamed
        more = True
        try:
            while True:
                if data:
                    self._connection.write(b"%x\r\n%b\r\n" % (len(data), data) if streamed else data)
                    exchange.touch()
                if not more:
                    break
                await exchange.writable()
                data, more = await self.job.caller.read()
                call.request_bytes += len(data)
                if call.request_bytes > limit:
                    raise BodyTooLarge
            if streamed:
                self._connection.write(b"0\r\n\r\n")
            self._pump = None
            self.job.caller.watch(exchange.caller_gone)
        except (CallerGone, BodyTooLarge, SlessError) as error:
            exchange.fail(error)

    async def _answer(self) -> None:
        exchange, job = self.exchange, self.job
        call, caller = job.call, job.caller
        answer = answer_of(exchange.status, exchange.headers, call.request_id.encode("latin-1"))
        call.http_status = answer.status
        call.error = answer.error
        self.begun = True
        await caller.start(answer.status, answer.headers + job.extra_headers)
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
