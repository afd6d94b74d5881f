"""domain.ports.Invoker: calls for the control loops (asynchronous calls, cron), made on the event loop.

It records nothing: the control loops write the rows of their runs.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from time import monotonic

from sless import clock
from sless.domain.event import own_failure_of
from sless.domain.model import CallStatus, Run
from sless.domain.ports import ObservedRun, Outcome, Revision, RunSpec
from sless.domain.request import StoredRequest, stored_request_of
from sless.errors import Code, SlessError
from sless.proxy.exchange import BrokenOff, OverTime
from sless.proxy.failure import status_of
from sless.proxy.fetch import AnswerTooLarge, Fetched, fetch
from sless.proxy.forward import Forwarder
from sless.proxy.heads import Trust, answer_of, request_head
from sless.proxy.live_route import LiveRoute
from sless.proxy.oneoff import OneOffRunner
from sless.proxy.request import Request
from sless.proxy.routes import RouteTable

_log = logging.getLogger(__name__)
_SYNC_SEC = 1.0


class LoopInvoker:
    def __init__(self, table: RouteTable, forwarder: Forwarder, oneoff: OneOffRunner, *, max_result_bytes: int) -> None:
        self._table = table
        self._forwarder = forwarder
        self._oneoff = oneoff
        self._max_result_bytes = max_result_bytes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = False

    def stop(self) -> None:
        """Stops reporting results, so that the next server process repeats the runs."""
        self._stopping = True

    def begin(self, run: Run, timeout_sec: float, done: Callable[[ObservedRun], None]) -> Callable[[], None]:
        if self._loop is None or self._stopping:
            raise SlessError(Code.SHUTTING_DOWN, "the server is not running")

        def ended(future: Future[ObservedRun]) -> None:
            if not self._stopping:
                done(_end_of(run, future))

        future = asyncio.run_coroutine_threadsafe(self._call(run, timeout_sec), self._loop)
        future.add_done_callback(ended)
        return lambda: _cancel(future)

    async def _call(self, run: Run, timeout_sec: float) -> ObservedRun:
        live = self._table.find_by_id(run.workload_id)
        if live is None or live.route.blocked is not None:
            # The run may have been accepted after the table was last read.
            await self._table.synced(_SYNC_SEC)
            live = self._table.find_by_id(run.workload_id)
        if live is None:
            raise SlessError(Code.NOT_FOUND, f'{run.kind} "{run.name}" not found')
        live.check_served()
        revision = live.route.revision
        if revision is None:
            raise SlessError(Code.NOT_READY, f'{run.kind} "{run.name}" has no version that is ready', retry_after_sec=5)
        if not live.route.wants_instances:
            return await self._oneoff.run(_spec(run, revision))
        return await self._on_instance(live, run, timeout_sec)

    async def _on_instance(self, live: LiveRoute, run: Run, timeout_sec: float) -> ObservedRun:
        options, failures = self._forwarder.options, self._forwarder.failures
        message = _message_of(run, timeout_sec, options.trust)
        deadline = monotonic() + options.instance_wait_sec
        while True:
            instance = await live.take(options.instance_wait_sec, deadline)
            started_at = clock.now()
            try:
                instance.calls += 1
                address, most, sweep = instance.endpoint.address, self._max_result_bytes, self._forwarder.sweep
                return _observed(run, await fetch(address, message, timeout_sec=timeout_sec, max_bytes=most, sweep=sweep), started_at)
            except OSError:
                instance.suspend(monotonic())
                await failures.report(instance)
            except AnswerTooLarge as error:
                return _too_large(run, error.status, self._max_result_bytes, started_at)
            except (BrokenOff, OverTime) as error:
                failures.mark(live, instance, error)
                explained = await failures.explain(live.route, instance, error, timeout_sec)
                failed = _ended(run, status_of(explained), explained.message, started_at)
                return replace(failed, crashed=isinstance(error, BrokenOff))
            finally:
                live.release(instance)


def _spec(run: Run, revision: Revision) -> RunSpec:
    event = run.event if run.request is None else stored_request_of(run.request).event()
    return RunSpec(id=run.id, revision=revision, event=event, request_id=run.request_id, trigger=run.trigger)


def _cancel(future: "Future[ObservedRun]") -> None:
    future.cancel()


def _end_of(run: Run, ended: "Future[ObservedRun]") -> ObservedRun:
    if ended.cancelled():
        return ObservedRun(id=run.id, status=CallStatus.CANCELLED, message="cancelled")
    match ended.exception():
        case None:
            return ended.result()
        case SlessError() as error:
            return ObservedRun(id=run.id, status=CallStatus.FAILED, message=error.message)
        case error:
            _log.error("call %s of %s failed", run.id, run.name, exc_info=error)
            return ObservedRun(id=run.id, status=CallStatus.FAILED, message=f"{type(error).__name__}: {error}")


def _message_of(run: Run, timeout_sec: float, trust: Trust) -> bytes:
    if run.request is not None:
        return _request_of(run, stored_request_of(run.request), timeout_sec, trust)
    body = run.event.encode()
    lines = [
        "POST / HTTP/1.1",
        "host: sless",
        "content-type: application/json",
        f"content-length: {len(body)}",
        f"x-request-id: {run.request_id}",
        f"x-sless-invocation-id: {run.id}",
        f"x-sless-trigger: {run.trigger}",
        f"x-sless-timeout-ms: {int(timeout_sec * 1000)}",
        "connection: close",
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def _request_of(run: Run, stored: StoredRequest, timeout_sec: float, trust: Trust) -> bytes:
    """The bytes that a synchronous call over /fn would have sent."""
    request = Request(stored.method, stored.full_path, stored.query, stored.headers)
    request.target, request.client, request.scheme = stored.target, stored.client, stored.scheme
    head = request_head(run, request, int(timeout_sec), trust)
    if stored.body or stored.method not in ("GET", "HEAD"):
        head += b"content-length: %d\r\n" % len(stored.body)
    return head + b"connection: close\r\n\r\n" + stored.body


def _observed(run: Run, fetched: Fetched, started_at: datetime) -> ObservedRun:
    failed = any(name == b"x-sless-function-error" for name, _ in fetched.headers)
    answer = answer_of(fetched.status, fetched.headers, run.request_id.encode("latin-1"))
    own_failure = own_failure_of(fetched.status, fetched.body)
    ok = own_failure is None and not failed and answer.fault is None
    error = None if ok else (answer.error or own_failure or f"status {fetched.status}")
    outcome = Outcome(
        ok=ok, error=error, error_type=answer.fault, status=fetched.status,
        headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers), body=fetched.body,
    )  # fmt: skip
    status = CallStatus.SUCCEEDED if ok else CallStatus.FAILED
    return replace(_ended(run, status, error or "", started_at), outcome=outcome)


def _too_large(run: Run, status: int, max_bytes: int, started_at: datetime) -> ObservedRun:
    """Has an outcome, so that the run is not retried: its result would be just as large."""
    message = f"the result is over the limit of {max_bytes} bytes (max_result_bytes)"
    outcome = Outcome(ok=False, error=message, error_type=None, status=status, headers=(), body=b"")
    return replace(_ended(run, CallStatus.FAILED, message, started_at), outcome=outcome)


def _ended(run: Run, status: CallStatus, message: str, started_at: datetime) -> ObservedRun:
    return ObservedRun(id=run.id, status=status, message=message, started_at=started_at, ended_at=clock.now())
