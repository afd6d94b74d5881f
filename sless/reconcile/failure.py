"""Counts errors that a loop survives, and notes them for operators."""

from sless import metrics
from sless.store import Store

ERRORS_SEC = 5.0
"""Interval at which a server stores its notes."""


def note_failure(store: Store, loop: str, error: Exception, workload_id: str = "") -> None:
    """`workload_id` is "" if a whole tick failed."""
    metrics.reconcile_errors.labels(loop).inc()
    store.reconcile_errors.note(loop, error, workload_id)
