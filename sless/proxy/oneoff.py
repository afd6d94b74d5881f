"""One-off runs: one process per call, for workloads without instances."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from sless.domain.model import CallStatus, CallTrigger
from sless.domain.ports import BackendUnavailable, ObservedRun, Outcome, Revision, RunSpec
from sless.domain.slots import Slots
from sless.errors import Code, SlessError
from sless.proxy.failure import code_of
from sless.proxy.heads import Answer, answer_of
from sless.proxy.request import CallRecord
from sless.proxy.wait_queue import WaitQueue

GRACE_SEC = 135.0
"""The backend ends runs that time out or cannot start; this long after the time-out, the run counts as lost. A cluster may need two
minutes to start a run (a new node, an image to pull), which does not count as the run's own time."""


class RunBackend(Protocol):
    """The part of domain.ports.Backend that a run needs. `app` makes it safe to call concurrently with the reconcilers."""

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None: ...

    def remove_run(self, run_id: str) -> None: ...


class OneOffRunner:
    """At most `max_runs` concurrently, shared fairly between tenants (`domain.slots`); further calls wait up to `wait_sec`."""

    def __init__(
        self, backend: RunBackend, queue: WaitQueue, *, max_runs: int, wait_sec: float,
        most_of: Callable[[str], int | None] = lambda _: None,
    ) -> None:  # fmt: skip
        """`most_of`: the limit of a namespace."""
        self._most_of = most_of
        self._backend = backend
        self._queue = queue
        self._max_runs = max_runs
        self._wait_sec = wait_sec
        self._slots = Slots(free=max_runs)
        self._freed = asyncio.Condition()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="one-off")

    async def run(self, spec: RunSpec) -> ObservedRun:
        """Starts the run and waits for its end. Cancelling stops the run. Raises SlessError."""
        namespace = spec.revision.namespace
        if not self._slots.take(namespace, self._most_of(namespace)):
            with self._queue.place(spec.revision):
                await self._wait_for_slot(namespace)
        try:
            return await self._run(spec)
        finally:
            self._slots.give_back(namespace)
            async with self._freed:
                self._freed.notify_all()

    async def _wait_for_slot(self, namespace: str) -> None:
        try:
            async with asyncio.timeout(self._wait_sec), self._freed:
                await self._freed.wait_for(lambda: self._slots.take(namespace, self._most_of(namespace)))
        except TimeoutError:
            most = self._most_of(namespace)
            may_use = (self._max_runs + 1) // 2
            share = f"this namespace may use {may_use} of {self._max_runs}"
            if most is not None and most < may_use:
                share = f"limit runs_at_once of the namespace: at most {most}"
            message = f"no run slot became free within {self._wait_sec:g} s ({share})"
            raise SlessError(Code.NO_INSTANCES, message, retry_after_sec=5) from None

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
