"""Harness of the backend suite for a cluster: the stand-in or a real one."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sless.backend.kubernetes import ClusterParts, KubernetesBackend
from sless.config import Settings
from sless.domain.durations import Durations
from sless.domain.ports import BackendUnavailable, ObservedDeployment, Revision
from sless.ids import new_id
from sless.kube import Kube
from sless.kube.code_map import archive_of, code_map_name_of
from sless.kube.names import code_artifact_of
from tests.contract.backend_harness import BackendHarness, wait_until
from tests.kube import real


class KubeHarness(BackendHarness):
    """`settings`: fields of Settings that name the cluster and its images."""

    name = "kubernetes"
    start_sec = 60.0
    noticed_sec = 15.0
    image_env = ("HOSTNAME", "NODE_ENV", "NODE_VERSION", "YARN_VERSION", "PYTHONPATH", "PYTHON_VERSION", "PYTHON_SHA256", "GPG_KEY")

    def __init__(self, durations: Durations | None = None, **settings: Any) -> None:
        super().__init__()
        self.durations = durations or self.durations
        self.root = Path(tempfile.mkdtemp(prefix="slb-", dir="/tmp"))
        self.namespace = f"sless-{new_id()}{new_id()}"[:22]
        self.installation = new_id(8)
        self.settings = Settings(
            data_dir=self.root / "data", run_dir=self.root / "run", backend="kubernetes", max_result_bytes=1000, tenant_pods=30, **settings
        )
        self.backend: KubernetesBackend = self.make()

    def make(self) -> KubernetesBackend:
        parts = ClusterParts(
            settings=self.settings, kube=Kube.connect(self.settings), installation=self.installation, code=self.code,
            on_lines=self.lines.extend, changed=self.changes.release,
            durations=self.durations,
        )  # fmt: skip
        backend = KubernetesBackend(parts)
        backend.keep_namespaces([self.namespace])
        wait_until(lambda: _can_see(backend), "the cluster seen")
        return backend

    def close(self) -> None:
        self.backend.close()
        kube = Kube.connect(self.settings)
        kube.delete("Namespace", f"sless-fn-{self.namespace.removeprefix('sless-')}")
        kube.close()
        shutil.rmtree(self.root)

    def revision(self, files: Mapping[str, str | bytes], **fields: Any) -> Revision:
        """Small code, as a build without dependencies produces it."""
        return self.adapted(super().revision(files, **{"namespace": self.namespace, **fields}))

    def adapted(self, revision: Revision) -> Revision:
        if revision.code_key not in self.code.blobs or revision.runtime.startswith("go"):
            return replace(revision, artifact="") if revision.runtime.startswith("go") else revision
        with self.code.open(revision.code_key) as code:
            return replace(revision, artifact=code_artifact_of(code_map_name_of(archive_of(code))))

    def observed(self, revision: Revision) -> ObservedDeployment | None:
        """Retries while the cluster is unreachable, as the reconciler does at each tick."""
        deadline = time.monotonic() + 20
        while True:
            try:
                return self.backend.observe().get(revision.workload_id)
            except BackendUnavailable:
                assert time.monotonic() < deadline
                time.sleep(0.05)


def _can_see(backend: KubernetesBackend) -> bool:
    with contextlib.suppress(BackendUnavailable):
        backend.observe()
        return True
    return False


def real_harness() -> KubeHarness:
    return KubeHarness(**real.settings())
