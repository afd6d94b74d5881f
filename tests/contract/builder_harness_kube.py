"""Harnesses for the stand-in cluster (processes as pods, a real registry, our own builder program) and for a real cluster."""

import base64
import functools
import json
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sless.builder.kubernetes import KubernetesBuilder, make_kubernetes_builder
from sless.builder.references import RegistryName, find_reference
from sless.code.contexts import FolderContextStore, open_context_store
from sless.config import Settings, load
from sless.domain.ports import BuildSpec, BuildStatus
from sless.ids import new_id
from sless.kube import Kube
from sless.kube.names import cluster_namespace_of
from tests.contract.builder_harness import LocalBuilderHarness
from tests.kube import real
from tests.kube.chart_rights import Rights, rights_of_chart
from tests.kube.cluster import KubeCluster
from tests.kube.image_builder import folder_of, image_of
from tests.services.registry import PASSWORD, USER, RegistryServer

INSTALLATION = "inst-0123"
PUSH_SECRET = "registry"


class FileUrls(FolderContextStore):
    """Contexts fetched from disk; serving them over HTTP is tested elsewhere."""

    def put(self, build_id: str, source: Path, expires_sec: int) -> str:
        super().put(build_id, source, expires_sec)
        return self._path_of(build_id).as_uri()


class KubernetesBuilderHarness(LocalBuilderHarness):
    cluster: KubeCluster
    registry: RegistryServer

    def make(self, **settings: Any) -> None:
        given = {
            "kubeconfig": self.cluster.kubeconfig, "pod_namespace": "default", "builder_image": "image-builder",
            "registry_host": self.registry.host, "registry_insecure": True, "registry_secret": PUSH_SECRET, "registry_project": "functions",
        }  # fmt: skip
        self.settings = Settings(data_dir=self.root / "data", run_dir=self.root / "run", **{**given, **settings})
        self.cluster.apply(push_secret(self.registry.host))
        self.cluster.add_image("image-builder", image_of(self.cluster._control, self.root / "images"))
        rights = chart_rights()
        self.cluster.enforce("sless", rights.cluster, rights.local, rights.writable)
        self.contexts = FileUrls(self.settings.data_dir, "http://sless")
        self.kube = Kube.connect(self.settings)
        self.builder = self.new_builder()

    def new_builder(self) -> KubernetesBuilder:
        return make_kubernetes_builder(self.settings, self.kube, INSTALLATION, self.code, self.contexts, durations=self.durations)

    def close(self) -> None:
        super().close()
        self.kube.close()

    def is_unbuilt(self, status: BuildStatus) -> bool:
        return status.artifact.startswith("configmap:")

    def deps_of(self, spec: BuildSpec, status: BuildStatus) -> Path:
        return self._image_folder(status) / "deps"

    def code_of(self, spec: BuildSpec, status: BuildStatus) -> Path:
        return self._image_folder(status) / "function"

    def _image_folder(self, status: BuildStatus) -> Path:
        """The folder with the image's layers unpacked by the builder program; the registry has to have the image."""
        reference = find_reference(status.artifact, RegistryName(host=self.registry.host, path=""))
        assert reference is not None and reference.tag in self.registry.tags(reference.repository)
        return folder_of(self.root / "images", status.artifact)

    def jobs(self, namespace: str = "default-builds") -> list[dict[str, Any]]:
        return self.cluster.list("Job", namespace)

    @property
    def tenant(self) -> str:
        return cluster_namespace_of("sless-0123456789abcdef")


class RealBuilderHarness(LocalBuilderHarness):
    """A real cluster. Small code only needs SLESS_TEST_KUBECONFIG and the runtime images; images also a registry (SLESS_TEST_REGISTRY_HOST
    …) and S3 reachable from pods (SLESS_TEST_S3_ENDPOINT …); their tests are skipped without them."""

    def make(self, **settings: Any) -> None:
        given = load(real.environ(), data_dir=self.root / "data", run_dir=self.root / "run")
        self.settings = replace(given, **settings)
        self.namespace = f"sless-{new_id(16)}"
        self.namespaces = {self.namespace}
        self.kube = Kube.connect(self.settings)
        self.installation = new_id(8)
        self.contexts = open_context_store(self.settings, self.installation)
        self.builder = self.new_builder()

    def new_builder(self) -> KubernetesBuilder:
        return make_kubernetes_builder(self.settings, self.kube, self.installation, self.code, self.contexts, durations=self.durations)

    def start(self, spec: BuildSpec) -> None:
        with self.code.open(spec.code_key) as package, zipfile.ZipFile(package) as archive:
            asked = {"requirements.txt", "package.json"} & set(archive.namelist())
        if asked and not (self.settings.registry_host and self.settings.s3_endpoint):
            pytest.skip("images in a real cluster need SLESS_TEST_REGISTRY_HOST and SLESS_TEST_S3_ENDPOINT")
        self.namespaces.add(spec.namespace)
        super().start(spec)

    def spec(self, files: Mapping[str, str | bytes], **fields: Any) -> BuildSpec:
        return super().spec(files, **{"namespace": self.namespace, **fields})

    def wait(self, spec: BuildSpec, timeout_sec: float = 240) -> BuildStatus:
        return super().wait(spec, timeout_sec)

    def is_unbuilt(self, status: BuildStatus) -> bool:
        return status.artifact.startswith("configmap:")

    def deps_of(self, spec: BuildSpec, status: BuildStatus) -> Path:
        pytest.skip("the image is in the cluster's registry; the build has imported its code")

    code_of = deps_of

    def close(self) -> None:
        self.builder.close()
        for namespace in self.namespaces:
            self.kube.delete("Namespace", cluster_namespace_of(namespace))
        self.kube.close()
        shutil.rmtree(self.root)


@functools.cache
def chart_rights() -> Rights:
    """The rights that the chart grants sless."""
    return rights_of_chart("default", {"backend": "kubernetes"})


def push_secret(host: str) -> dict[str, Any]:
    config = json.dumps({"auths": {host: {"username": USER, "password": PASSWORD}}})
    return {
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": PUSH_SECRET, "namespace": "default"},
        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()},
    }  # fmt: skip
