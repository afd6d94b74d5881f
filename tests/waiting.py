"""Pauses between checks of a condition that a test waits for."""

from collections.abc import Iterator

FIRST_SEC, FACTOR, LONGEST_SEC = 0.01, 1.4, 0.15


def pauses() -> Iterator[float]:
    """Seconds between checks: short at first, then longer, as each check takes processor time from the work it waits for."""
    pause = FIRST_SEC
    while True:
        yield pause
        pause = min(pause * FACTOR, LONGEST_SEC)
