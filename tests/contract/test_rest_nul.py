"""NUL in any text field is a 400 that names the field: PostgreSQL cannot store it, and a U+FFFD in its place would change the text."""

from collections.abc import Iterator
from typing import Any

import pytest

from sless.domain.schemas import REQUESTS
from tests.contract.rest_harness import OPERATOR, Rest

TEXT = "a\0b"
WORKLOAD = {"name": "x", "runtime": "python3.11"}
TRIGGER = {"name": "x", "function_ref": "hello"}
TYPES: dict[str, dict[str, Any]] = {
    "Http": {"type": "http"},
    "Cron": {"type": "cron", "schedule": "@daily"},
    "Event": {"type": "event", "queue": "q", "amqp_url": "amqp://h/"},
}
TENANT = "/v1/operator/tenants/{ns}"
REQUEST_OF: dict[str, tuple[str, str, dict[str, Any]]] = {
    "FunctionCreate": ("POST", "functions", WORKLOAD),
    "FunctionReplace": ("PUT", "functions/hello", {"runtime": "python3.11"}),
    "FunctionMerge": ("PATCH", "functions/hello", {}),
    "ServiceCreate": ("POST", "services", WORKLOAD),
    "ServiceReplace": ("PUT", "services/notes", {"runtime": "python3.11"}),
    "ServiceMerge": ("PATCH", "services/notes", {}),
    "JobCreate": ("POST", "jobs", WORKLOAD),
    "JobMerge": ("PATCH", "jobs/once", {}),
    **{f"{kind}TriggerCreate": ("POST", "triggers", TRIGGER | more) for kind, more in TYPES.items()},
    **{f"{kind}TriggerReplace": ("PUT", f"triggers/{kind.lower()}", {"function_ref": "hello"} | more) for kind, more in TYPES.items()},
    **{f"{kind}TriggerMerge": ("PATCH", f"triggers/{kind.lower()}", {}) for kind in TYPES},
    "NotificationsReplace": ("PUT", "notifications", {"notify_url": None}),
    "Suspend": ("POST", f"{TENANT}/suspend", {}),
    "ImportedRun": ("POST", f"{TENANT}/jobs/once/imported-run", {"run_id": 1}),
    "AllowCode": ("PUT", f"/v1/operator/allowed-code/{'0' * 64}", {}),
    "TokenRevocation": ("POST", "/v1/operator/revoked-tokens", {"jti": "x"}),
}
OTHERWISE = {"Files", "UploadForm", "TenantLimits", "Event"}
"""Uploads are tested separately, limits are numbers, and the event of a call is any JSON."""


def texts_of(schema: dict[str, Any], value: Any = TEXT) -> Iterator[Any]:
    """Values of the schema that contain TEXT."""
    kinds = schema.get("type", "string")
    if "string" in kinds:
        yield value
    if "array" in kinds:
        yield [value]
    if "object" in kinds and isinstance(schema.get("additionalProperties"), dict):
        yield {"A": value}
    for name, inner in schema.get("properties", {}).items() if "object" in kinds else ():
        for found in texts_of(inner, value):
            yield {name: found}


def test_every_request_is_tested() -> None:
    assert REQUEST_OF.keys() | OTHERWISE == REQUESTS.keys()


@pytest.mark.parametrize("component", REQUEST_OF)
def test_nul_is_refused(rest: Rest, component: str) -> None:
    rest.function()
    rest.function("notes", "service")
    rest.function("once", "job")
    for kind, more in TYPES.items():
        assert rest.post("triggers", TRIGGER | more | {"name": kind.lower()}).status_code == 201
    method, path, body = REQUEST_OF[component]
    count = 0
    for name, schema in REQUESTS[component]["properties"].items():
        for value in () if schema.get("readOnly") else texts_of(schema):
            sub = OPERATOR if path.startswith("/") else "alice"
            answer = rest.call(method, path.replace("{ns}", rest.namespace), json=body | {name: value}, sub=sub)
            assert answer.status_code == 400, (name, value, answer.text)
            assert any(detail["field"].startswith(name) for detail in answer.json["details"]), answer.text
            count += 1
    assert count, "the request has text fields"


def test_nul_within_an_event_is_kept(rest: Rest) -> None:
    made = rest.post("jobs", WORKLOAD | {"event_json": {"list": [TEXT], "text": TEXT}})
    assert (made.status_code, made.json["event_json"]) == (201, '{"list": ["a\\u0000b"], "text": "a\\u0000b"}')


@pytest.mark.parametrize(
    "path", ["audit?name=a%00b", "functions?cursor=a%00b", "functions/hello/invocations?since=%00", "triggers?limit=1%00"]
)
def test_nul_in_a_query_parameter(rest: Rest, path: str) -> None:
    rest.function()
    answer = rest.get(path)
    assert (answer.status_code, [detail["field"] for detail in answer.json["details"]]) == (400, [path.split("?")[1].split("=")[0]])
