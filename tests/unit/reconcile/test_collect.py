"""Cleanup of old versions: rows, code and build artifacts."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sless.code.folder import FolderCodeStore
from sless.config import Settings
from sless.domain.model import Kind, VersionState
from sless.domain.ports import BuilderUnavailable
from sless.reconcile.collect import Collector
from sless.store import Store, open_store
from tests.builders import NAMESPACE, make_workload_spec
from tests.contract.store_steps import upload


@dataclass
class Elsewhere:
    """A builder that records discarded images; some cannot be removed now."""

    gone: list[str] = field(default_factory=list)
    away: set[str] = field(default_factory=set)
    kept: list[str] = field(default_factory=list)

    def discard(self, artifact: str) -> None:
        if artifact in self.away:
            raise BuilderUnavailable("the registry does not answer")
        self.gone.append(artifact)

    def collect(self, list_kept: Any, young_sec: float) -> None:
        assert young_sec > 60
        self.kept = sorted(version.artifact for version in list_kept())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = open_store(f"sqlite:///{tmp_path / 'sless.db'}")
    made.migrate()
    yield made
    made.close()


def collector(store: Store, tmp_path: Path, elsewhere: Elsewhere, keep: int) -> Collector:
    settings = Settings(data_dir=tmp_path, versions_kept=keep)
    code = FolderCodeStore(tmp_path / "code")
    return Collector(store=store, code=code, builder=elsewhere, settings=settings, sweep=lambda kept: None, stopping=lambda: False)  # type: ignore[arg-type]


def built(store: Store, workload_id: Any, artifact: str, **changes: Any) -> None:
    version = upload(store, workload_id, code_key=f"ns/w/{len(artifact):064x}-{artifact[-2:]}.zip".replace(":", ""), **changes)
    store.versions.claim(version.id, "h")
    store.versions.finish(version.id, state=VersionState.READY, artifact=artifact)


@pytest.fixture
def workload(store: Store) -> Any:
    store.tenants.ensure(NAMESPACE, "alice")
    return store.workloads.insert(NAMESPACE, Kind.FUNCTION, "hello", make_workload_spec())


def test_images_of_surplus_versions_are_removed_but_not_the_active_one(store, workload, tmp_path):
    for number in range(1, 5):
        built(store, workload, f"host/a:{number}")
    store.versions.activate(workload.id, 1)
    elsewhere = Elsewhere()
    collector(store, tmp_path, elsewhere, keep=2).tick()
    assert elsewhere.gone == ["host/a:2"]
    assert elsewhere.kept == ["host/a:1", "host/a:3", "host/a:4"]
    collector(store, tmp_path, elsewhere, keep=2).tick()
    assert elsewhere.gone == ["host/a:2"], "once"


def test_an_image_shared_with_a_kept_version_stays(store, workload, tmp_path):
    for _ in range(3):
        built(store, workload, "host/a:1")
    elsewhere = Elsewhere()
    collector(store, tmp_path, elsewhere, keep=1).tick()
    assert elsewhere.gone == []


def test_an_unavailable_registry_is_retried(store, workload, tmp_path):
    for number in range(1, 4):
        built(store, workload, f"host/a:{number}")
    elsewhere = Elsewhere(away={"host/a:1"})
    item = collector(store, tmp_path, elsewhere, keep=1)
    item.tick()
    assert elsewhere.kept, "the rest is still collected"
    elsewhere.away.clear()
    item.tick()
    assert sorted(elsewhere.gone) == ["host/a:1", "host/a:2"]


def test_a_build_that_ends_while_a_registry_stalls_is_kept(store, workload, tmp_path):
    for number in (1, 2):
        built(store, workload, f"host/a:{number}")

    class Stalled(Elsewhere):
        def discard(self, artifact: str) -> None:
            built(store, workload, "host/a:3")  # takes long enough for another build
            super().discard(artifact)

    elsewhere = Stalled()
    collector(store, tmp_path, elsewhere, keep=1).tick()
    assert elsewhere.gone == ["host/a:1"] and "host/a:3" in elsewhere.kept


def test_images_of_a_deleted_function_are_removed(store, workload, tmp_path):
    built(store, workload, "host/a:1")
    store.workloads.remove(workload.id)
    elsewhere = Elsewhere()
    collector(store, tmp_path, elsewhere, keep=10).tick()
    assert elsewhere.gone == ["host/a:1"]


def test_prune_removes_versions_beyond_the_limit(store, workload, tmp_path):
    for number in range(1, 4):
        built(store, workload, f"host/a:{number}")
    collector(store, tmp_path, Elsewhere(), keep=1).prune()
    assert [version.number for version in store.versions.list_of(workload.id)] == [3]
