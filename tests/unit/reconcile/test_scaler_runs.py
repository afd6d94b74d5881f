"""Instances beside the one-off runs of their tenant."""

from sless.domain.demand import Load
from sless.domain.limits import LimitName
from sless.domain.model import Observed
from sless.domain.routing import revision_of
from sless.reconcile.decide import ScaleTarget
from sless.reconcile.scaler import Scaler
from tests.builders import NAMESPACE, make_version, make_workload

LIMITS = {LimitName.INSTANCES: 10, LimitName.MEMORY_MB: 300}
BUSY = Load(in_flight=1, idle_sec=0.0)


def target(workload_id: str, **spec: int) -> ScaleTarget:
    """A function of 100 MB that has worked before."""
    observed = Observed(generation=1, version=1)
    workload = make_workload(id=workload_id, active_version=1, observed=observed, spec={"memory_mb": 100, "concurrency": 1} | spec)
    return ScaleTarget(workload=workload, revision=revision_of(workload, make_version(workload_id=workload_id)), warm=False)


def test_instances_that_no_call_needs_make_room_for_runs() -> None:
    runs_mb = {NAMESPACE: 0}
    scaler = Scaler(limits=LIMITS, runs_mb=lambda namespace: runs_mb[namespace])
    workloads = {name: target(name) for name in ("busy", "idle")}
    loads = {"busy": BUSY, "idle": BUSY}
    assert scaler.numbers_of(workloads, {}, loads, {}) == {"busy": 1, "idle": 1}
    loads = {"busy": BUSY}
    assert scaler.numbers_of(workloads, {}, loads, {}) == {"busy": 1, "idle": 1}
    runs_mb[NAMESPACE] = 200
    assert scaler.numbers_of(workloads, {}, loads, {}) == {"busy": 1, "idle": 0}
    runs_mb[NAMESPACE] = 300
    assert scaler.numbers_of(workloads, {}, loads, {}) == {"busy": 1, "idle": 0}, "a needed instance stays"


def test_no_instance_is_added_while_runs_use_the_memory() -> None:
    scaler = Scaler(limits=LIMITS, runs_mb=lambda namespace: 150)
    workloads = {"f": target("f")}
    assert scaler.numbers_of(workloads, {}, {"f": Load(waiting=3, idle_sec=0.0)}, {}) == {"f": 1}
    assert scaler.notes["f"] == "limit memory_mb of the namespace: at most 300 MB (memory of instances and runs)"
