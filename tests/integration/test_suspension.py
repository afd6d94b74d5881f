"""Suspension on a running server: calls, instances, runs and triggers stop, and continue afterwards."""

import pytest

from tests.services.product import Product, Tenant, wait_until

pytestmark = [pytest.mark.timeout(120)]

HANDLER = """\
import os, time

def handle(event):
    time.sleep(float(event.get("sleep", 0)))
    return {"pid": os.getpid()}
"""


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_suspended_tenant_stops_and_loses_nothing(tenant: Tenant, operator: Tenant) -> None:
    url = tenant.deploy("web", {"handler.py": HANDLER})
    tenant.deploy("once", {"handler.py": HANDLER}, http=False)
    pid = tenant.call("GET", url).json()["pid"]
    running = tenant.invoke_later("once", {"sleep": 60})
    wait_until(lambda: tenant.invocation("once", running)["status"] == "running", "the run has started")

    path = f"/v1/operator/tenants/{tenant.namespace}"
    assert operator.post(f"{path}/suspend", {"reason": "mining"}).status_code == 200
    refused = tenant.call("GET", url)
    assert (refused.status_code, refused.headers["X-Sless-Error"]) == (503, "suspended")
    assert "Retry-After" not in refused.headers and "mining" in refused.json()["error"]
    assert tenant.post("functions/once/invoke", {}).status_code == 503
    assert tenant.post("functions/once/invoke", {}, headers={"Prefer": "respond-async"}).status_code == 503
    wait_until(lambda: not alive(pid), "the instance has ended")
    wait_until(lambda: tenant.invocation("once", running)["status"] == "queued", "the run has stopped")

    assert operator.post(f"{path}/resume").status_code == 200
    wait_until(lambda: tenant.call("GET", url).status_code == 200, "the function answers again")
    wait_until(lambda: tenant.invocation("once", running)["status"] == "running", "the run has started again")


def test_suspending_one_function_does_not_affect_others(tenant: Tenant, operator: Tenant) -> None:
    url, other = (tenant.deploy(name, {"handler.py": HANDLER}) for name in ("web", "other"))
    tenant.post("triggers", {"name": "tick", "type": "cron", "function_ref": "web", "schedule": "0 3 * * *"})
    pid, others = (tenant.call("GET", path).json()["pid"] for path in (url, other))

    path = f"/v1/operator/tenants/{tenant.namespace}/functions/web"
    assert operator.post(f"{path}/suspend", {"reason": "port scans"}).status_code == 200
    refused = tenant.call("GET", url)
    assert (refused.status_code, refused.headers["X-Sless-Error"]) == (503, "suspended") and "port scans" in refused.json()["error"]
    wait_until(lambda: not alive(pid), "its instance has ended")
    assert tenant.call("GET", other).json()["pid"] == others
    for write in (
        tenant.patch("functions/web", {"memory_mb": 256}),
        tenant.upload("web", HANDLER + "\n"),
        tenant.post("triggers/tick/fire"),
    ):
        assert write.status_code == 403 and "port scans" in write.json()["error"]
    tick = tenant.get("triggers/tick").json()
    assert not tick["active"] and "port scans" in tick["message"]
    assert tenant.patch("functions/other", {"description": "x"}).status_code == 200

    assert operator.post(f"{path}/resume").status_code == 200
    wait_until(lambda: tenant.call("GET", url).status_code == 200, "the function answers again")
    assert tenant.get("triggers/tick").json()["active"]


def test_a_revoked_token_is_refused_for_calls_and_the_interface(product: Product, operator: Tenant) -> None:
    tenant, other = product.tenant("revoked"), product.tenant("revoked")
    tenant.deploy("once", {"handler.py": HANDLER}, http=False)
    assert operator.post("/v1/operator/revoked-tokens", {"token": tenant.token}).status_code == 200
    for response in (tenant.get("functions"), tenant.post("functions/once/invoke", {})):
        assert (response.status_code, response.json()["code"]) == (401, "token_revoked")
    assert other.get("functions").status_code == 200
