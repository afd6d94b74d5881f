"""Functions with dependencies on the stand-in cluster: build, call, rebuild. S3 and the registry are real; the builder
fetches its context from S3 by a presigned URL."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.builder_harness import wheel_of
from tests.integration.building_product import building_product
from tests.integration.test_rollout import calling
from tests.kube.cluster import KubeCluster
from tests.services.product import Product, wait_until
from tests.services.registry import RegistryServer
from tests.services.s3 import S3Server

pytestmark = [pytest.mark.xdist_group("kubernetes-builds"), pytest.mark.timeout(240)]
REQUIREMENTS = "--no-index\n--find-links ./wheels\ngreeting==1.0\n"
HANDLER = "import os\nimport greeting\ndef handle(event):\n    return {'version': greeting.N, 'pid': os.getpid(), 'n': event['n']}\n"


@dataclass
class World:
    cluster: KubeCluster
    product: Product
    registry: RegistryServer


@pytest.fixture
def world(tmp_path: Path, registry_server: RegistryServer, s3_server: S3Server) -> Iterator[World]:
    with building_product(tmp_path, registry_server, s3_server) as (cluster, product):
        yield World(cluster, product, registry_server)


def test_a_function_with_dependencies_is_built_called_and_rebuilt(world: World) -> None:
    world.product.start()
    tenant = world.product.tenant("ada")
    wheel = wheel_of("greeting", "1.0", "N = 1\n")
    path = tenant.deploy(
        "hello", {"handler.py": HANDLER, "requirements.txt": REQUIREMENTS, "wheels/greeting-1.0-py3-none-any.whl": _as_json(wheel)}
    )
    repository = f"{tenant.namespace}-hello"
    (tag,) = world.registry.tags(repository)
    assert tenant.get("functions/hello").json()["image_ref"] == f"{world.registry.host}/{repository}:{tag}"
    assert "Successfully installed greeting-1.0" in tenant.get("functions/hello/versions/1").json()["build_log"]
    with calling(tenant, path) as callers:
        wait_until(lambda: callers.versions[1] > 20, "version 1 answers")
        assert tenant.post("functions/hello/rebuild").status_code == 202
        assert tenant.settled("hello", version=2, timeout_sec=90)["active_version"] == 2
        wait_until(lambda: len(callers.pids) == 2, "a new instance answers", 60)
    assert callers.failures == []
    assert world.registry.tags(repository) == sorted([tag, f"{tag}-v2"])


def _as_json(content: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(content).decode()}
