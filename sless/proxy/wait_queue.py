"""Limits how many calls may wait for an instance or a run slot. Used on the event loop only, but for `depth`."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from sless import clock, metrics
from sless.domain.operators import QueueDepth
from sless.domain.ports import Revision, Route
from sless.errors import Code, SlessError

PER_WORKLOAD = 1000
IN_ALL = 5000
_RETRY_AFTER_SEC = 5


class WaitQueue:
    """Counts waiting calls per workload and in the process, and refuses more."""

    def __init__(self, *, per_workload: int = PER_WORKLOAD, in_all: int = IN_ALL) -> None:
        self._per_workload = per_workload
        self._in_all = in_all
        self._waiting = Counter[str]()
        self._since: dict[object, datetime] = {}
        """When each waiting call began to wait, in this order."""
        self.total = 0

    def depth(self) -> QueueDepth:
        """The waiting calls of this process. May be called from any thread."""
        since = list(self._since.values())
        return QueueDepth(queue="calls", waiting=len(since), due_at=since[0] if since else None)

    @contextmanager
    def place(self, workload: Route | Revision) -> Iterator[None]:
        """Occupies a place in the queue during the block. Raises SlessError OVERLOADED if there is none."""
        workload_id = workload.workload_id
        if self._waiting[workload_id] >= self._per_workload:
            raise _overloaded("workload", f'{self._per_workload} calls of {workload.kind} "{workload.name}" are waiting already')
        if self.total >= self._in_all:
            raise _overloaded("process", f"{self._in_all} calls of all functions and services are waiting already")
        ticket = object()
        self._since[ticket] = clock.now()
        self._change(workload_id, 1)
        try:
            yield
        finally:
            del self._since[ticket]
            self._change(workload_id, -1)

    def _change(self, workload_id: str, by: int) -> None:
        self._waiting[workload_id] += by
        if not self._waiting[workload_id]:
            del self._waiting[workload_id]
        self.total += by
        metrics.waiting_calls.set(self.total)


def _overloaded(limit: str, message: str) -> SlessError:
    metrics.overloaded_calls.labels(limit).inc()
    return SlessError(Code.OVERLOADED, message, retry_after_sec=_RETRY_AFTER_SEC)
