"""Invalid requests to a running server: fields, types, names, sizes and tokens, each with a clear error."""

import base64
import json
import time
from typing import Any

import jwt
import pytest
import requests

from tests.services.product import Tenant


def refused(answer: requests.Response, status: int, code: str) -> dict[str, Any]:
    """Check the shape of the error and return its body."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"error", "code", "details", "request_id"}
    assert body["code"] == code, body
    assert body["request_id"] == answer.headers["X-Request-Id"]
    assert "Traceback" not in answer.text and "sqlalchemy" not in answer.text
    return dict(body)


def fields_of(body: dict[str, Any]) -> set[str]:
    assert all(set(detail) == {"field", "message"} for detail in body["details"])
    return {detail["field"] for detail in body["details"]}


def test_all_invalid_fields_are_reported_at_once(tenant: Tenant) -> None:
    answer = tenant.post(
        "functions",
        {
            "name": "Hello", "runtime": "cobol", "memory_mb": "128", "timeout_sec": 901, "env_vars": {"A": 1, "2B": "x"}, "colour": "red",
            "entrypoint": "no dots", "concurrency": True,
        },
    )  # fmt: skip
    body = refused(answer, 400, "invalid")
    invalid = {"name", "runtime", "memory_mb", "timeout_sec", "env_vars.A", "env_vars.2B", "colour", "entrypoint", "concurrency"}
    assert fields_of(body) == invalid
    messages = {detail["field"]: detail["message"] for detail in body["details"]}
    assert "900" in messages["timeout_sec"] and "901" in messages["timeout_sec"]
    assert "python3.11" in messages["runtime"]
    assert tenant.get("functions").json() == []


@pytest.mark.parametrize(
    "name", ["", "a" * 41, "Upper", "1st", "-x", "x-", "a_b", "a.b", "a/b", "é", "admin", "api", "a\n", " a", "a\u0000"]
)
def test_invalid_names_are_rejected(tenant: Tenant, name: str) -> None:
    for path, body in (
        ("functions", {"runtime": "python3.11"}),
        ("services", {"runtime": "python3.11"}),
        ("jobs", {"runtime": "python3.11"}),
        ("triggers", {"type": "http", "function_ref": "x"}),
    ):
        assert fields_of(refused(tenant.post(path, {"name": name} | body), 400, "invalid")) == {"name"}


@pytest.mark.parametrize(
    "body", ["[]", "null", '"text"', "3", "true", '{"name": {}}', '{"name": "x", "runtime": ["python3.11"]}', '{"name":"x","runtime":null}']
)
def test_wrong_types_are_rejected(tenant: Tenant, body: str) -> None:
    refused(tenant.post("functions", data=body, headers={"Content-Type": "application/json"}), 400, "invalid")


@pytest.mark.parametrize(
    "body", [b"{", b"", b"\xff\xfe", b'{"a": NaN}', b'{"name": "\\ud800"}', b"[" * 10_000, b'{"run_id": ' + b"9" * 5000 + b"}"]
)
def test_invalid_json_is_rejected(tenant: Tenant, body: bytes) -> None:
    answer = tenant.post("functions", data=body, headers={"Content-Type": "application/json"})
    assert refused(answer, 400, answer.json()["code"])["code"] in ("invalid", "invalid_json")


def test_json_of_100_000_values_is_rejected(tenant: Tenant) -> None:
    answer = tenant.post("functions", data=b"[" * 100_000, headers={"Content-Type": "application/json"})
    refused(answer, 413, "too_large")


def test_ten_megabytes_of_json_are_rejected(tenant: Tenant) -> None:
    tenant.create("f")
    text = json.dumps({"name": "x", "runtime": "python3.11", "description": "x" * (10 << 20)}).encode()
    for method, path in (("POST", "functions"), ("PUT", "functions/f"), ("PATCH", "functions/f"), ("POST", "triggers"), ("POST", "jobs")):
        answer = tenant.call(method, path, data=text, headers={"Content-Type": "application/json"})
        body = refused(answer, 413, "too_large")
        assert "max_json_bytes" in body["error"] and str(1 << 20) in body["error"]
    # Chunked: the size is not known in advance.
    answer = tenant.post("functions", data=iter([text[:100], text[100:]]), headers={"Content-Type": "application/json"})
    refused(answer, 413, "too_large")
    assert tenant.get("functions/f").status_code == 200


def test_a_job_event_over_its_limit_is_rejected(tenant: Tenant) -> None:
    tenant.create("f")
    body = refused(tenant.post("jobs", {"name": "j", "function_ref": "f", "event_json": {"x": "y" * (256 << 10)}}), 413, "too_large")
    assert fields_of(body) == {"event_json"}


def test_an_environment_over_its_limit_is_rejected(tenant: Tenant) -> None:
    body = refused(tenant.post("functions", {"name": "f", "runtime": "python3.11", "env_vars": {"A": "x" * 70_000}}), 413, "too_large")
    assert "65536" in body["error"]


# --- tokens ---


def _token(tenant: Tenant, key: str | None = None, algorithm: str = "HS256", **claims: Any) -> str:
    secret = (tenant.product.place.data_dir / "jwt-secret").read_text().strip()
    content = {"sub": "mallory", "exp": int(time.time()) + 60} | claims
    return jwt.encode({name: value for name, value in content.items() if value is not None}, key or secret, algorithm)


def _unsigned(tenant: Tenant) -> str:
    header, payload = {"alg": "none", "typ": "JWT"}, {"sub": "mallory", "exp": int(time.time()) + 60}
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, payload)) + "."


def _tampered(tenant: Tenant) -> str:
    """A token with its subject changed after signing."""
    head, _, signature = tenant.token.split(".")
    payload = {"sub": "mallory", "exp": int(time.time()) + 60}
    return f"{head}.{base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip('=')}.{signature}"


FORGERIES = {
    "another secret": (lambda tenant: _token(tenant, key="0" * 40), "token_bad_signature"),
    "tampered": (_tampered, "token_bad_signature"),
    "alg none": (_unsigned, None),
    "another algorithm": (lambda tenant: _token(tenant, algorithm="HS512"), None),
    "expired": (lambda tenant: _token(tenant, exp=int(time.time()) - 1), "token_expired"),
    "no expiry": (lambda tenant: _token(tenant, exp=None), None),
    "not valid yet": (lambda tenant: _token(tenant, nbf=int(time.time()) + 600), None),
    "no subject": (lambda tenant: _token(tenant, sub=None), None),
    "empty subject": (lambda tenant: _token(tenant, sub=""), None),
    "long subject": (lambda tenant: _token(tenant, sub="x" * 1025), None),
    "not a JWT": (lambda tenant: "x.y.z", "token_malformed"),
    "empty": (lambda tenant: "", None),
    "huge": (lambda tenant: "x" * 20_000, None),
}


@pytest.mark.parametrize("kind", FORGERIES)
@pytest.mark.parametrize("path", ["/v1/whoami", "functions", "functions/x/invoke", "functions/x/logs?follow=1"])
def test_forged_tokens_are_rejected(tenant: Tenant, kind: str, path: str) -> None:
    make, code = FORGERIES[kind]
    token = make(tenant)
    answer = tenant.get(path, headers={"Authorization": f"Bearer {token}"})
    body = refused(answer, 401, code or answer.json()["code"])
    assert body["code"] in ("token_malformed", "token_expired", "token_bad_signature", "token_missing", "unauthorized")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert not token or token not in answer.text


def test_a_token_signed_with_the_right_key_is_accepted(tenant: Tenant) -> None:
    assert tenant.get("/v1/whoami", headers={"Authorization": f"Bearer {_token(tenant)}"}).json()["sub"] == "mallory"


def test_other_tenants_have_no_access(tenant: Tenant) -> None:
    tenant.create("f")
    stranger = tenant.product.tenant("stranger")
    base = f"/v1/namespaces/{tenant.namespace}"
    for method, path in (
        ("GET", "/functions"), ("GET", "/functions/f"), ("DELETE", "/functions/f"), ("PATCH", "/functions/f"), ("POST", "/functions"),
        ("POST", "/functions/f/upload"), ("GET", "/functions/f/source"), ("POST", "/functions/f/invoke"), ("GET", "/functions/f/logs"),
        ("GET", "/functions/f/logs?follow=1"), ("GET", "/functions/f/invocations"), ("POST", "/triggers"), ("POST", "/jobs"),
        ("GET", "/usage"), ("POST", "/ensure"), ("DELETE", f"?confirm={tenant.namespace}"),
    ):  # fmt: skip
        body = refused(stranger.call(method, base + path, json={} if method in ("POST", "PATCH") else None), 403, "forbidden")
        assert stranger.namespace in body["error"]
    assert tenant.get("functions/f").status_code == 200
