from collections.abc import Iterator
from pathlib import Path

import pytest

from sless.app.adapters import RunQueue
from sless.domain.limits import LimitName
from sless.domain.model import CallStatus, Kind
from sless.errors import Code
from sless.store import Store, open_store
from tests.builders import NAMESPACE, make_run, make_workload_spec


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(f"sqlite:///{tmp_path / 'sless.db'}")
    made.migrate()
    made.tenants.ensure(NAMESPACE, "alice")
    yield made
    made.close()


def accept(store: Store, workload_id: str, sizes: list[int], **limits: int) -> list[str]:
    """Return the error of each run, "" if it was accepted."""
    woken: list[str] = []
    names = {"per_function": LimitName.ASYNC_PER_FUNCTION, "per_tenant": LimitName.ASYNC_PER_TENANT}
    values = {LimitName.ASYNC_PER_FUNCTION: 100, LimitName.ASYNC_PER_TENANT: 100, LimitName.ASYNC_BYTES: 1000}
    queue = RunQueue(store, woken.append, values | {names[key]: value for key, value in limits.items()})
    errors = queue.accept_all([make_run(workload_id=workload_id, size_bytes=size) for size in sizes])
    assert {error.code for error in errors if error} <= {Code.TOO_MANY_REQUESTS}
    assert all(error.retry_after_sec for error in errors if error)
    assert bool(woken) == (None in errors)
    return [str(error.message) if error else "" for error in errors]


def test_queued_runs_are_limited(store):
    first, second = (store.workloads.insert(NAMESPACE, Kind.FUNCTION, name, make_workload_spec()).id for name in ("f", "g"))
    one, two, three = accept(store, first, [1, 1, 1], per_function=2)
    assert (one, two) == ("", "") and "async_queued_per_function" in three
    assert store.runs.count(CallStatus.QUEUED) == 2
    (refused,) = accept(store, first, [1], per_function=2)
    assert "async_queued_per_function" in refused, "earlier batches count too"
    assert accept(store, second, [1], per_function=2) == [""]
    assert "async_queued_per_tenant" in accept(store, second, [1], per_tenant=3)[0]
    assert ["async_queued_bytes_per_tenant" in text for text in accept(store, second, [900, 900, 90])] == [False, True, False]
    for run in store.runs.list_due(make_run().not_before.replace(year=2999), 100):
        store.runs.cancel(run.id)
    assert accept(store, first, [1], per_function=1) == [""], "only queued ones count"


def test_an_operator_can_change_the_limits_of_one_tenant(store):
    workload_id = store.workloads.insert(NAMESPACE, Kind.FUNCTION, "f", make_workload_spec()).id
    store.tenants.set_limits(NAMESPACE, {"async_queued_per_function": 1})
    one, two = accept(store, workload_id, [1, 1])
    assert one == "" and "async_queued_per_function" in two
