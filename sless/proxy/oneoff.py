"""One-off runs: one process per call, for workloads without instances."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal, Protocol

from sless.domain.limits import LimitName, TenantLimits, short_text_of
from sless.domain.model import CallStatus, CallTrigger
from sless.domain.ports import BackendUnavailable, ObservedRun, Outcome, Revision, RunSpec
from sless.domain.slots import Slots
from sless.errors import Code, SlessError
from sless.proxy.failure import code_of
from sless.proxy.heads import Answer, answer_of
from sless.proxy.request import CallRecord
from sless.proxy.run_room import RunRoom
from sless.proxy.wait_queue import WaitQueue

GRACE_SEC = 135.0
"""The backend ends runs that time out or cannot start; this long after the time-out, the run counts as lost. A cluster may need two
minutes to start a run (a new node, an image to pull), which does not count as the run's own time."""


_POLL_SEC = 1.0
"""How often a waiting call checks whether instances, jobs or other replicas of the server have released room."""


_SLOT: Final = "slot"
_Short = LimitName | Literal["slot"]
"""Reason why a run waits: a limit of its tenant, or the slots shared by all."""


class RunBackend(Protocol):
    """The part of domain.ports.Backend that a run needs. `app` makes it safe to call concurrently with the reconcilers."""

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None: ...

    def remove_run(self, run_id: str) -> None: ...


class OneOffRunner:
    """Executes at most `max_runs` concurrently, shared fairly between tenants (`domain.slots`) and within the limits of each. Further calls
    wait for up to `wait_sec`."""

    def __init__(
        self, backend: RunBackend, queue: WaitQueue, *, max_runs: int, wait_sec: float,
        limits_of: Callable[[str], TenantLimits | None] = lambda namespace: None, room: RunRoom | None = None,
    ) -> None:  # fmt: skip
        """`limits_of` takes a namespace, and returns None if there are no limits."""
        self._limits_of = limits_of
        self._room = room or RunRoom()
        self._backend = backend
        self._queue = queue
        self._max_runs = max_runs
        self._wait_sec = wait_sec
        self._slots = Slots(free=max_runs)
        self._freed = asyncio.Condition()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="one-off")

    async def run(self, spec: RunSpec) -> ObservedRun:
        """Starts the run and waits for its end. Cancelling stops the run. Raises SlessError."""
        await self._begin(spec)
        try:
            return await self._run(spec)
        finally:
            self._room.give_back(spec.id)
            self._slots.give_back(spec.revision.namespace)
            async with self._freed:
                self._freed.notify_all()

    async def _begin(self, spec: RunSpec) -> None:
        """Returns with a slot and memory. Raises SlessError."""
        begun = False
        try:
            if self._take(spec) is not None:
                with self._queue.place(spec.revision):
                    await self._wait(spec)
            begun = True
        finally:
            if not begun:
                self._room.give_back(spec.id)

    def _take(self, spec: RunSpec) -> _Short | None:
        """None if the run may start; otherwise the reason why it waits. Raises LIMIT_REACHED."""
        namespace = spec.revision.namespace
        if not self._slots.take(namespace):
            return _SLOT
        short: _Short | None = _SLOT
        try:
            short = self._room.take(spec.id, namespace, spec.revision.memory_mb, self._limits_of(namespace))
        finally:
            if short is not None:
                self._slots.give_back(namespace)
        return short

    async def _wait(self, spec: RunSpec) -> None:
        short: _Short | None = _SLOT
        try:
            async with asyncio.timeout(self._wait_sec), self._freed:
                while (short := self._take(spec)) is not None:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_POLL_SEC):
                            await self._freed.wait()
        except TimeoutError:
            message = f"no run slot became free within {self._wait_sec:g} s ({self._reason_of(spec.revision.namespace, short)})"
            raise SlessError(Code.NO_INSTANCES, message, retry_after_sec=5) from None

    def _reason_of(self, namespace: str, short: _Short | None) -> str:
        limits = self._limits_of(namespace)
        if isinstance(short, LimitName) and limits is not None:
            return short_text_of(short, limits)
        return f"this namespace may use {(self._max_runs + 1) // 2} of {self._max_runs}"

    async def _run(self, spec: RunSpec) -> ObservedRun:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[ObservedRun] = loop.create_future()

        def end(observed: ObservedRun) -> None:
            if not ended.done():
                ended.set_result(observed)

        def done(observed: ObservedRun) -> None:
            loop.call_soon_threadsafe(end, observed)

        limit_sec = spec.revision.timeout_sec + GRACE_SEC if spec.revision.timeout_sec else None
        try:
            await loop.run_in_executor(self._thread, self._backend.start_run, spec, done)
            async with asyncio.timeout(limit_sec):
                return await ended
        except BackendUnavailable as error:
            raise SlessError(Code.UNAVAILABLE, f"the run could not be started: {error}", retry_after_sec=5) from error
        except TimeoutError:
            return ObservedRun(id=spec.id, status=CallStatus.TIMEOUT)
        finally:
            self._thread.submit(self._backend.remove_run, spec.id)

    def close(self) -> None:
        self._thread.shutdown(wait=True)


def run_spec(call: CallRecord, revision: Revision, event: str) -> RunSpec:
    return RunSpec(id=call.id, revision=revision, event=event, request_id=call.request_id, trigger=CallTrigger(call.trigger))


def outcome_answer(outcome: Outcome, request_id: str) -> Answer:
    """The HTTP answer of an outcome, by the same rules as that of an instance."""
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in outcome.headers]
    headers = [pair for pair in raw if pair[0] != b"content-length"]
    answer = answer_of(outcome.status, headers, request_id.encode("latin-1"))
    if outcome.status not in (204, 304):
        answer.headers.append((b"content-length", b"%d" % len(outcome.body)))
    return answer


def run_failure(observed: ObservedRun, revision: Revision) -> SlessError:
    """The error for the caller of a run that left no outcome."""
    if observed.status is CallStatus.TIMEOUT:
        return SlessError(Code.TIMEOUT, f'{revision.kind} "{revision.name}" did not answer within {revision.timeout_sec} s')
    code = observed.exit_code
    message = observed.message or (f"function exited with code {code}" if code else "the run ended without a result")
    return SlessError(code_of(message), message)
