"""The in-memory view of the cluster, whatever the order in which lists and events arrive."""

from typing import Any

import pytest

from sless.backend.kubernetes.mirror import OBSERVED_KINDS, Mirror
from sless.backend.kubernetes.view import ObjectCache
from sless.kube import KubeError, Unavailable
from sless.kube.names import RUN, WORKLOAD
from sless.kube.watching import Event, Subject

Json = dict[str, Any]


def pod(name: str, version: int, **metadata: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version), "labels": {WORKLOAD: name}, **metadata}}


class FakeKube:
    """The lists of an API server."""

    def __init__(self) -> None:
        self.items: dict[str, list[Json]] = {}
        self.version = 10

    def list_versioned(self, kind: str, *, selector: str, metadata_only: bool) -> tuple[list[Json], str]:
        return self.items.get(kind, []), str(self.version)


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def changes() -> list[None]:
    return []


@pytest.fixture
def mirror(kube: FakeKube, changes: list[None]) -> Mirror:
    return Mirror(kube, ObjectCache("ins"), lambda: changes.append(None))  # type: ignore[arg-type]


def pods_of(mirror: Mirror) -> dict[str, str]:
    return {name: pods[0]["metadata"]["resourceVersion"] for name, pods in mirror.view().pods.items()}


def test_there_is_no_view_before_every_kind_is_listed(mirror: Mirror) -> None:
    for kind in OBSERVED_KINDS:
        with pytest.raises(KubeError, match="not been listed"):
            mirror.view()
        mirror.list_kind(Subject(kind=kind, selector=""))
    assert mirror.view().pods == {}
    mirror.distrust()
    with pytest.raises(Unavailable):
        mirror.view()


def test_events_update_the_list(mirror: Mirror, kube: FakeKube, changes: list[None]) -> None:
    kube.items["Pod"] = [pod("a", 3), pod("b", 4)]
    mirror.list_now()
    mirror.take("Pod", Event("MODIFIED", pod("a", 11)))
    mirror.take("Pod", Event("DELETED", pod("b", 12)))
    mirror.take("Pod", Event("ADDED", pod("c", 13, managedFields=[{}])))
    assert pods_of(mirror) == {"a": "11", "c": "13"} and len(changes) == 3
    mirror.take("Pod", Event("BOOKMARK", {"metadata": {"resourceVersion": "20"}}))
    assert len(changes) == 3
    assert "managedFields" not in mirror.view().pods["c"][0]["metadata"]


def test_late_events_do_not_undo_a_newer_list(mirror: Mirror, kube: FakeKube) -> None:
    """A list is read in another thread than the events, which may still be on their way."""
    kube.items["Pod"] = [pod("a", 15)]
    kube.version = 20
    mirror.list_now()
    mirror.take("Pod", Event("MODIFIED", pod("a", 14)))
    mirror.take("Pod", Event("DELETED", pod("a", 14)))
    mirror.take("Pod", Event("ADDED", pod("gone since", 16)))
    assert pods_of(mirror) == {"a": "15"}


def test_an_old_list_does_not_undo_newer_events(mirror: Mirror, kube: FakeKube) -> None:
    kube.version = 30
    mirror.list_now()
    kube.items["Pod"] = [pod("a", 5)]
    kube.version = 29
    mirror.list_now()
    assert pods_of(mirror) == {}
    kube.items["Pod"] = [pod("b", 31)]
    kube.version = 40
    mirror.take("Pod", Event("ADDED", pod("c", 45)))
    mirror.list_now()
    assert pods_of(mirror) == {"b": "31", "c": "45"}


def test_a_list_in_progress_does_not_restore_deleted_objects(kube: FakeKube) -> None:
    """Otherwise such a pod or Deployment would stay in the view until the next list."""
    cache = ObjectCache("ins")
    mirror = Mirror(kube, cache, lambda: None)  # type: ignore[arg-type]
    for kind in OBSERVED_KINDS:
        kube.items[kind] = [pod("a", 3)]
    mirror.list_now()
    for kind in OBSERVED_KINDS:
        mirror.take(kind, Event("DELETED", pod("a", 12)))
    kube.version = 11
    mirror.list_now()
    assert pods_of(mirror) == mirror.view().deployments == {} and cache.find("Deployment/ns/a") is None
    for kind in OBSERVED_KINDS:
        kube.items[kind] = [pod("a", 14)]
    kube.version = 15
    mirror.list_now()
    assert pods_of(mirror) == {"a": "14"} and cache.find("Deployment/ns/a") is not None


def test_after_an_outage_earlier_deletions_do_not_count(mirror: Mirror, kube: FakeKube) -> None:
    """A cluster that was restored from a backup may have the object, and lower versions."""
    mirror.list_now()
    mirror.take("Pod", Event("DELETED", pod("a", 90)))
    mirror.distrust()
    kube.items["Pod"], kube.version = [pod("a", 20)], 50
    mirror.list_now()
    assert pods_of(mirror) == {"a": "20"}


def test_a_list_finds_changes_without_an_event(mirror: Mirror, kube: FakeKube) -> None:
    kube.items["Pod"] = [pod("a", 3)]
    mirror.list_now()
    kube.items["Pod"], kube.version = [pod("b", 12)], 13
    mirror.list_now()
    assert pods_of(mirror) == {"b": "12"}


def test_metadata_of_other_kinds_goes_to_the_cache() -> None:
    cache = ObjectCache("ins")
    mirror = Mirror(FakeKube(), cache, lambda: None)  # type: ignore[arg-type]

    def known() -> str | None:
        found = cache.find("Secret/ns/a")
        return found.resource_version if found else None

    mirror.take("Secret", Event("ADDED", pod("a", 5)))
    assert known() == "5"
    cache.put("Secret", pod("a", 9))
    mirror.take("Secret", Event("MODIFIED", pod("a", 7)))
    assert known() == "9"
    mirror.take("Secret", Event("DELETED", pod("a", 8)))
    assert known() == "9"
    # Deleted by this process: older events do not restore it, but a new object of that name appears.
    cache.drop("Secret/ns/a")
    mirror.take("Secret", Event("MODIFIED", pod("a", 8)))
    assert known() is None
    mirror.take("Secret", Event("ADDED", pod("a", 12)))
    assert known() == "12"
    mirror.take("Secret", Event("DELETED", pod("a", 13)))
    assert known() is None


def test_runs_are_found_by_their_label(mirror: Mirror, kube: FakeKube) -> None:
    kube.items["Job"] = [{"metadata": {"name": "j", "namespace": "ns", "resourceVersion": "1", "uid": "u", "labels": {RUN: "r"}}}]
    mirror.list_now()
    owned = pod("p", 11, labels={RUN: "r"}, ownerReferences=[{"uid": "u"}])
    mirror.take("Pod", Event("ADDED", owned))
    assert list(mirror.view().run_pods) == ["r"]
