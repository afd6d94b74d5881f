"""A server on a real cluster, named by SLESS_TEST_KUBECONFIG (`make test-kube`): tests that need real images and networks."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests

from sless.config import Settings
from sless.ids import new_id
from sless.kube import Kube
from sless.kube.names import cluster_namespace_of
from tests.contract.builder_harness import wheel_of
from tests.kube import real
from tests.services.product import Product, Tenant, new_place, wait_until

pytestmark = [
    pytest.mark.skipif(not real.is_given(), reason="SLESS_TEST_KUBECONFIG names no cluster"),
    pytest.mark.xdist_group("real-cluster"),
]
needs_registry = pytest.mark.skipif(not real.has_registry(), reason="SLESS_TEST_REGISTRY_HOST names no registry")
READY_SEC = 300.0
"""Long enough to pull or build an image."""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with new_place(tmp_path_factory.mktemp("cluster")) as place:
        product = Product(place, **{"SLESS_AUTH_MODE": "local", **real.environ()})
        try:
            yield product.start()
        finally:
            product.close()


@pytest.fixture
def tenant(product: Product, request: pytest.FixtureRequest) -> Iterator[Tenant]:
    """A new one each time, as leftovers of earlier test runs belong to another sless installation."""
    made = product.tenant(f"real-{request.node.name}-{new_id()}")
    yield made
    assert made.call("DELETE", f"/v1/namespaces/{made.namespace}?confirm={made.namespace}").status_code == 202
    kube = Kube.connect(Settings(**real.settings()))
    # The server would delete it a minute later, but stops before that.
    kube.delete("Namespace", cluster_namespace_of(made.namespace))
    kube.close()


def deployed(tenant: Tenant, name: str, files: Mapping[str, Any] | str, **fields: str) -> str:
    tenant.create(name, **fields)
    assert tenant.post("triggers", {"name": name, "type": "http", "function_ref": name}).status_code == 201
    assert tenant.upload(name, files).status_code == 202
    found = tenant.settled(name, timeout_sec=READY_SEC)
    assert found["phase"] == "Ready", found
    return tenant.product.url + f"/fn/{tenant.namespace}/{name}"


def test_python_and_node_without_dependencies_serve(tenant):
    url = deployed(tenant, "snake", "def handle(event):\n    return {'got': event}\n")
    assert requests.get(url, params={"a": "1"}, timeout=60).json() == {"got": {"a": "1"}}
    url = deployed(tenant, "node", {"handler.js": "exports.handle = (event) => ({ got: event });\n"}, runtime="nodejs20")
    assert requests.get(url, params={"a": "1"}, timeout=60).json() == {"got": {"a": "1"}}


def test_a_container_is_not_root_and_writes_only_to_tmp(tenant):
    source = (
        "import os\n"
        "def handle(event):\n"
        "    open('/tmp/x', 'w').close()\n"
        "    try:\n"
        "        open('/etc/x', 'w').close()\n"
        "        return 'wrote'\n"
        "    except OSError as error:\n"
        "        return [os.getuid() != 0, error.strerror, os.path.exists('/var/run/secrets/kubernetes.io')]\n"
    )
    answer = requests.get(deployed(tenant, "nobody", source), timeout=60).json()
    assert answer in ([True, "Read-only file system", False], [True, "Permission denied", False])


def test_a_pod_does_not_reach_private_addresses(tenant):
    source = (
        "import os, socket\n"
        "def handle(event):\n"
        "    try:\n"
        "        socket.create_connection((os.environ['KUBERNETES_SERVICE_HOST'], int(os.environ['KUBERNETES_SERVICE_PORT'])), 3).close()\n"
        "        return 'reached'\n"
        "    except OSError:\n"
        "        return 'refused'\n"
    )
    assert requests.get(deployed(tenant, "lonely", source), timeout=60).text == "refused", "does this cluster enforce NetworkPolicies?"


@needs_registry
def test_an_image_with_packages_is_built_and_serves(tenant):
    files = {
        "handler.py": "import greeting\ndef handle(event):\n    return greeting.TEXT\n",
        "requirements.txt": "--no-index\n--find-links ./wheels\ngreeting==1.0\n",
    }
    wheel = {"base64": base64.b64encode(wheel_of("greeting", "1.0", "TEXT = 'hello'\n")).decode()}
    url = deployed(tenant, "built", {**files, "wheels/greeting-1.0-py3-none-any.whl": wheel})
    assert requests.get(url, timeout=60).text == "hello"
    assert tenant.get("functions/built").json()["image_ref"]


@needs_registry
def test_a_go_program_is_built_and_serves(tenant):
    source = "package handler\n\nfunc Handle(event map[string]any) any { return event }\n"
    url = deployed(tenant, "gopher", {"go.mod": "module example.com/fn\n\ngo 1.23\n", "handler.go": source}, runtime="go1.23")
    assert requests.get(url, params={"a": "1"}, timeout=60).json() == {"a": "1"}


def test_a_run_without_instances(tenant):
    tenant.create("once")
    tenant.upload("once", "def handle(event):\n    return event['n'] + 1\n")
    assert tenant.settled("once", timeout_sec=READY_SEC)["phase"] == "Ready"
    assert tenant.post("functions/once/invoke", {"n": 41}).json() == 42
    assert tenant.call("DELETE", "functions/once").status_code == 202
    wait_until(lambda: tenant.get("functions/once").status_code == 404, "it is gone", 120)
