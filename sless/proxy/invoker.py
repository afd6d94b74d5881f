"""domain.ports.Invoker: calls for the reconcilers (asynchronous calls, cron, events), made on the event loop and awaited in their thread.

Nothing is recorded here: whoever accepted the call keeps its row.
"""

import asyncio
import json
from datetime import datetime
from time import monotonic

from sless import clock
from sless.domain.model import CallStatus
from sless.domain.ports import AcceptedCall, ObservedRun, Outcome, Program, RunSpec
from sless.errors import Code, SlessError
from sless.proxy.entry import Entry
from sless.proxy.exchange import BrokenOff, OverTime
from sless.proxy.failure import broken_off, over_time
from sless.proxy.fetch import Fetched, fetch
from sless.proxy.forward import Forwarder
from sless.proxy.heads import answer_of
from sless.proxy.oneshot import OneShotRunner
from sless.proxy.routes import RouteTable
from sless.proxy.target import Target

_WAIT_MARGIN_SEC = 30.0


class LoopInvoker:
    def __init__(self, table: RouteTable, forwarder: Forwarder, oneshot: OneShotRunner, *, max_result_bytes: int) -> None:
        self._table = table
        self._forwarder = forwarder
        self._oneshot = oneshot
        self._max_result_bytes = max_result_bytes
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def invoke(self, workload_id: str, run: AcceptedCall, timeout_sec: float) -> ObservedRun:
        """Blocks until the call has ended. Raises SlessError when it could not be made (not found, blocked, no instance, stopping);
        what the function did is in the answer."""
        if self._loop is None or self._loop.is_closed():
            raise SlessError(Code.SHUTTING_DOWN, "the server is not running")
        future = asyncio.run_coroutine_threadsafe(self.call(workload_id, run, timeout_sec), self._loop)
        try:
            return future.result(timeout_sec + self._forwarder.options.instance_wait_sec + _WAIT_MARGIN_SEC)
        except TimeoutError:
            future.cancel()
            return ObservedRun(id=run.id, status=CallStatus.TIMEOUT, message=f"no answer within {timeout_sec:g} s")

    async def call(self, workload_id: str, run: AcceptedCall, timeout_sec: float) -> ObservedRun:
        entry = self._table.find_by_id(workload_id)
        if entry is None:
            raise SlessError(Code.NOT_FOUND, f'{run.kind} "{run.name}" not found')
        entry.check_served()
        program = entry.route.program
        if program is None:
            raise SlessError(Code.NOT_READY, f'{run.kind} "{run.name}" has no version that is ready', retry_after_sec=5)
        if not entry.route.wants_instances:
            return await self._oneshot.run(_spec(run, program))
        return await self._on_instance(entry, run, timeout_sec)

    async def _on_instance(self, entry: Entry, run: AcceptedCall, timeout_sec: float) -> ObservedRun:
        options = self._forwarder.options
        message = _message_of(run, timeout_sec)
        while True:
            target = await entry.target(options.instance_wait_sec)
            started_at = clock.now()
            try:
                target.calls += 1
                fetched = await fetch(
                    target.endpoint.address, message, timeout_sec=timeout_sec, max_bytes=self._max_result_bytes, sweep=self._forwarder.sweep
                )
                return _observed(run, fetched, started_at)
            except OSError:
                target.suspend(monotonic())
                await self._stuck(target)
            except BrokenOff as error:
                told = await broken_off(entry.route, target, error, options.why_gone)
                return _failed(run, CallStatus.FAILED, told.message, started_at)
            except OverTime:
                await self._stuck(target)
                return _failed(run, CallStatus.TIMEOUT, over_time(entry.route, timeout_sec).message, started_at)
            finally:
                entry.release(target)

    async def _stuck(self, target: Target) -> None:
        await asyncio.to_thread(self._forwarder.options.report_stuck, target.endpoint.id)


def _spec(run: AcceptedCall, program: Program) -> RunSpec:
    return RunSpec(id=run.id, program=program, event=run.event, request_id=run.request_id, cause=run.cause)


def _message_of(run: AcceptedCall, timeout_sec: float) -> bytes:
    body = run.event.encode()
    lines = [
        "POST / HTTP/1.1",
        "host: sless",
        "content-type: application/json",
        f"content-length: {len(body)}",
        f"x-request-id: {run.request_id}",
        f"x-sless-invocation-id: {run.id}",
        f"x-sless-trigger: {run.cause}",
        f"x-sless-timeout-ms: {int(timeout_sec * 1000)}",
        "connection: close",
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def _observed(run: AcceptedCall, fetched: Fetched, started_at: datetime) -> ObservedRun:
    failed = any(name == b"x-sless-function-error" for name, _ in fetched.headers)
    answer = answer_of(fetched.status, fetched.headers, run.request_id.encode("latin-1"))
    ok = fetched.status < 500 and not failed and answer.fault is None
    text = fetched.body.decode("utf-8", "replace")
    error = None if ok else (answer.error or text[:1000] or f"status {fetched.status}")
    outcome = Outcome(
        ok=ok, result=_result_of(text, fetched) if ok else None, error=error, error_type=answer.fault, status=fetched.status,
        headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers), body=fetched.body,
    )  # fmt: skip
    status = CallStatus.SUCCEEDED if ok else CallStatus.FAILED
    return ObservedRun(
        id=run.id, status=status, outcome=outcome, message=error or "", started_at=started_at, ended_at=clock.now()
    )  # fmt: skip


def _result_of(text: str, fetched: Fetched) -> str:
    """JSON text of what the handler returned, as near as HTTP shows it."""
    if fetched.status == 204 or not text:
        return "null"
    content_type = next((value for name, value in fetched.headers if name == b"content-type"), b"")
    return text if content_type.startswith(b"application/json") else json.dumps(text, ensure_ascii=False)


def _failed(run: AcceptedCall, status: CallStatus, message: str, started_at: datetime) -> ObservedRun:
    return ObservedRun(id=run.id, status=status, message=message, started_at=started_at, ended_at=clock.now())
