"""Views of workloads that change between two reads, and their queries."""

import pytest
from sqlalchemy import event

from sless.domain.model import Kind, Phase, VersionState
from sless.store import Store
from sless.usecases.views import view_jobs, view_workload
from tests.builders import NAMESPACE, make_workload_spec
from tests.contract.store_steps import build


def test_a_version_activated_between_two_reads_is_shown(store: Store) -> None:
    store.tenants.ensure(NAMESPACE, "alice")
    read_before = store.workloads.insert(NAMESPACE, Kind.FUNCTION, "hello", make_workload_spec())
    version = store.versions.insert(
        read_before.id, sha256="a" * 64, code_hash=None, runtime="python3.11", entrypoint="handler.handle", code_key="k", size_bytes=1,
        build_env={},
    )  # fmt: skip
    assert store.versions.claim(version.id, "me")
    assert store.versions.finish(version.id, state=VersionState.READY)
    view = view_workload(store, read_before)
    assert (view.phase.phase, view.phase.active_version) == (Phase.READY, 1)
    assert view.workload.active_version == 1


@pytest.mark.parametrize("count", [1, 20])
def test_many_jobs_of_functions_take_as_many_queries_as_one(store: Store, count: int) -> None:
    store.tenants.ensure(NAMESPACE, "alice")
    for number in range(count):
        store.workloads.insert(NAMESPACE, Kind.FUNCTION, f"f{number}", make_workload_spec())
        store.workloads.insert(NAMESPACE, Kind.JOB, f"j{number}", make_workload_spec(function_ref=f"f{number}", run_id=1))
    build(store, store.workloads.get(NAMESPACE, Kind.FUNCTION, "f0"))
    for name, ref in (("k", "f0"), ("lost", "gone")):
        store.workloads.insert(NAMESPACE, Kind.JOB, name, make_workload_spec(function_ref=ref, run_id=1))
    jobs = store.workloads.list_in(NAMESPACE, [Kind.JOB])
    queries: list[str] = []
    event.listen(store.database.engine, "before_cursor_execute", lambda *given: queries.append(given[2]))
    views = {view.workload.name: view.phase for view in view_jobs(store, jobs)}
    assert len([query for query in queries if query.startswith("SELECT")]) == 4
    assert {name for name, phase in views.items() if phase.code_sha256} == {"j0", "k"}
    assert view_jobs(store, []) == []
