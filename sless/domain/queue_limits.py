"""Limits of the asynchronous calls that wait, per function and per tenant. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sless.domain.model import Run
from sless.errors import Code, SlessError

RETRY_AFTER_SEC = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    per_function: int
    per_tenant: int
    bytes_per_tenant: int


class QueueSizes:
    """`queued` maps (namespace, workload id) to number and bytes of queued runs; admitted runs are added to it."""

    def __init__(self, queued: Mapping[tuple[str, str], tuple[int, int]], limits: QueueLimits) -> None:
        self._limits = limits
        self._of_workload: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        for (namespace, workload_id), (count, size_bytes) in queued.items():
            self._add(namespace, workload_id, count, size_bytes)

    def refusal_of(self, run: Run) -> SlessError | None:
        """None admits the run."""
        limits = self._limits
        if self._of_workload[run.workload_id] >= limits.per_function:
            return _refusal(
                f'{limits.per_function} asynchronous calls of {run.kind} "{run.name}" wait already', "async_queued_per_function"
            )
        if self._of_tenant[run.namespace] >= limits.per_tenant:
            return _refusal(f"{limits.per_tenant} asynchronous calls of this namespace wait already", "async_queued_per_tenant")
        if self._bytes[run.namespace] + run.size_bytes > limits.bytes_per_tenant:
            found = f"asynchronous calls of this namespace may hold {limits.bytes_per_tenant} bytes in the queue"
            return _refusal(found, "async_queued_bytes_per_tenant")
        self._add(run.namespace, run.workload_id, 1, run.size_bytes)
        return None

    def _add(self, namespace: str, workload_id: str, count: int, size_bytes: int) -> None:
        self._of_workload[workload_id] += count
        self._of_tenant[namespace] += count
        self._bytes[namespace] += size_bytes


def _refusal(found: str, limit: str) -> SlessError:
    return SlessError(Code.TOO_MANY_REQUESTS, f"{found} (limit {limit})", retry_after_sec=RETRY_AFTER_SEC)
