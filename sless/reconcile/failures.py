"""Failures that a loop survives: counted, noted for operators, and followed by back-off of the object, so that a failing one is not retried
constantly and does not delay the others.
"""

import random
from datetime import datetime, timedelta

from sless import metrics
from sless.domain.durations import backoff_sec
from sless.store import Store

MAX_SEC = 300.0
ERRORS_SEC = 5.0
"""Interval at which a server stores its notes."""


def note_failure(store: Store, loop: str, error: Exception, workload_id: str = "") -> None:
    """`workload_id` is "" if a whole tick failed."""
    metrics.reconcile_errors.labels(loop).inc()
    store.reconcile_errors.note(loop, error, workload_id)


class Backoff:
    """After n failures in a row, a key is not retried for min(300, 2**n) seconds, ± 20 %."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self._failures: dict[str, int] = {}
        self._until: dict[str, datetime] = {}

    def rests(self, key: str, now: datetime) -> bool:
        until = self._until.get(key)
        return until is not None and now < until

    def failed(self, key: str, now: datetime) -> float:
        """Records a failure; returns the seconds until the next attempt."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay_sec = backoff_sec(count, first_sec=2.0, max_sec=MAX_SEC) * self._rng.uniform(0.8, 1.2)
        self._until[key] = now + timedelta(seconds=delay_sec)
        return delay_sec

    def succeeded(self, key: str) -> None:
        self._failures.pop(key, None)
        self._until.pop(key, None)
