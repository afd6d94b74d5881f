"""Why a call failed on an instance: one explanation for all ways to call one, and the report to the backend."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor

from sless.domain.model import CallStatus
from sless.domain.ports import Route
from sless.errors import Code, SlessError
from sless.proxy.exchange import BrokenOff, OverTime
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.live_route import LiveRoute
from sless.proxy.suspects import Suspects
from sless.proxy.sweep import Sweep

_PAUSES_SEC = (0.0, 0.02, 0.05, 0.1, 0.13)
"""Pauses before each query for the reason, 300 ms in all: a dying process closes its socket before its parent is notified."""

_THREADS = 4

WhyGone = Callable[[str], str | None]


class InstanceFailures:
    """`why_gone` and `report_unresponsive` are the backend's, called in separate threads, so failing calls do not delay other work. All
    calls that fail on an instance at the same time share one query and one report. Used on the event loop only."""

    def __init__(self, sweep: Sweep, why_gone: WhyGone, report_unresponsive: Callable[[str], None]) -> None:
        self._suspects = Suspects(sweep)
        self._why_gone = why_gone
        self._report_unresponsive = report_unresponsive
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="instance-failures")
        self._shared: dict[tuple[str, str], asyncio.Task[None]] = {}

    def mark(self, live: LiveRoute, instance: LiveEndpoint, error: BaseException) -> None:
        """Before the call releases its slot: an instance on which a call timed out gets no other until it answers a health check."""
        if isinstance(error, OverTime):
            self._suspects.add(live, instance)
        elif isinstance(error, BrokenOff):
            instance.calls_at_end = max(instance.calls_at_end, instance.active)

    async def explain(self, route: Route, instance: LiveEndpoint, error: Exception, timeout_sec: float) -> SlessError:
        """The error for the caller and for history; also reports an instance that did not answer in time."""
        match error:
            case SlessError():
                return error
            case BrokenOff():
                return await self._broken_off(route, instance, error)
        await self.report(instance)
        return SlessError(Code.TIMEOUT, f'{route.kind} "{route.name}" did not answer within {timeout_sec:g} s')

    async def report(self, instance: LiveEndpoint) -> None:
        """Has the backend check the instance, and replace it if necessary. Also for one that cannot be reached, alive or not."""
        await self._share("report", instance, self._report)

    async def stop(self) -> None:
        await self._suspects.stop()

    def close(self) -> None:
        """Call this after the last call has ended. Blocks."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def _broken_off(self, route: Route, instance: LiveEndpoint, error: BrokenOff) -> SlessError:
        """502 with the backend's reason; without one, with what happened to the connection.

        It is unknown which of several calls ended the instance: Go names the goroutine that panicked, but not the call that started it.
        So all of them get the same reason, which says how many calls were running.
        """
        if not instance.end_reason:
            await self._share("reason", instance, self._find_reason)
        if instance.end_reason:
            return SlessError(code_of(instance.end_reason), instance.end_reason)
        return SlessError(Code.FUNCTION_BROKE_OFF, f'{route.kind} "{route.name}" broke off: {_observation_of(error)}')

    async def _find_reason(self, instance: LiveEndpoint) -> None:
        """Sets `end_reason` before this task ends: a call that fails just then finds either the task or the reason."""
        for pause_sec in _PAUSES_SEC:
            await asyncio.sleep(pause_sec)
            reason = await asyncio.get_running_loop().run_in_executor(self._threads, self._why_gone, instance.endpoint.id)
            if reason:
                calls = instance.calls_at_end
                instance.end_reason = f"{reason} ({calls} calls were running)" if calls > 1 else reason
                return
        instance.calls_at_end = 0

    async def _report(self, instance: LiveEndpoint) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._report_unresponsive, instance.endpoint.id)

    async def _share(self, kind: str, instance: LiveEndpoint, ask: Callable[[LiveEndpoint], Coroutine[None, None, None]]) -> None:
        key = (kind, instance.endpoint.id)
        task = self._shared.get(key)
        if task is None:
            task = self._shared[key] = asyncio.get_running_loop().create_task(ask(instance))
            task.add_done_callback(lambda _: self._shared.pop(key, None))
        await asyncio.shield(task)


def code_of(reason: str) -> Code:
    """The error code for a reason: Backend.why_gone's sentence, or the message of a run. Further lines, and what follows an exit code,
    are the function's own output."""
    reason = reason.partition("\n")[0]
    if reason.startswith(("function exited", "function was ended")):
        reason = reason.partition(":")[0]
    if "disk is full" in reason:
        return Code.STORAGE_FULL
    if "out of memory" in reason:
        return Code.OUT_OF_MEMORY
    if "exited" in reason:
        return Code.FUNCTION_EXITED
    return Code.FUNCTION_BROKE_OFF


def status_of(error: SlessError) -> CallStatus:
    """The status in history of a call that ended with this error."""
    return CallStatus.TIMEOUT if error.code is Code.TIMEOUT else CallStatus.FAILED


def _observation_of(error: BrokenOff) -> str:
    reason = str(error)
    if reason.startswith(("before", "in the middle")):
        return f"it closed the connection {reason}"
    return f"its answer is not valid HTTP ({reason})"
