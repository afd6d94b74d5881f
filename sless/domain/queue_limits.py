"""Limits on waiting asynchronous calls, per function and per tenant. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping

from sless.domain.limits import LimitName, TenantLimits, refusal_of
from sless.domain.model import Run
from sless.errors import SlessError

RETRY_AFTER_SEC = 5


class QueueSizes:
    """`queued` maps (namespace, workload id) to number and bytes of queued runs; admitted runs are added to it. `limits_of` takes a
    namespace."""

    def __init__(self, queued: Mapping[tuple[str, str], tuple[int, int]], limits_of: Callable[[str], TenantLimits]) -> None:
        self._limits_of = limits_of
        self._of_workload: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        for (namespace, workload_id), (count, size_bytes) in queued.items():
            self._add(namespace, workload_id, count, size_bytes)

    def refusal_of(self, run: Run) -> SlessError | None:
        """Why the run is refused; None admits it."""
        wanted = {
            LimitName.ASYNC_PER_FUNCTION: self._of_workload[run.workload_id] + 1,
            LimitName.ASYNC_PER_TENANT: self._of_tenant[run.namespace] + 1,
            LimitName.ASYNC_BYTES: self._bytes[run.namespace] + run.size_bytes,
        }
        limits = self._limits_of(run.namespace)
        for name, found in wanted.items():
            if found > limits[name]:
                return refusal_of(name, limits[name], found, RETRY_AFTER_SEC)
        self._add(run.namespace, run.workload_id, 1, run.size_bytes)
        return None

    def _add(self, namespace: str, workload_id: str, count: int, size_bytes: int) -> None:
        self._of_workload[workload_id] += count
        self._of_tenant[namespace] += count
        self._bytes[namespace] += size_bytes
