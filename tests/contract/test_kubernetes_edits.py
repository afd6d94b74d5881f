"""Manual edits in a cluster, while sless runs or is down, are reverted within two rounds of the observing thread."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sless.domain.durations import Durations
from sless.domain.ports import Deployment, Revision
from sless.kube.names import INSTALLATION, cluster_namespace_of
from tests.contract.backend_harness import wait_until
from tests.contract.kube_harness import KubeHarness
from tests.kube.cluster import KubeCluster

Object = dict[str, Any]
HELLO = "def handle(event):\n    return {'hello': event}\n"
WRITES = {"create", "patch", "update", "delete", "deletecollection"}
PULL = {
    "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": "registry", "namespace": "default"}, "data": {"a": "MQ=="},
}  # fmt: skip


@dataclass
class Stage:
    """A serving function and all its cluster objects."""

    cluster: KubeCluster
    harness: KubeHarness
    revision: Revision

    @property
    def home(self) -> str:
        return cluster_namespace_of(self.harness.namespace)

    def place_of(self, kind: str, name: str) -> tuple[str, str, str]:
        match kind:
            case "Namespace":
                return kind, "", self.home
            case "Ingress":
                return kind, "default", f"fn-hello-{self.harness.namespace}"
        return kind, self.home, name

    def content(self, kind: str, name: str) -> Object:
        """The part of an object that sless decides."""
        item = copy.deepcopy(self.cluster.get(*self.place_of(kind, name)))
        item.pop("status", None)
        metadata = item.pop("metadata")
        annotations = metadata.get("annotations", {})
        annotations.pop("deployment.kubernetes.io/revision", None)
        return {**item, "labels": metadata.get("labels"), "annotations": annotations}

    def edit(self, kind: str, name: str, change: Object | Callable[[Object], None]) -> None:
        """Edits as `kubectl edit` does: by a merge patch, or by reading, changing and writing the whole object."""
        path = self.cluster.path_of(*self.place_of(kind, name))
        if isinstance(change, dict):
            self.cluster.request("PATCH", path, change, "application/merge-patch+json")
            return
        item = self.cluster.request("GET", path)
        change(item)
        self.cluster.request("PUT", path, item)

    def tick(self) -> None:
        """Reconciles once."""
        desired = Deployment(revision=self.revision, replicas=1, generation=1)
        seen = self.harness.observed(self.revision)
        self.harness.backend.keep_namespaces([self.harness.namespace])
        if seen is None or seen.generation != 1:
            self.harness.backend.apply(desired)

    def ids(self) -> dict[str, str]:
        """Of every object by kind: an object that was deleted and made anew has another."""
        return {kind: self.cluster.get(*self.place_of(kind, name))["metadata"]["uid"] for kind, name, _ in EDITS}

    def restart(self) -> None:
        self.harness.backend = self.harness.make()
        self.harness.backend.apply(Deployment(revision=self.revision, replicas=1, generation=1))

    def rest(self) -> None:
        for _ in range(8):
            self.tick()
            self.harness.backend._observer.refresh(0.0, 5.0)

    def writes(self) -> list[Object]:
        return [one for one in self.cluster.requests() if one["verb"] in WRITES]


@pytest.fixture
def stage(kube_cluster: KubeCluster) -> Iterator[Stage]:
    kube_cluster.apply(PULL)
    harness = KubeHarness(
        Durations(cache_sec=0.3, idle_observe_sec=0.3, orphan_sec=20.0),
        kubeconfig=kube_cluster.kubeconfig, registry_pull_secret="registry", pod_namespace="default", ingress_host="fn.test",
    )  # fmt: skip
    try:
        revision = harness.python(HELLO, env={"A": "1", "B": "2"})
        harness.deploy(revision)
        made = Stage(kube_cluster, harness, revision)
        made.rest()
        yield made
    finally:
        harness.close()


def container(item: Object) -> Object:
    found: Object = item["spec"]["template"]["spec"]["containers"][0]
    return found


def set_image(item: Object) -> None:
    container(item)["image"] = "elsewhere:1"


def add_variable(item: Object) -> None:
    container(item)["env"].append({"name": "MINE", "value": "1"})


def drop_variable(item: Object) -> None:
    container(item)["env"] = [one for one in container(item)["env"] if one["name"] != "SLESS_TIMEOUT_SEC"]


def drop_limits(item: Object) -> None:
    del container(item)["resources"]["limits"]["memory"]


EDITS: "list[tuple[str, str, Object | Callable[[Object], None]]]" = [
    ("Deployment", "hello", set_image),
    ("Deployment", "hello", add_variable),
    ("Deployment", "hello", drop_variable),
    ("Deployment", "hello", drop_limits),
    ("Deployment", "hello", {"spec": {"replicas": 0}}),
    ("Deployment", "hello", {"metadata": {"labels": {"sless.dev/installation": None}}}),
    ("Service", "hello", {"spec": {"selector": {"sless.dev/workload": "other"}}}),
    ("Service", "hello", {"spec": {"externalIPs": ["192.0.2.1"]}}),
    ("Secret", "hello-env", {"data": {"A": "Mg=="}}),
    ("Secret", "hello-env", {"data": {"MINE": "Mg=="}}),
    ("Secret", "hello-env", {"data": {"B": None}}),
    ("Secret", "sless-pull", {"data": {"a": "Mg=="}}),
    ("NetworkPolicy", "sless-isolation", {"spec": {"ingress": [{}]}}),
    ("NetworkPolicy", "sless-isolation", {"spec": {"policyTypes": ["Ingress"]}}),
    ("ResourceQuota", "sless", {"spec": {"hard": {"pods": "1000"}}}),
    ("ResourceQuota", "sless", {"spec": {"hard": {"pods": None}}}),
    ("LimitRange", "sless", {"spec": {"limits": [{"type": "Container", "default": {"memory": "8Gi"}}]}}),
    ("ServiceAccount", "sless-function", {"automountServiceAccountToken": True}),
    ("Namespace", "", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}),
    ("Namespace", "", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}}),
    ("Ingress", "", {"spec": {"rules": [{"host": "other.test"}]}}),
]
NAMES = [f"{number}-{kind}" for number, (kind, _, _) in enumerate(EDITS)]


@pytest.mark.parametrize(("kind", "name", "change"), EDITS, ids=NAMES)
def test_edits_while_sless_runs_are_reverted_and_then_nothing_is_written(stage, kind, name, change):
    before, ids = stage.content(kind, name), stage.ids()
    stage.edit(kind, name, change)
    assert stage.content(kind, name) != before
    wait_until(lambda: stage.tick() or stage.content(kind, name) == before, lambda: f"{stage.content(kind, name)}\n{before}", 15)
    wait_until(lambda: stage.tick() or stage.harness.endpoints(stage.revision), "it serves", 20)
    stage.rest()
    stage.cluster.clear_requests()
    stage.rest()
    assert stage.writes() == []
    assert stage.ids() == ids


def test_edits_while_sless_is_down_are_reverted_when_it_starts(stage):
    """One edit per object: the last one of each kind and name."""
    chosen = {(kind, name): change for kind, name, change in EDITS}
    before, ids = {place: stage.content(*place) for place in chosen}, stage.ids()
    stage.harness.backend.close()
    for (kind, name), change in chosen.items():
        stage.edit(kind, name, change)
    stage.restart()
    wait_until(
        lambda: stage.tick() or all(stage.content(*place) == before[place] for place in chosen),
        lambda: str([place for place in chosen if stage.content(*place) != before[place]]), 60,
    )  # fmt: skip
    wait_until(lambda: stage.tick() or stage.harness.endpoints(stage.revision), "it serves", 20)
    assert stage.ids() == ids


@pytest.mark.parametrize("change", [set_image, drop_variable, add_variable, drop_limits])
def test_a_deployment_edited_while_sless_is_down_is_reverted(stage, change):
    before = stage.content("Deployment", "hello")
    stage.harness.backend.close()
    stage.edit("Deployment", "hello", change)
    stage.restart()
    wait_until(lambda: stage.tick() or stage.content("Deployment", "hello") == before, "as it was", 15)


def test_a_start_applies_each_object_once_and_changes_nothing(stage):
    versions = {item["kind"]: item["metadata"]["resourceVersion"] for item in everything(stage)}
    endpoints = stage.harness.endpoints(stage.revision)
    stage.harness.backend.close()
    stage.cluster.clear_requests()
    stage.restart()
    stage.rest()
    assert {item["kind"]: item["metadata"]["resourceVersion"] for item in everything(stage)} == versions
    assert stage.harness.endpoints(stage.revision) == endpoints
    written = [(one["resource"], one["name"]) for one in stage.writes()]
    assert len(written) == len(set(written)) and {one["verb"] for one in stage.writes()} == {"patch"}
    stage.cluster.clear_requests()
    stage.rest()
    assert stage.writes() == []


def test_code_that_lost_its_labels_gets_them_back(stage):
    """Only its metadata can be edited: the ConfigMap is immutable."""
    (code,) = (item for item in stage.cluster.list("ConfigMap", stage.home) if item["metadata"]["name"].startswith("code-"))
    stage.edit("ConfigMap", code["metadata"]["name"], {"metadata": {"labels": {"sless.dev/installation": None}}})
    place = ("ConfigMap", stage.home, code["metadata"]["name"])
    wait_until(lambda: stage.tick() or found_labels(stage, place) == code["metadata"]["labels"], "its labels", 15)
    stage.rest()
    stage.cluster.clear_requests()
    stage.rest()
    assert stage.writes() == []


def found_labels(stage: Stage, place: tuple[str, str, str]) -> Object | None:
    found = stage.cluster.find(*place)
    return found and found["metadata"].get("labels")


def everything(stage: Stage) -> list[Object]:
    kinds = {kind: name for kind, name, _ in EDITS}
    return [stage.cluster.get(*stage.place_of(kind, name)) for kind, name in kinds.items()]


def test_metadata_added_by_others_stays(stage):
    """Annotations of controllers, and the one that `kubectl rollout restart` sets."""
    annotation = {"kubectl.kubernetes.io/restartedAt": "2026-01-31T12:00:00Z"}
    stage.edit("Deployment", "hello", {"spec": {"template": {"metadata": {"annotations": annotation}}}})
    stage.edit("Service", "hello", {"metadata": {"annotations": {"example.test/load-balancer": "1"}}})
    stage.cluster.clear_requests()
    stage.rest()
    assert stage.writes() == []
    stage.harness.apply(replace(stage.revision, env={"A": "3"}), generation=2)
    wait_until(lambda: stage.cluster.get("Secret", stage.home, "hello-env")["data"] == {"A": "Mw=="}, "written")
    found = stage.cluster.get("Deployment", stage.home, "hello")["spec"]["template"]["metadata"]["annotations"]
    assert annotation.items() <= found.items()


def test_ingresses_follow_the_setting(stage):
    def hosts() -> list[str]:
        items = stage.cluster.request("GET", "/apis/networking.k8s.io/v1/namespaces/default/ingresses")["items"]
        ours = [one for one in items if one["metadata"]["labels"].get(INSTALLATION) == stage.harness.installation]
        return [rule["host"] for one in ours for rule in one["spec"]["rules"]]

    def change(host: str) -> None:
        stage.harness.backend.close()
        stage.harness.settings = replace(stage.harness.settings, ingress_host=host)
        stage.harness.durations = replace(stage.harness.durations, orphan_sec=1.0)
        stage.restart()

    label = f"{stage.revision.name}-{stage.revision.namespace}"
    assert hosts() == [f"{label}.fn.test"]
    change("other.test")
    wait_until(lambda: stage.tick() or hosts() == [f"{label}.other.test"], "the new host")
    change("")
    wait_until(lambda: stage.tick() or hosts() == [], "no Ingress", 30)
    assert stage.harness.endpoints(stage.revision)
