"""The namespaces of tenants."""

from concurrent.futures import ThreadPoolExecutor

from sless.backend.kubernetes.tenants import TenantNamespaces
from sless.backend.kubernetes.view import ObjectCache
from sless.config import Settings
from sless.kube.tenant import tenant_policy_of


class Kube:
    """A cluster without other namespaces that accepts every object."""

    def __init__(self) -> None:
        self.applied: list[str] = []

    def list(self, kind: str, **_: object) -> list[dict]:
        return []

    def apply(self, manifest: dict) -> dict:
        self.applied.append(f"{manifest['kind']}/{manifest['metadata'].get('namespace', manifest['metadata']['name'])}")
        return manifest


def test_a_namespace_is_created_once_and_leaves_no_lock():
    kube = Kube()
    tenants = TenantNamespaces(kube, tenant_policy_of(Settings(backend="kubernetes"), "ins"), ObjectCache("ins"), empty_sec=60)  # type: ignore[arg-type]
    names = [f"sless-{number % 50:016x}" for number in range(400)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(tenants.ensure, names))
    assert len([key for key in kube.applied if key.startswith("Namespace/")]) == 50
    assert not tenants._locks
