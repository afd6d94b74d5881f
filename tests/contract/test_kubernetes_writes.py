"""The Kubernetes backend writes in the background: the newest desired state wins, and a refused write is repeated."""

from collections.abc import Iterator

import pytest

from sless.domain.durations import Durations
from sless.domain.ports import Revision
from sless.kube.names import cluster_namespace_of
from tests.contract.backend_harness import wait_until
from tests.contract.kube_harness import KubeHarness
from tests.kube.cluster import KubeCluster

HELLO = "def handle(event):\n    return {'hello': event}\n"


@pytest.fixture
def harness(kube_cluster: KubeCluster) -> Iterator[KubeHarness]:
    harness = KubeHarness(Durations(idle_observe_sec=0.5), kubeconfig=kube_cluster.kubeconfig)
    yield harness
    kube_cluster.set_faults(clear=True)
    harness.close()


@pytest.fixture
def revision(harness: KubeHarness) -> Revision:
    deployed = harness.python(HELLO)
    harness.deploy(deployed)
    return deployed


def test_a_number_that_changes_back_during_a_write_is_the_last_one_written(
    harness: KubeHarness, kube_cluster: KubeCluster, revision: Revision
) -> None:  # fmt: skip
    """For example, a call arrives while the last instance is being removed."""
    kube_cluster.fault(delay_sec=0.5, verbs=["patch"], resources=["deployments"])
    harness.apply(revision, replicas=0)
    wait_until(lambda: harness.backend._writer.is_busy(revision.workload_id), "0 is being written")
    harness.apply(revision, replicas=1)
    wait_until(lambda: not harness.backend._writer.is_busy(revision.workload_id), "both are written")
    assert kube_cluster.get("Deployment", cluster_namespace_of(harness.namespace), "hello")["spec"]["replicas"] == 1


def test_a_refused_number_is_reported_and_applied_again(harness: KubeHarness, kube_cluster: KubeCluster, revision: Revision) -> None:
    """The generation stays the same, so the reconciler depends on the observation."""
    kube_cluster.fault(403, message="admission webhook: at most 1", verbs=["patch"], resources=["deployments"])
    harness.apply(revision, replicas=2)
    seen = harness.wait_failing(revision, "at most 1")
    assert (seen.generation, len(seen.endpoints)) == (0, 1)
    wait_until(lambda: harness.apply(revision, replicas=2) or len(harness.endpoints(revision)) == 2, "two instances")
    wait_until(lambda: harness.observed(revision).generation == 1, "nothing is left to apply")


def test_a_failure_of_a_number_no_longer_desired_is_forgotten(harness: KubeHarness, kube_cluster: KubeCluster, revision: Revision) -> None:
    kube_cluster.fault(503, verbs=["patch"], resources=["deployments"])
    harness.apply(revision, replicas=2)
    wait_until(lambda: harness.observed(revision).generation == 0, "the loop applies it again")
    harness.apply(revision, replicas=1)
    wait_until(lambda: harness.observed(revision).generation == 1, "nothing is left to apply")
