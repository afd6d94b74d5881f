"""Exponential back-off: the formula for all retries."""

_MAX_DOUBLINGS = 30


def backoff_sec(failures: int, *, first_sec: float, max_sec: float) -> float:
    """Seconds until the next attempt: `first_sec` after the first failure, twice as long after each further one, at most `max_sec`."""
    return min(max_sec, first_sec * 2.0 ** min(max(failures - 1, 0), _MAX_DOUBLINGS))
