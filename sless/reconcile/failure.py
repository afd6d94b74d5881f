"""What loops do about an error that they survive: it is counted, and noted for operators."""

from sless import metrics
from sless.store import Store

ERRORS_SEC = 2.0
"""Between two times that a server stores what it noted."""


def note_failure(store: Store, loop: str, error: Exception, workload_id: str = "") -> None:
    """`workload_id` "": a whole tick failed."""
    metrics.reconcile_errors.labels(loop).inc()
    store.reconcile_errors.note(loop, error, workload_id)
