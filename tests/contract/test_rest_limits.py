"""Limits per tenant: set by operators, shown to tenants, checked."""

from collections.abc import Callable
from typing import Any

import pytest

from sless.domain.limits import LimitName
from tests.contract.rest_harness import OPERATOR, Rest, fields_of

OTHER = "sless-0123456789abcdef"


def path_of(namespace: str) -> str:
    return f"/v1/operator/tenants/{namespace}/limits"


def limit(rest: Rest, **values: Any) -> None:
    assert rest.put(path_of(rest.namespace), values, sub=OPERATOR).status_code == 200


def test_only_operators_see_and_set_limits(rest: Rest) -> None:
    assert rest.get(path_of(rest.namespace)).status_code == 403, "also for one's own namespace"
    assert rest.get(path_of(OTHER)).json["error"] == rest.get(path_of(rest.namespace)).json["error"]
    assert rest.put(path_of(rest.namespace), {"functions": 1000}).status_code == 403
    assert rest.get(path_of(rest.namespace), sub=None).status_code == 401


def test_a_put_replaces_all_and_null_is_the_default(rest: Rest) -> None:
    assert rest.get(path_of(OTHER), sub=OPERATOR).status_code == 404
    limit(rest, functions=3, jobs=0)
    shown = rest.get(path_of(rest.namespace), sub=OPERATOR).json
    assert (shown["functions"], shown["jobs"], shown["services"]) == (3, 0, None)
    assert (shown["limits"]["functions"], shown["limits"]["services"]) == (3, 50)
    assert rest.put(path_of(rest.namespace), shown, sub=OPERATOR).json == shown, "what was read can be sent back"
    limit(rest, services=1, functions=None)
    limits = rest.get(f"/v1/namespaces/{rest.namespace}/usage").json["limits"]
    assert (limits["functions"], limits["jobs"], limits["services"]) == (100, 200, 1) and set(limits) == set(LimitName)


def test_bad_limits_are_all_named(rest: Rest) -> None:
    body = {"functions": -1, "jobs": "many", "versions_kept": 0, "calls": 5, "code_bytes": 1.5}
    assert fields_of(rest.put(path_of(rest.namespace), body, sub=OPERATOR)) == set(body)
    assert fields_of(rest.put(path_of(rest.namespace), [], sub=OPERATOR)) == {""}


def test_limits_set_before_a_tenants_first_request_apply_to_it(rest: Rest) -> None:
    limit(rest, functions=0)
    assert rest.post(f"/v1/namespaces/{rest.namespace}/ensure").json["limits"]["functions"] == 0
    tenant = rest.store.tenants.find(rest.namespace)
    assert tenant is not None and tenant.sub == "alice"


CREATE: dict[str, Callable[[Rest, str], Any]] = {
    "functions": lambda rest, name: rest.post("functions", {"name": name, "runtime": "python3.11"}),
    "services": lambda rest, name: rest.post("services", {"name": name, "runtime": "python3.11"}),
    "jobs": lambda rest, name: rest.post("jobs", {"name": name, "runtime": "python3.11"}),
    "triggers": lambda rest, name: rest.post("triggers", {"name": name, "type": "cron", "function_ref": name, "schedule": "@daily"}),
}


@pytest.mark.parametrize("resource", CREATE)
def test_resources_are_limited(rest: Rest, resource: str) -> None:
    limit(rest, **{resource: 1})
    assert CREATE[resource](rest, "a").status_code == 201
    refused = CREATE[resource](rest, "b")
    assert (refused.status_code, refused.json["code"]) == (403, "limit_reached") and f"limit {resource} " in refused.json["error"]
    assert rest.get(f"/v1/namespaces/{rest.namespace}/usage").json["counts"][resource] == 1


def test_stored_code_is_limited(rest: Rest) -> None:
    rest.function()
    rest.built()
    used = rest.get(f"/v1/namespaces/{rest.namespace}/usage").json["counts"]["code_bytes"]
    assert used > 0
    limit(rest, code_bytes=used)
    refused = rest.upload(files={"handler.py": "def handle(event):\n    return 2\n"})
    assert refused.status_code == 403 and "limit code_bytes " in refused.json["error"]
    assert rest.upload().status_code == 200, "the same code needs no more"
    assert rest.post("functions/hello/rebuild").status_code == 202, "another build of it needs no more either"
    assert rest.get(f"/v1/namespaces/{rest.namespace}/usage").json["counts"]["code_bytes"] == used


def test_builds_per_hour_are_limited_and_deleting_restores_none(rest: Rest) -> None:
    limit(rest, builds_per_hour=2)
    rest.function()
    rest.built()
    rest.delete("functions/hello")
    rest.gone("hello")
    rest.function()
    rest.built()
    for refused in (rest.upload(files={"handler.py": "def handle(event):\n    return 3\n"}), rest.post("functions/hello/rebuild")):
        assert (refused.status_code, refused.json["code"]) == (429, "too_many_requests") and "builds_per_hour" in refused.json["error"]
        assert 0 < int(refused.headers["Retry-After"]) <= 3600
    assert rest.get(f"/v1/namespaces/{rest.namespace}/usage").json["counts"]["builds_per_hour"] == 2
    assert len(rest.get("functions/hello/versions").json) == 1


def test_a_change_is_in_the_audit_trail(rest: Rest) -> None:
    limit(rest, functions=3, jobs=5)
    limit(rest, functions=4)
    entry = rest.get("audit").json[0]
    assert (entry["action"], entry["sub"]) == ("limits.update", OPERATOR)
    assert entry["changes"] == [{"field": "functions", "from": 3, "to": 4}, {"field": "jobs", "from": 5, "to": None}]


@pytest.mark.parametrize("kind", ["function", "service", "job"])
def test_a_workload_that_could_never_run_is_refused(rest: Rest, kind: str) -> None:
    limit(rest, memory_mb=200)
    rest.function("small", kind)
    for refused in (
        rest.post(f"{kind}s", {"name": "big", "runtime": "python3.11", "memory_mb": 201}),
        rest.patch(f"{kind}s/small", {"memory_mb": 201}),
    ):
        assert (refused.status_code, refused.json["code"]) == (403, "limit_reached") and "limit memory_mb " in refused.json["error"]


def test_a_minimum_of_instances_over_the_limit_is_refused(rest: Rest) -> None:
    limit(rest, instances=2)
    rest.function("web", "service", replicas=2)
    assert "limit instances " in rest.patch("services/web", {"replicas": 3}).json["error"]
    assert "limit instances " in rest.post("functions", {"name": "f", "runtime": "python3.11", "min_instances": 3}).json["error"]
    limit(rest, instances=0)
    assert rest.patch("services/web", {"replicas": 0}).status_code == 200
    assert rest.function("f")["max_instances"] == 5, "only the minimum counts"
