"""Why a workload has the instances it has, as a table."""

import pytest

from sless.domain.instance_bounds import InstancesState as State
from sless.domain.instances_state import instances_state_of
from sless.domain.model import Kind, Observed, TriggerType
from sless.domain.phase import phase_of
from tests.builders import make_trigger, make_version, make_workload, make_workload_spec

HTTP, OFF, CRON = make_trigger(), make_trigger(enabled=False), make_trigger(type=TriggerType.CRON)


def seen(ready: int = 0, **changes: object) -> Observed:
    return Observed(**{"generation": 3, "version": 1, "wanted": 3, "ready_instances": ready} | changes)


@pytest.mark.parametrize(
    ("expected", "kind", "spec", "observed", "triggers", "changes"),
    [
        (State.SERVING, "function", {}, seen(1), [HTTP], {}),
        (State.SERVING, "function", {}, seen(1), [CRON], {}),  # warmed for a firing
        (State.SERVING, "service", {"replicas": 2}, seen(2), [], {}),
        (State.FULL, "function", {"max_instances": 2}, seen(2), [HTTP], {}),
        (State.FULL, "service", {"min_instances": 1, "max_instances": 3, "replicas": None}, seen(3), [], {}),
        (State.LIMITED, "function", {}, seen(1, message="not enough memory"), [HTTP], {}),
        (State.ZERO, "function", {}, seen(), [HTTP], {}),
        (State.STARTING, "function", {"min_instances": 1}, seen(), [HTTP], {}),
        (State.STARTING, "function", {}, Observed(), [HTTP], {}),
        (State.FAILING, "function", {}, seen(failing=True, generation=2), [HTTP], {}),
        (State.NO_VERSION, "function", {}, Observed(), [HTTP], {"active_version": None}),
        (State.OFF, "service", {"replicas": 0}, seen(), [], {}),
        (State.DISABLED, "function", {}, Observed(), [OFF, CRON], {}),
        (State.RUNS, "function", {}, Observed(), [], {}),
        (State.RUNS, "function", {}, Observed(), [CRON], {}),
        (State.SUSPENDED, "function", {}, seen(1), [HTTP], {"suspended": "unpaid"}),
        (None, "job", {}, Observed(), [], {}),
    ],
)
def test_the_state_of_instances(expected, kind, spec, observed, triggers, changes) -> None:
    workload = make_workload(
        **{"kind": Kind(kind), "generation": 3, "active_version": 1, "observed": observed, "spec": make_workload_spec(**spec)} | changes
    )
    version = make_version(number=1)
    phase = phase_of(workload, version, version if workload.active_version else None, triggers)
    assert instances_state_of(workload, phase, triggers) is expected
