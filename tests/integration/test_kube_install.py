"""`helm install` with real Helm into the stand-in cluster, whose kubelet runs the server and the chart's test."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import helm_python
import pytest
import requests

from sless import ids
from sless.kube.names import cluster_namespace_of
from tests.integration.helm.chart import CHART
from tests.kube.chart_rights import rights_of_chart
from tests.kube.cluster import ROOT, KubeCluster, running_cluster
from tests.services.product import free_port

pytestmark = [pytest.mark.xdist_group("kube-install"), pytest.mark.slow]
NAMESPACE = "cloud"
IMAGE = {
    # As in the Dockerfile, but with the checkout instead of the zipapp.
    "entrypoint": [sys.executable, str(ROOT / "sless.py")],
    "env": {"HOME": "/tmp", "PATH": f"{ROOT / '.venv' / 'bin'}:/usr/bin:/bin", "SLESS_HOST": "0.0.0.0", "SLESS_DATA_DIR": "/data"},
    "workdir": "/data",
    "paths": {"/opt/sless/sless.pyz": str(ROOT / "sless.py")},
}
USER = "sless"
TEST_TENANT = cluster_namespace_of(ids.namespace_of("helm-test"))
"""The namespace in which the chart's test creates its function."""


@dataclass
class Installed:
    cluster: KubeCluster
    config: Any
    values: dict[str, Any]
    url: str

    def pods(self) -> list[dict[str, Any]]:
        """The server's pods; at most one, as the strategy is Recreate."""
        return self.cluster.list("Pod", NAMESPACE, "app.kubernetes.io/name=sless")

    def uids(self) -> list[str]:
        return [pod["metadata"]["uid"] for pod in self.pods()]

    def await_ready(self) -> dict[str, Any]:
        def ready() -> bool:
            status = self.cluster.get("Deployment", NAMESPACE, "sless").get("status", {})
            return status.get("readyReplicas") == 1 == status.get("updatedReplicas") and status.get("replicas") == 1

        try:
            self.cluster.wait_until(ready, "the server is ready", 60)
        except AssertionError:
            print(self.cluster.get("Deployment", NAMESPACE, "sless")["status"])
            for pod in self.pods():
                print(pod["status"], self.cluster.log(NAMESPACE, pod["metadata"]["name"]))
            raise
        (pod,) = self.pods()
        return pod

    def run_tests(self) -> str:
        """`helm test --logs`. Raises HelmError when the pod fails."""
        logs: str = self.config.test("sless", timeout=120, logs=True)["logs"]
        return logs


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    """With the chart's RBAC rules only, and a kubeconfig, as pods on this machine have no in-cluster configuration."""
    with running_cluster() as cluster:
        port = free_port()
        values = {
            "service": {"port": port}, "internalUrl": f"http://127.0.0.1:{port}", "settings": {"kubeconfig": "/kube/config"},
            "extraVolumes": [{"name": "kube", "configMap": {"name": "kubeconfig"}}],
            "extraVolumeMounts": [{"name": "kube", "mountPath": "/kube"}],
        }  # fmt: skip
        cluster.add_image("sless/sless", IMAGE)
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        data = {"config": cluster.write_kubeconfig(USER).read_text()}
        cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubeconfig", "namespace": NAMESPACE}, "data": data})
        rights = rights_of_chart(NAMESPACE, values)
        cluster.enforce(USER, rights.cluster, rights.local, rights.writable)
        config = helm_python.Config(kubeconfig_path=cluster.write_kubeconfig("admin"), namespace=NAMESPACE, storage_driver="memory")
        config.install(str(CHART), "sless", values, wait="watcher", timeout=90)
        yield Installed(cluster, config, values, values["internalUrl"])


def test_a_fresh_install_passes_the_chart_test(installed):
    """Helm waits until everything is ready, then runs the chart's test."""
    (pod,) = installed.pods()
    assert pod["spec"]["containers"][0]["args"] == ["serve"]
    assert requests.get(f"{installed.url}/readyz", timeout=30).json() == {"status": "ok"}
    assert installed.run_tests().rstrip().splitlines()[-1] == '{"hello": "helm"}'
    refused = [item for item in installed.cluster.requests(USER) if item["status"] == 403]
    assert refused == []


def test_the_chart_test_fails_while_functions_cannot_run(installed):
    installed.cluster.script("pull_error", namespace=TEST_TENANT)
    with pytest.raises(helm_python.HelmError, match=r"sless-test.*Failed"):
        installed.run_tests()
    log = installed.cluster.log(NAMESPACE, "sless-test")
    assert "cannot be pulled" in log and '{"hello": "helm"}' not in log, log
    installed.cluster.clear_scripts()
    assert '{"hello": "helm"}' in installed.run_tests()


def test_helm_waits_for_the_server_and_reports_what_is_not_ready(installed):
    config = helm_python.Config(kubeconfig_path=installed.cluster.write_kubeconfig("admin"), namespace="other", storage_driver="memory")
    values = {**installed.values, "image": {"repository": "not/there"}}
    with pytest.raises(helm_python.HelmError, match="Deployment/other/sless not ready"):
        config.install(str(CHART), "sless", values, wait="watcher", timeout=5, create_namespace=True)
    config.uninstall("sless")


def test_an_upgrade_keeps_tokens_and_data(installed):
    """An unchanged upgrade restarts nothing; after a change, the new pod has the old secret and volume."""
    before = installed.await_ready()
    secret = installed.cluster.get("Secret", NAMESPACE, "sless-jwt")["data"]
    installed.config.upgrade(str(CHART), "sless", installed.values)
    assert installed.cluster.get("Secret", NAMESPACE, "sless-jwt")["data"] == secret
    assert installed.await_ready()["metadata"]["uid"] == before["metadata"]["uid"]
    installed.config.upgrade(str(CHART), "sless", {**installed.values, "logLevel": "debug"})
    installed.cluster.wait_until(lambda: before["metadata"]["uid"] not in installed.uids(), "the old pod is gone", 60)
    after = installed.await_ready()
    claims = [[item["persistentVolumeClaim"] for item in pod["spec"]["volumes"] if item["name"] == "data"] for pod in (before, after)]
    assert claims[0] == claims[1] == [{"claimName": "sless"}]
    assert installed.cluster.get("Secret", NAMESPACE, "sless-jwt")["data"] == secret


def test_uninstall_keeps_data_and_secret(installed):
    installed.config.uninstall("sless")
    assert installed.cluster.find("Deployment", NAMESPACE, "sless") is None
    assert installed.cluster.find("ConfigMap", NAMESPACE, "sless") is None
    assert installed.cluster.find("PersistentVolumeClaim", NAMESPACE, "sless") is not None
    assert installed.cluster.find("Secret", NAMESPACE, "sless-jwt") is not None
