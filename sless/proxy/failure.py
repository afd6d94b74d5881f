"""What a caller is told when an instance broke off or went over its time."""

import asyncio
from collections.abc import Callable

from sless.domain.model import CallStatus
from sless.domain.ports import Route
from sless.errors import Code, SlessError
from sless.proxy.exchange import BrokenOff, OverTime
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.request import BodyTooLarge, CallerGone

_LOOKS_SEC = (0.0, 0.02, 0.05, 0.1, 0.13)
"""Pauses before each look for the reason: a process that dies closes its socket before its parent hears of it. 300 ms in all."""

WhyGone = Callable[[str], str | None]


def code_of(reason: str) -> Code:
    """Backend.why_gone's sentence, or the first line of what is known of a run, → the code that a caller gets. Further lines are the
    function's own words."""
    reason = reason.partition("\n")[0]
    if "disk is full" in reason:
        return Code.STORAGE_FULL
    if "out of memory" in reason:
        return Code.OUT_OF_MEMORY
    if "exited" in reason:
        return Code.FUNCTION_EXITED
    return Code.FUNCTION_BROKE_OFF


async def broken_off(route: Route, instance: LiveEndpoint, error: BrokenOff, why_gone: WhyGone) -> SlessError:
    """502 with the reason the backend knows, else with what was seen on the connection."""
    for pause_sec in _LOOKS_SEC:
        await asyncio.sleep(pause_sec)
        reason = await asyncio.to_thread(why_gone, instance.endpoint.id)
        if reason:
            return SlessError(code_of(reason), reason)
    return SlessError(Code.FUNCTION_BROKE_OFF, f'{route.kind} "{route.name}" broke off: {_what(error)}')


def over_time(route: Route, timeout_sec: float) -> SlessError:
    return SlessError(Code.TIMEOUT, f'{route.kind} "{route.name}" did not answer within {timeout_sec:g} s')


def body_too_large(limit_bytes: int, limit_name: str = "max_call_body_bytes") -> SlessError:
    return SlessError(Code.TOO_LARGE, f"the request body is over the limit of {limit_bytes} bytes ({limit_name})")


def status_of(error: BaseException) -> CallStatus:
    """How history calls a call that ended with this."""
    match error:
        case CallerGone():
            return CallStatus.CANCELLED
        case OverTime():
            return CallStatus.TIMEOUT
        case SlessError(code=Code.TIMEOUT):
            return CallStatus.TIMEOUT
        case BodyTooLarge():
            return CallStatus.FAILED
    return CallStatus.FAILED


def _what(error: BrokenOff) -> str:
    reason = str(error)
    if reason.startswith(("before", "in the middle")):
        return f"it closed the connection {reason}"
    return f"its answer is no HTTP answer ({reason})"
