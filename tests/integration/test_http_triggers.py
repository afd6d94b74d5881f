"""HTTP triggers on a running server."""

import requests

from tests.services.product import Tenant, wait_until

HANDLER = "def handle(event, context):\n    return {'event': event, 'key': context.http.headers.get('x-sless-key')}\n"


def create_trigger(tenant: Tenant, **fields):
    answer = tenant.post("triggers", {"name": "front", "type": "http", "function_ref": "f"} | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def call(tenant: Tenant, method: str = "GET", **options) -> requests.Response:
    return requests.request(method, f"{tenant.product.url}/fn/{tenant.namespace}/f", timeout=60, **options)


def test_a_trigger_waits_for_its_function_to_become_ready(tenant: Tenant) -> None:
    made = create_trigger(tenant)
    assert (made["active"], made["message"]) == (False, 'function "f" not found')
    assert call(tenant).status_code == 404
    tenant.create("f")
    shown = tenant.get("triggers/front").json()
    assert (shown["active"], shown["message"]) == (False, 'function "f" has no ready version')
    refused = call(tenant)
    assert refused.status_code == 503 and refused.headers["X-Sless-Error"] == "not_ready" and int(refused.headers["Retry-After"]) > 0
    tenant.upload("f", HANDLER)
    wait_until(lambda: call(tenant).status_code == 200, "it serves without another request")
    assert tenant.get("triggers/front").json()["active"] is True
    assert tenant.get("functions/f").json()["url"] == f"{tenant.product.url}/fn/{tenant.namespace}/f"


def test_methods_keys_cors_and_the_rate_limit_apply_to_calls(tenant: Tenant) -> None:
    """The API key is shown once and can be rotated."""
    cors = {"allow_origins": ["https://a.example"], "max_age_sec": 60}
    key = create_trigger(tenant, methods=["GET"], auth="key", rate_limit=4, cors=cors)["api_key"]
    tenant.create("f")
    tenant.upload("f", HANDLER)
    assert tenant.settled("f")["phase"] == "Ready"
    answer = call(tenant, headers={"X-Sless-Key": key, "Origin": "https://a.example"})
    assert (answer.status_code, answer.json()) == (200, {"event": {}, "key": None})
    assert answer.headers["Access-Control-Allow-Origin"] == "https://a.example"
    refused = call(tenant, "POST", headers={"X-Sless-Key": key})
    assert (refused.status_code, refused.headers["Allow"], refused.headers["X-Sless-Error"]) == (405, "GET", "method_not_allowed")
    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "x-a"}
    answer = call(tenant, "OPTIONS", headers=preflight)
    assert (answer.status_code, answer.headers["Access-Control-Max-Age"], answer.headers["Access-Control-Allow-Headers"]) == (
        204,
        "60",
        "x-a",
    )
    assert "Access-Control-Allow-Origin" not in call(tenant, "OPTIONS", headers=preflight | {"Origin": "https://b.example"}).headers

    new = tenant.patch("triggers/front", {"rotate_key": True}).json()["api_key"]
    assert "api_key" not in tenant.get("triggers/front").json()
    for headers in ({}, {"X-Sless-Key": key}, {"X-Sless-Key": "x"}):
        assert call(tenant, headers=headers).status_code == 401
    statuses = [call(tenant, headers={"X-Sless-Key": new}).status_code for _ in range(6)]
    assert statuses[0] == 200 and statuses[-1] == 429 and set(statuses) == {200, 429}
    assert int(call(tenant, headers={"X-Sless-Key": new}).headers["Retry-After"]) > 0

    assert tenant.patch("triggers/front", {"auth": "token", "rate_limit": None}).json()["has_key"] is False
    assert call(tenant, headers={"X-Sless-Key": new}).status_code == 401
    assert call(tenant, headers={"Authorization": f"Bearer {tenant.token}"}).status_code == 200


def test_a_disabled_trigger_can_be_fired_by_hand(tenant: Tenant) -> None:
    create_trigger(tenant, enabled=False)
    tenant.create("f")
    tenant.upload("f", "def handle(event, context):\n    return {'event': event, 'trigger': context.trigger, 'http': context.http}\n")
    assert tenant.settled("f")["phase"] == "Ready"
    disabled = call(tenant)
    assert (disabled.status_code, disabled.headers["X-Sless-Error"]) == (503, "disabled") and int(disabled.headers["Retry-After"]) > 0
    accepted = tenant.post("triggers/front/fire", {"n": 1})
    assert accepted.status_code == 202
    ended = tenant.ended_call("f", accepted.json()["id"])
    assert (ended["status"], ended["result"]) == ("succeeded", '{"event": {"n": 1}, "trigger": "http", "http": null}')
    assert tenant.post("triggers/nothing/fire").status_code == 404
    tenant.post("triggers", {"name": "lost", "type": "cron", "function_ref": "nothing", "schedule": "@daily"})
    assert tenant.post("triggers/lost/fire").json()["error"] == 'function "nothing" not found'


def test_a_call_does_not_wait_for_instances_that_cannot_start(tenant: Tenant) -> None:
    """The module exits only if EXIT is set, which the test does after the build."""
    tenant.create("f")
    tenant.upload("f", f"import os\nif os.environ.get('EXIT'):\n    os._exit(3)\n{HANDLER}")
    assert tenant.settled("f")["phase"] == "Ready"
    assert tenant.patch("functions/f", {"env_vars": {"EXIT": "1"}}).status_code == 200
    create_trigger(tenant)
    wait_until(lambda: tenant.get("functions/f").json()["phase"] == "Failed", "no instance can start")
    refused = call(tenant)
    assert (refused.status_code, refused.headers["X-Sless-Error"], "Retry-After" in refused.headers) == (503, "no_instances", True)
    assert "function exited with code 3" in refused.json()["error"]
    assert refused.elapsed.total_seconds() < 5, "the call waited for an instance (30 s)"
    assert tenant.patch("functions/f", {"env_vars": {"EXIT": ""}}).status_code == 200
    wait_until(lambda: call(tenant).status_code == 200, "it serves again")
