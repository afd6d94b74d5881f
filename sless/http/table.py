"""All rows: what is registered and what is documented."""

from sless.domain.model import Kind
from sless.http import code, history, jobs, namespaces, native, pages, triggers, workloads
from sless.http.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    *namespaces.OPERATIONS,
    *(row for kind in (Kind.FUNCTION, Kind.SERVICE) for part in (workloads, code, history) for row in part.operations(kind)),
    *triggers.OPERATIONS,
    *jobs.OPERATIONS,
    *native.OPERATIONS,
    *pages.OPERATIONS,
)
