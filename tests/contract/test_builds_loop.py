"""The builds loop on both databases: a failure of one build does not affect others."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import pytest

from sless.config import Settings
from sless.domain.building import BuildSpec, BuildStatus
from sless.domain.limits import defaults_of
from sless.domain.model import Kind, Version, VersionState
from sless.reconcile.builds import BuildsLoop
from sless.store import Store
from tests.builders import NAMESPACE, make_workload_spec
from tests.contract.rest_harness import FakeWaker


@dataclass
class Builder:
    """Finishes a build at the first poll. `broken`: functions whose builds raise, as (when, name)."""

    broken: set[tuple[str, str]] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    status: BuildStatus = field(default_factory=lambda: BuildStatus(ready=True, lines=("done",)))

    def start(self, build: BuildSpec, changed: Callable[[], None]) -> None:
        self.names[build.id] = build.name
        self._act("start", build.id)

    def poll(self, build_id: str) -> BuildStatus | None:
        self._act("poll", build_id)
        return self.status

    def cancel(self, build_id: str) -> None:
        self._act("cancel", build_id)

    def discard(self, artifact: str) -> None: ...

    def collect(self, list_kept: Callable[[], Collection[Version]], young_sec: float) -> None: ...

    def close(self) -> None: ...

    def _act(self, when: str, build_id: str) -> None:
        if (when, self.names.get(build_id)) in self.broken:
            raise RuntimeError(f"{when} went wrong")


@dataclass
class Scene:
    store: Store
    builder: Builder = field(default_factory=Builder)
    loop: BuildsLoop = field(init=False)

    def __post_init__(self) -> None:
        self.loop = BuildsLoop(
            store=self.store, builder=self.builder, waker=FakeWaker(), holder="me", at_once=9, limits=defaults_of(Settings())
        )
        self.store.tenants.ensure(NAMESPACE, "alice")

    def upload(self, *names: str) -> None:
        for name in names:
            workload = self.store.workloads.insert(NAMESPACE, Kind.FUNCTION, name, make_workload_spec())
            self.store.versions.insert(
                workload.id, sha256="a" * 64, code_hash=None, runtime="python3.11", entrypoint="handler.handle", code_key="k", size_bytes=1,
                build_env={},
            )  # fmt: skip

    def version(self, name: str) -> Version:
        return self.store.versions.get(self.store.workloads.get(NAMESPACE, Kind.FUNCTION, name).id, 1)

    def states(self, *names: str) -> list[VersionState]:
        return [self.version(name).state for name in names]


@pytest.fixture
def scene(store: Store, caplog: pytest.LogCaptureFixture) -> Scene:
    caplog.set_level(logging.CRITICAL, logger="sless.reconcile.builds")
    return Scene(store)


def test_a_build_that_cannot_start_does_not_fail_others(scene: Scene) -> None:
    scene.upload("a", "b")
    scene.builder.broken.add(("start", "a"))
    scene.loop.tick()
    scene.loop.tick()
    assert scene.states("a", "b") == [VersionState.FAILED, VersionState.READY]
    assert scene.version("a").message == "the build could not start: start went wrong"


@pytest.mark.parametrize("when", ["poll", "cancel"])
def test_a_build_that_cannot_be_polled_or_cancelled_is_polled_again(scene: Scene, when: str) -> None:
    scene.upload("a", "b")
    scene.builder.broken.add((when, "a"))
    for _ in range(3):
        scene.loop.tick()
    assert scene.states("b") == [VersionState.READY]
    scene.builder.broken.clear()
    scene.loop.backoff.succeeded(scene.version("a").id)  # the backoff has passed
    scene.loop.tick()
    scene.loop.tick()
    assert scene.states("a") == [VersionState.READY]


def test_the_builds_of_a_tenant_are_limited(scene: Scene) -> None:
    scene.store.tenants.set_limits(NAMESPACE, {"builds_at_once": 2})
    scene.upload("a", "b", "c")
    scene.loop.tick()
    assert sorted(scene.states("a", "b", "c")) == [VersionState.BUILDING, VersionState.BUILDING, VersionState.QUEUED]
    scene.loop.tick()
    scene.loop.tick()
    assert scene.states("a", "b", "c") == [VersionState.READY] * 3


def test_a_build_that_cannot_be_cancelled_does_not_block_others(scene: Scene) -> None:
    scene.upload("a")
    scene.loop.tick()
    scene.builder.broken.add(("cancel", "a"))
    scene.store.versions.cancel(scene.version("a").id, "by its owner")
    scene.upload("b")
    for _ in range(3):
        scene.loop.tick()
    assert scene.states("a", "b") == [VersionState.CANCELLED, VersionState.READY]


@pytest.mark.parametrize("fate", ["failed", "cancelled", "deleted"])
def test_the_image_of_an_unsuccessful_build_is_removed_with_its_version(scene: Scene, fate: str) -> None:
    scene.upload("a")
    scene.builder.status = BuildStatus(ready=None, artifact="host/a:1")
    scene.loop.tick()
    scene.loop.tick()
    version = scene.version("a")
    assert (version.state, version.artifact) == (VersionState.BUILDING, "host/a:1")
    match fate:
        case "failed":
            scene.builder.status = BuildStatus(ready=False, message="no import")
            scene.loop.tick()
            assert scene.states("a") == [VersionState.FAILED]
        case "cancelled":
            assert scene.store.versions.cancel(version.id)
    assert scene.store.discards.list(9) == []
    if fate == "deleted":
        scene.store.workloads.mark_deleted(version.workload_id)
        scene.store.workloads.remove(version.workload_id)
    else:
        assert scene.store.versions.remove(version.id) == version.code_key
    assert scene.store.discards.list(9) == ["host/a:1"]


def test_a_server_that_does_not_know_the_image_yet_does_not_forget_it(scene: Scene) -> None:
    scene.upload("a")
    scene.builder.status = BuildStatus(ready=None, artifact="host/a:1")
    scene.loop.tick()
    scene.loop.tick()
    scene.builder.status = BuildStatus(ready=None, message="waiting")
    scene.loop.tick()
    assert (scene.version("a").message, scene.version("a").artifact) == ("waiting", "host/a:1")
