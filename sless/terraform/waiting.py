"""Waiting for the server, until a deadline or until Terraform asks the provider to stop."""

import threading
import time
from collections.abc import Callable
from typing import Any

from sless.terraform.failure import Failure, Interrupted

FIRST_PAUSE_SEC = 0.1
LONGEST_PAUSE_SEC = 1.0
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Waiter:
    """`stop` is set when Terraform was interrupted."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def poll(self, check: Callable[[], Any], timeout_sec: float, describe: Callable[[], str]) -> Any:
        """The first value of `check` that is not None. Raises Interrupted, or at the deadline Failure with the text of `describe`."""
        deadline = time.monotonic() + timeout_sec
        pause_sec = FIRST_PAUSE_SEC
        while True:
            found = check()
            if found is not None:
                return found
            if time.monotonic() + pause_sec > deadline:
                raise Failure("Timed out", f"{describe()} after {timeout_sec:g} s.")
            if self._stop.wait(pause_sec):
                raise Interrupted("Interrupted", f"{describe()}. The resource is in the state as it was at that moment.")
            pause_sec = min(pause_sec * 1.3, LONGEST_PAUSE_SEC)


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
