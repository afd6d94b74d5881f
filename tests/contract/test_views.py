"""What is shown of a workload that changes between two reads."""

from sless.domain.model import Kind, Phase, VersionState
from sless.store import Store
from sless.usecases.views import view_workload
from tests.builders import NAMESPACE, make_workload_spec


def test_a_version_that_goes_live_between_two_reads_is_the_one_shown(store: Store) -> None:
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
