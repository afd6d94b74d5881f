"""Tests that need the whole product: handlers that cannot be imported, and instances that need too much memory."""

import json
import re
from collections.abc import Iterator
from typing import Any

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
    """The uploaded file of a group of handlers."""
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
    wait_until(lambda: tenant.invocation("eater", "too-much").get("status") == "failed", "the call is recorded as failed")
    assert tenant.post(path, {}).json() == {"kept": 0}


FORMS = {
    # form → (status, http_status, result) of a call; only Python has pairs
    "object": ("succeeded", 200, '{"a": 1, "b": [true, null]}'),
    "text": ("succeeded", 200, '"Grüße"'),
    "empty_text": ("succeeded", 200, '""'),
    "nothing": ("succeeded", 204, "null"),
    "binary": ("succeeded", 200, None),
    "status": ("succeeded", 201, '"made"'),
    "status_text": ("succeeded", 404, '"no"'),
    "status_only": ("succeeded", 202, "null"),
    "status_object_body": ("succeeded", 200, '{"ok": true}'),
    "status_binary": ("succeeded", 200, None),
    "status_304": ("succeeded", 304, "null"),
    "pair": ("succeeded", 418, '"short"'),
    "status_500": ("dead", 500, None),
    "nan": ("dead", 500, None),
    "status_too_high": ("dead", 502, None),
}


def begin(tenant: Tenant, form: str) -> dict[str, str]:
    """Starts one call of each kind: of an instance, as a one-off run, as a job. Returns the ids of the first two."""
    once = {"Prefer": "respond-async", "X-Sless-Max-Attempts": "1"}
    calls = {}
    for name in ("warm", "single"):
        accepted = tenant.post(f"functions/{name}/invoke", {"form": form}, headers=once)
        assert accepted.status_code == 202, accepted.text
        calls[name] = accepted.json()["id"]
    job = {"name": job_of(form), "function_ref": "single", "event_json": {"form": form}, "run_id": 1}
    assert tenant.post("jobs", job).status_code == 201
    return calls


def job_of(form: str) -> str:
    return f"job-{form.replace('_', '-')}"


def ends_of(tenant: Tenant, form: str, calls: dict[str, str]) -> dict[str, dict[str, Any]]:
    ended = tenant.ended_job(job_of(form), 60)
    calls_ended = {name: tenant.ended_call(name, call, 60) for name, call in calls.items()}
    return calls_ended | {"job": {"status": ended["phase"].lower(), "result": ended["result"], "message": ended["message"]}}


def test_a_result_is_the_same_for_instance_run_and_job(tenant: Tenant, runtime: str) -> None:
    """And so are the status of the answer and whether it is a success."""
    for name in ("warm", "single"):
        entrypoint = entrypoint_of(runtime, "results.form")
        tenant.deploy(name, files_of(runtime, "results"), http=name == "warm", runtime=runtime, entrypoint=entrypoint)
    begun = {form: begin(tenant, form) for form in FORMS if form != "pair" or runtime == "python3.11"}
    for form, calls in begun.items():
        status, http_status, result = FORMS[form]
        ends = ends_of(tenant, form, calls)
        found = {name: (end["status"], end["http_status"], end["result"]) for name, end in ends.items() if name != "job"}
        assert found["warm"] == found["single"], form
        shown = found["single"][2]
        assert found["single"][:2] == (status, http_status), form
        assert result is None or json.loads(shown) == json.loads(result), form
        assert (shown is None) == (status == "dead"), form
        assert ends["job"]["status"] == ("failed" if status == "dead" else "succeeded"), form
        assert ends["job"]["result"] == shown, form
        assert status == "dead" or ends["job"]["message"] == shown, form
