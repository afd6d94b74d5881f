"""All rows, to register and to document."""

from sless.domain.model import Kind
from sless.http import (
    audit,
    billing,
    code,
    history,
    invocations,
    namespaces,
    native,
    notifications,
    operator_state,
    operator_tenants,
    operators,
    overview,
    pages,
    schedules,
    triggers,
    workloads,
)
from sless.http.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    *namespaces.OPERATIONS,
    *audit.OPERATIONS,
    *billing.OPERATIONS,
    *notifications.OPERATIONS,
    *overview.OPERATIONS,
    *(row for kind in (Kind.FUNCTION, Kind.SERVICE) for part in (workloads, code, history, invocations) for row in part.operations(kind)),
    *invocations.OPERATIONS,
    *triggers.OPERATIONS,
    *schedules.OPERATIONS,
    *workloads.JOB_OPERATIONS,
    *operators.OPERATIONS,
    *operator_state.OPERATIONS,
    *operator_tenants.OPERATIONS,
    *native.OPERATIONS,
    *pages.OPERATIONS,
)
