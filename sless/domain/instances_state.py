"""State of the instances of a function or service. Pure."""

from collections.abc import Sequence

from sless.domain.instance_bounds import InstancesState, bounds_of
from sless.domain.model import Kind, Phase, Trigger, TriggerType, Workload
from sless.domain.phase import PhaseView
from sless.domain.routing import keeps_instances


def instances_state_of(workload: Workload, phase: PhaseView, triggers: Sequence[Trigger]) -> InstancesState | None:
    """The state; None for jobs. `triggers` are those that refer to the workload."""
    if workload.kind is Kind.JOB:
        return None
    if workload.suspended is not None:
        return InstancesState.SUSPENDED
    if phase.active_version is None:
        return InstancesState.NO_VERSION
    if workload.observed.ready_instances:
        return _running_state_of(workload, phase)
    if not keeps_instances(workload.kind, triggers):
        # A cron trigger runs its calls in processes of their own unless it has warmed an instance.
        return InstancesState.RUNS if all(item.type is TriggerType.CRON for item in triggers) else InstancesState.DISABLED
    if bounds_of(workload.kind, workload.spec).most == 0:
        return InstancesState.OFF
    if phase.phase is Phase.FAILED:
        return InstancesState.FAILING
    return InstancesState.STARTING if phase.phase is Phase.DEPLOYING else InstancesState.ZERO


def _running_state_of(workload: Workload, phase: PhaseView) -> InstancesState:
    if workload.observed.message and workload.observed.message == phase.message:
        return InstancesState.LIMITED
    bounds = bounds_of(workload.kind, workload.spec)
    return InstancesState.FULL if bounds.least < bounds.most <= workload.observed.ready_instances else InstancesState.SERVING
