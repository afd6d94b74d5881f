"""Waiting for a condition."""

from collections.abc import Iterator

FIRST_SEC, FACTOR, LONGEST_SEC = 0.01, 1.4, 0.15


def pauses() -> Iterator[float]:
    """Seconds between two checks: short at first, then longer, as a check takes processor time from what it waits for."""
    pause = FIRST_SEC
    while True:
        yield pause
        pause = min(pause * FACTOR, LONGEST_SEC)
