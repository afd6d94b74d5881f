"""The Kubernetes backend watches: no requests while nothing changes, prompt updates, and no decision on an incomplete view."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from sless.backend.kubernetes import observer
from sless.domain.durations import Durations
from sless.domain.ports import BackendUnavailable
from sless.kube.names import cluster_namespace_of
from tests.contract.backend_harness import wait_until
from tests.contract.kube_harness import KubeHarness
from tests.kube.cluster import KubeCluster

HELLO = "def handle(event):\n    return {'hello': event}\n"
SELDOM = Durations(idle_observe_sec=60.0, busy_observe_sec=60.0, cache_sec=60.0)
"""A change noticed within this time was noticed by a watch, not a list."""


@pytest.fixture
def harness(kube_cluster: KubeCluster) -> Iterator[KubeHarness]:
    harness = KubeHarness(SELDOM, kubeconfig=kube_cluster.kubeconfig)
    yield harness
    kube_cluster.set_faults(clear=True)
    harness.close()


def can_see(harness: KubeHarness) -> bool:
    try:
        harness.backend.observe()
    except BackendUnavailable:
        return False
    return True


def test_idle_makes_no_requests_and_changes_are_known_at_once(harness: KubeHarness, kube_cluster: KubeCluster) -> None:
    revision = harness.python(HELLO)
    (before,) = harness.deploy(revision)
    wait_until(lambda: open_watches(kube_cluster) >= 12, "all kinds are watched")
    kube_cluster.clear_requests()
    began = time.monotonic()
    while time.monotonic() - began < 3:
        harness.backend.observe()
        time.sleep(0.2)
    assert [request for request in kube_cluster.requests() if request["path"] != "/version"] == []
    (pod,) = kube_cluster.list("Pod", cluster_namespace_of(harness.namespace))
    began = time.monotonic()
    kube_cluster.delete("Pod", cluster_namespace_of(harness.namespace), pod["metadata"]["name"])
    wait_until(lambda: before not in harness.endpoints(revision) or harness.observed(revision).endpoints[0].draining, "it is draining", 5)
    assert time.monotonic() - began < 2  # 0.2 s on an idle machine
    wait_until(lambda: any(one.address != before for one in harness.observed(revision).endpoints), "the new one is observed", 20)
    kinds = Counter(request["resource"] for request in kube_cluster.requests() if request["verb"] == "list")
    assert kinds["pods"] == kinds["secrets"] == 0, kinds


def open_watches(cluster: KubeCluster) -> int:
    return len({request["resource"] for request in cluster.requests() if request["verb"] == "watch"})


def test_expired_versions_and_broken_streams_cause_a_new_list(harness: KubeHarness, kube_cluster: KubeCluster) -> None:
    revision = harness.python(HELLO)
    harness.deploy(revision)
    wait_until(lambda: open_watches(kube_cluster) >= 12, "all kinds are watched")
    kube_cluster.fault(410, times=12, verbs=["watch"])
    kube_cluster.away(0.3)
    kube_cluster.clear_requests()
    wait_until(lambda: open_watches(kube_cluster) >= 12 and can_see(harness), "watched again", 30)
    assert {request["resource"] for request in kube_cluster.requests() if request["verb"] == "list"} >= {"pods", "deployments", "secrets"}
    (pod,) = kube_cluster.list("Pod", cluster_namespace_of(harness.namespace))
    kube_cluster.delete("Pod", cluster_namespace_of(harness.namespace), pod["metadata"]["name"])
    uid = pod["metadata"]["uid"]
    wait_until(lambda: can_see(harness) and all(not one.id.startswith(uid) for one in harness.observed(revision).endpoints), "known", 20)


def test_a_frozen_api_is_told_apart_from_an_idle_one(
    harness: KubeHarness, kube_cluster: KubeCluster
) -> None:  # fmt: skip
    revision = harness.python(HELLO)
    (endpoint,) = harness.deploy(revision)
    os.kill(kube_cluster.pid, signal.SIGSTOP)
    try:
        harness.backend._observer.active()  # as every write and every run does
        wait_until(
            lambda: harness.backend._observer.active() or not can_see(harness),
            "blind",
            observer.ACTIVE_QUIET_SEC + observer.ANSWER_SEC + 10,
        )
    finally:
        os.kill(kube_cluster.pid, signal.SIGCONT)
    wait_until(lambda: can_see(harness), "seen again", 40)
    assert harness.endpoints(revision) == [endpoint]
