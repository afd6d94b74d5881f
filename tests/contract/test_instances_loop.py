"""The instances loop on a real store, with a backend that applies each change immediately."""

from dataclasses import dataclass, field

import pytest
from sqlalchemy import event

from sless.config import Settings
from sless.domain.limits import defaults_of
from sless.domain.model import Kind, TriggerType
from sless.domain.ports import BackendUnavailable, Deployment, ObservedDeployment
from sless.reconcile.instances import InstancesLoop
from sless.reconcile.scaler import Scaler
from sless.store import Store
from tests.builders import NAMESPACE, make_workload_spec
from tests.contract.store_steps import build


@dataclass
class Backend:
    deployments: dict[str, Deployment] = field(default_factory=dict)
    away: bool = False

    def observe(self) -> dict[str, ObservedDeployment]:
        if self.away:
            raise BackendUnavailable("away")
        return {
            key: ObservedDeployment(workload_id=key, generation=item.generation, endpoints=(), wanted=item.generation)
            for key, item in self.deployments.items()
        }

    def apply(self, deployment: Deployment) -> None:
        self.deployments[deployment.revision.workload_id] = deployment

    def remove(self, workload_id: str) -> None:
        del self.deployments[workload_id]

    def keep_namespaces(self, namespaces: set[str]) -> None:
        pass


class Waker:
    def wake(self, topic: str) -> None:
        pass


@dataclass
class Stage:
    store: Store
    backend: Backend
    loop: InstancesLoop

    def function(self, name: str) -> str:
        workload = self.store.workloads.insert(NAMESPACE, Kind.FUNCTION, name, make_workload_spec())
        build(self.store, workload)
        self.store.triggers.insert(NAMESPACE, name=name, type=TriggerType.HTTP, function_ref=name, enabled=True, spec={}, secrets={})
        return workload.id

    def settle(self) -> None:
        """Until a tick has nothing to apply, record or read."""
        for _ in range(4):
            self.loop.changed()
            self.loop.tick()


@pytest.fixture
def stage(store: Store) -> Stage:
    backend = Backend()
    scaler = Scaler(most=5, memory_mb=None, limits=defaults_of(Settings()))
    loop = InstancesLoop(store=store, backend=backend, code=None, waker=Waker(), held=set, loads=dict, scaler=scaler)  # type: ignore[arg-type]
    return Stage(store, backend, loop)


def test_a_function_with_a_trigger_gets_a_deployment(stage: Stage) -> None:
    workload_id = stage.function("f")
    stage.loop.tick()
    assert stage.backend.deployments[workload_id].replicas == 1


def test_a_change_of_the_backend_does_not_read_workloads_again(stage: Stage) -> None:
    """With 500 functions, reading them takes 0.1 s of processor time, and the backend reports changes every few seconds."""
    stage.function("f")
    stage.settle()
    read: list[str] = []
    event.listen(stage.store.database.engine, "before_cursor_execute", lambda *given: read.append(given[2]))
    stage.loop.changed()
    stage.loop.tick()
    assert not [query for query in read if "FROM workloads" in query or "FROM triggers" in query]


def test_a_new_function_is_read_after_others_have_settled(stage: Stage) -> None:
    stage.function("f")
    stage.settle()
    workload_id = stage.function("g")
    stage.loop.tick()
    assert workload_id in stage.backend.deployments


def test_a_new_function_is_read_after_the_backend_was_away(stage: Stage) -> None:
    stage.settle()
    stage.backend.away = True
    workload_id = stage.function("f")
    with pytest.raises(BackendUnavailable):
        stage.loop.tick()
    stage.backend.away = False
    stage.loop.tick()
    assert workload_id in stage.backend.deployments
