"""Instances follow the calls on the stand-in cluster, in one of its own: leftovers of other tests would delay it."""

import pytest

from sless.kube.names import namespace_of
from tests.integration.test_kubernetes import SLOW, World, rights, world
from tests.services.bursts import burst
from tests.services.product import wait_until

__all__ = ["rights", "world"]
pytestmark = [pytest.mark.xdist_group("kubernetes-scaling"), pytest.mark.slow]


def test_instances_follow_the_calls(world: World) -> None:
    tenant = world.product.tenant("scaling")
    path = tenant.deploy("burst", SLOW, idle_seconds=1, concurrency=25, max_instances=4)

    def is_idle() -> bool:
        return tenant.get("functions/burst").json()["ready_instances"] == 0 and not world.pods(tenant)

    wait_until(is_idle, "no pod is left", 40)
    deployment = world.cluster.list("Deployment", namespace_of(tenant.namespace))[0]
    assert deployment["spec"]["replicas"] == 0 and tenant.get("functions/burst").json()["phase"] == "Ready"
    answers = burst(tenant, path, 200, sec=0.5)
    assert [status for status, _ in answers] == [200] * 200
    assert 2 <= len({body for _, body in answers}) <= 4
    wait_until(is_idle, "no pod is left", 40)
    called = tenant.post(path, {})
    assert called.status_code == 200
    wait_until(lambda: len(tenant.get("functions/burst/invocations?limit=1").json()) == 1, "history")
    assert tenant.get("functions/burst/invocations?limit=1").json()[0]["cold"] is True
