"""Waits for the server, until a deadline or until Terraform asks the provider to stop."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from sless.client import ClientError, Unreachable
from sless.client.deployment import growing_pauses
from sless.terraform.failure import Failure, Interrupted

FIRST_PAUSE_SEC = 0.1
LONGEST_PAUSE_SEC = 1.0
OUTAGE_SEC = 60.0
"""How long the server may be unreachable during a wait: enough for a restart of its pod that pulls the image."""
BUSY_SEC = 300.0
"""How long a busy server may refuse the same request, since Terraform sends as many at once as `-parallelism` allows. If a limit per hour
is reached, the server asks for a longer wait."""
GATEWAY_ERRORS = frozenset({502, 503, 504})
"""Answers of a proxy without a server behind it."""
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Waiter:
    """`stop` is set when Terraform is interrupted. `outage_sec`: how long the server may fail to respond."""

    def __init__(self, stop: threading.Event, outage_sec: float = OUTAGE_SEC) -> None:
        self._stop = stop
        self._outage_sec = outage_sec

    def poll(self, check: Callable[[], Any], timeout_sec: float, describe: Callable[[], str]) -> Any:
        """The first value of `check` that is not None. Retries while the server is unreachable or busy.

        Raises Interrupted, or at the deadline Failure with the text of `describe`, or the last error of an outage that is too long.
        """
        deadline = time.monotonic() + timeout_sec
        refused_since = None
        for pause_sec in growing_pauses(FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC):
            wait_sec = pause_sec
            try:
                found = check()
                refused_since = None
            except ClientError as error:
                refused_since = refused_since or time.monotonic()
                wait_sec = max(pause_sec, error.retry_after_sec or 0)
                if time.monotonic() + wait_sec > refused_since + self._patience_sec(error):
                    raise
                found = None
            if found is not None:
                return found
            if time.monotonic() + wait_sec > deadline:
                raise Failure("Timed out", f"{describe()} after {timeout_sec:g} s.")
            if self._stop.wait(wait_sec):
                raise Interrupted("Interrupted", f"{describe()}. The resource is in the state as it was at that moment.")

    def _patience_sec(self, error: ClientError) -> float:
        """How long requests may fail with this error; 0 if it is not temporary."""
        if is_outage(error):
            return self._outage_sec
        return BUSY_SEC if error.status == 429 and error.retry_after_sec is not None else 0.0

    def outlast(self, request: Callable[[], Any]) -> Any:
        """The value of `request`, which may be sent twice. Retries while the server is unreachable. Raises the last error, or
        Interrupted."""
        return self.poll(lambda: (request(),), math.inf, lambda: "The server did not answer yet")[0]


def is_outage(error: ClientError) -> bool:
    return isinstance(error, Unreachable) or (error.status in GATEWAY_ERRORS and not error.code)


def seconds_of(text: str) -> float | None:
    """`1h30m`, `90s`, `250ms` → seconds; None if the text is not a duration."""
    total, digits, unit = 0.0, "", ""
    parts: list[tuple[str, str]] = []
    for char in text.strip():
        if char.isdigit() or char == ".":
            if unit:
                parts.append((digits, unit))
                digits, unit = "", ""
            digits += char
        else:
            unit += char
    parts.append((digits, unit))
    for number, name in parts:
        if name not in UNITS or not number or number.count(".") > 1 or number == ".":
            return None
        total += float(number) * UNITS[name]
    return total
