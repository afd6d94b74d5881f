"""The scaler over several workloads: what it counts, and how it shares a shortage."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from sless import metrics
from sless.config import Settings
from sless.domain.demand import Load
from sless.domain.limits import defaults_of
from sless.domain.model import Observed, Workload
from sless.domain.ports import Deployment, ObservedDeployment
from sless.domain.routing import revision_of
from sless.reconcile.decide import ScaleTarget
from sless.reconcile.instances import states_of
from sless.reconcile.scaler import Scaler
from tests.builders import make_endpoint, make_version, make_workload


def workload(name: str, **changes: object) -> Workload:
    proven = Observed(generation=1, version=1)
    return make_workload(**{"id": name, "name": name, "active_version": 1, "observed": proven} | changes)


def target_of(item: Workload) -> ScaleTarget:
    return ScaleTarget(workload=item, revision=revision_of(item, make_version(workload_id=item.id)), warm=False)


def observed(name: str, *, ready: int = 0, draining: int = 0, version: int = 1) -> ObservedDeployment:
    endpoints = [make_endpoint(workload_id=name, version=version, draining=number >= ready) for number in range(ready + draining)]
    return ObservedDeployment(workload_id=name, generation=1, endpoints=tuple(endpoints), message="", failing=False, wanted=1)


@dataclass
class Case:
    scaler: Scaler
    items: list[Workload]
    observed: dict[str, ObservedDeployment] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def step(self, **calls: int) -> dict[str, int]:
        loads = {name: Load(waiting=number, idle_sec=0.0) for name, number in calls.items()}
        return self.scaler.numbers_of({item.id: target_of(item) for item in self.items}, self.observed, loads, self.limits)


def cold_starts() -> float:
    return metrics.REGISTRY.get_sample_value("sless_cold_starts_total") or 0.0


class TestColdStarts:
    def test_a_call_without_an_instance_counts_once(self) -> None:
        case, before = Case(Scaler(), [workload("a"), workload("b")]), cold_starts()
        assert case.step() == {"a": 0, "b": 0} and cold_starts() == before
        assert case.step(a=3) == {"a": 1, "b": 0} and cold_starts() == before + 1
        case.step(a=200)
        case.observed["a"] = observed("a", ready=4)
        case.step(a=1)
        assert cold_starts() == before + 1

    def test_a_start_for_another_reason_does_not_count(self) -> None:
        unproven = workload("a", observed=Observed())
        minimum = workload("b", spec={"min_instances": 1})
        case, before = Case(Scaler(), [unproven, minimum]), cold_starts()
        assert case.step() == {"a": 1, "b": 1}
        assert case.step(a=1, b=1) == {"a": 1, "b": 1} and cold_starts() == before

    def test_a_start_counts_only_once_there_is_room(self) -> None:
        case, before = Case(Scaler(memory_mb=64), [workload("a")]), cold_starts()
        for _ in range(3):
            assert case.step(a=1) == {"a": 0}
        assert "not enough memory" in case.scaler.notes["a"] and cold_starts() == before
        case.scaler.memory_mb = 512
        assert case.step(a=1) == {"a": 1} and cold_starts() == before + 1


def test_a_full_namespace_keeps_its_instances_and_gives_the_reason() -> None:
    case = Case(Scaler(limits=defaults_of(Settings(limit_instances=1))), [workload("a"), workload("b")], {"a": observed("a", ready=1)})
    before = cold_starts()
    assert case.step(a=1, b=1) == {"a": 1, "b": 0}
    assert "at most 1 instances" in case.scaler.notes["b"] and cold_starts() == before


@pytest.mark.parametrize(
    ("replicas", "seen", "states"),
    [
        ({}, {}, (0, 0, 0)),
        ({"a": 2}, {}, (0, 2, 0)),
        ({"a": 2}, {"a": observed("a", ready=1)}, (1, 1, 0)),
        # Surplus instances of one workload do not count for another.
        ({"a": 0, "b": 1}, {"a": observed("a", ready=1)}, (1, 1, 0)),
        ({"a": 1, "b": 1}, {"a": observed("a", ready=1, draining=2), "b": observed("b", ready=1)}, (2, 0, 2)),
        # An earlier version serves until the next one is ready.
        ({"a": 1}, {"a": observed("a", ready=1, version=7)}, (1, 1, 0)),
        # Removed, but still stopping.
        ({}, {"a": observed("a", draining=1)}, (0, 0, 1)),
    ],
)
def test_instances_by_state(replicas: dict[str, int], seen: dict[str, ObservedDeployment], states: tuple[int, int, int]) -> None:
    desired = {
        name: Deployment(revision=target_of(workload(name)).revision, replicas=number, generation=1) for name, number in replicas.items()
    }
    assert tuple(states_of(desired, seen).values()) == states


def test_a_former_leader_exports_no_metrics_of_the_leader() -> None:
    metrics.instances.labels("ready").set(3)
    metrics.cron_triggers.set(2)
    metrics.queue_depth.labels("runs").set(4)
    metrics.clear_leader_metrics()
    text = metrics.exposition().decode()
    assert "sless_instances{" not in text and "sless_queue_depth{" not in text and "sless_cron_triggers 0.0" in text
