"""Objects in the cluster that are no longer needed."""

from typing import Any

from sless.backend.kubernetes.instances import Instances, Objects
from sless.backend.kubernetes.view import ClusterView, ObjectCache
from sless.backend.kubernetes.writer import Writer
from sless.domain.durations import Durations
from sless.kube.names import ROLE, ROLE_INSTANCE, WORKLOAD

Json = dict[str, Any]


def item(name: str) -> Json:
    labels = {ROLE: ROLE_INSTANCE, WORKLOAD: "w1"}
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": "1", "labels": labels}}


def test_a_deployment_that_the_view_does_not_show_yet_keeps_its_objects() -> None:
    """Events of the cluster may be minutes late, but this process knows its own writes at once."""
    cache, writer = ObjectCache("ins"), Writer(lambda: None, flush_sec=0.1)
    parts: dict[str, Any] = dict.fromkeys(("kube", "fit", "tenants", "code"))
    instances = Instances(objects=Objects(cache=cache, durations=Durations(orphan_sec=0.0), **parts), writer=writer)
    cache.put("Secret", item("f-env"))
    cache.put("Deployment", item("f"))
    assert [instances.orphans(ClusterView()) for _ in range(3)] == [[]] * 3
    cache.drop("Deployment/ns/f")
    found = [orphan.key for _ in range(3) for orphan in instances.orphans(ClusterView())]
    assert "Secret/ns/f-env" in found
    writer.close()
