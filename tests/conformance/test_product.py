"""What takes the whole product to show: handlers that cannot be imported, and instances that need too much memory."""

import re
from collections.abc import Iterator

import pytest

from tests.conformance.go_programs import GO, go_entrypoint_of
from tests.conformance.harness import RUNTIMES, handlers_dir, require_runtime
from tests.services.product import Product, Tenant, running_product, wait_until

pytestmark = [pytest.mark.xdist_group("conformance-product"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running_product(tmp_path_factory.mktemp("conformance")) as started:
        yield started


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    require_runtime(name)
    return name


@pytest.fixture
def tenant(product: Product, request: pytest.FixtureRequest) -> Tenant:
    return product.tenant(request.node.name)


def files_of(runtime: str, group: str) -> dict[str, str]:
    """The file of a group of handlers, as it is uploaded."""
    folder = handlers_dir(runtime)
    path = folder / group / f"{group}.go" if runtime == GO else folder / (group + {"python3.11": ".py", "nodejs20": ".js"}[runtime])
    return {str(path.relative_to(folder)): path.read_text()}


def entrypoint_of(runtime: str, entrypoint: str) -> str:
    return go_entrypoint_of(entrypoint) if runtime == GO else entrypoint


@pytest.mark.parametrize(
    ("group", "reason"), [("broken_raise", "broken while imported"), ("broken_exit", r"exited with code \d+ while it was imported")]
)
def test_handler_that_cannot_be_imported_never_serves(tenant: Tenant, runtime: str, group: str, reason: str) -> None:
    tenant.create("broken", runtime=runtime, entrypoint=entrypoint_of(runtime, f"{group}.handle"))
    assert tenant.post("triggers", {"name": "broken", "type": "http", "function_ref": "broken"}).status_code == 201
    assert tenant.upload("broken", files_of(runtime, group)).status_code == 202
    failed = tenant.settled("broken", timeout_sec=120)
    assert failed["phase"] == "Failed"
    assert re.search(reason, failed["message"]), failed["message"]
    answer = tenant.post(f"/fn/{tenant.namespace}/broken", {})
    assert (answer.status_code, answer.headers.get("Retry-After")) == (503, None), answer.text
    assert answer.headers["X-Sless-Error"] == "build_failed"


def test_call_over_its_memory_is_a_502_and_the_next_one_is_served(tenant: Tenant, runtime: str) -> None:
    path = tenant.deploy("eater", files_of(runtime, "waits"), runtime=runtime, entrypoint=entrypoint_of(runtime, "waits.eat"), memory_mb=64)
    assert tenant.post(path, {}).json() == {"kept": 0}
    answer = tenant.post(path, {"much": True}, headers={"X-Request-Id": "too-much"})
    assert (answer.status_code, answer.headers["X-Sless-Error"]) == (502, "out_of_memory"), answer.text
    assert re.search(r"out of memory: used \d+ of 64 MB", answer.json()["error"])
    wait_until(lambda: tenant.invocation("eater", "too-much").get("status") == "failed", "the call is on record as failed")
    assert tenant.post(path, {}).json() == {"kept": 0}
