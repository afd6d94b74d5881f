"""Tokens, namespaces, history, framework errors, documents and pages."""

import importlib
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest

from sless import clock
from sless.domain.model import CallStatus, Kind
from sless.domain.statistics import LATENCY_BOUNDS_MS, CallStats
from sless.domain.uptime import Sighting
from sless.http.table import OPERATIONS
from sless.ids import namespace_of
from tests.builders import make_invocation, make_log_line
from tests.contract.rest_harness import OPERATOR, Rest, fields_of

# --- tokens ------------------------------------------------------------------------------------------------------------------------------


def forged(rest: Rest, **claims: Any) -> dict[str, str]:
    key = (rest.settings.data_dir / "jwt-secret").read_text()
    algorithm = claims.pop("algorithm", "HS256")
    token = jwt.encode(
        {"sub": "alice", "exp": time.time() + 60} | claims, None if algorithm == "none" else claims.pop("key", key), algorithm
    )
    return {"Authorization": f"Bearer {token}"}


def test_who_am_i(rest: Rest) -> None:
    assert rest.get("/v1/whoami").json == {
        "sub": "alice", "namespace": rest.namespace, "operator": False, "auth_mode": "local",
        "function_url": "http://127.0.0.1:9090/fn/{namespace}/{name}",
    }  # fmt: skip
    assert rest.get("/v1/whoami", sub=OPERATOR).json["operator"] is True


def test_every_path_but_the_public_ones_requires_a_token(rest: Rest) -> None:
    open_paths = {"/", "/docs", "/docs/handlers", "/openapi.json", "/metrics"}
    for row in OPERATIONS:
        if row.view is None:
            continue
        path = row.path.replace("{ns}", rest.namespace).replace("{name}", "x").replace("{n}", "1").replace("{id}", "x")
        response = rest.call(row.method, path, sub=None)
        if path in open_paths:
            assert response.status_code == 200
            continue
        assert (response.status_code, response.json["code"]) == (401, "token_missing"), path
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_errors_of_bad_tokens_name_the_failed_check(rest: Rest) -> None:
    cases = [
        (forged(rest, exp=time.time() - 5), "token_expired"),
        (forged(rest, key="x" * 64), "token_bad_signature"),
        (forged(rest, algorithm="none"), "token_bad_signature"),
        ({"Authorization": "Bearer x.y.z"}, "token_malformed"),
        ({"Authorization": "Basic YTpi"}, "token_malformed"),
        (forged(rest, sub=""), "unauthorized"),
    ]
    for headers, code in cases:
        response = rest.get("functions", sub=None, headers=headers)
        assert (response.status_code, response.json["code"]) == (401, code)
        assert headers["Authorization"].split()[1] not in response.text
        assert "invalid_token" in response.headers["WWW-Authenticate"]


def test_other_tenants_are_forbidden_everywhere_and_operators_are_not(rest: Rest) -> None:
    rest.function()
    for row in OPERATIONS:
        if row.view is not None and "{ns}" in row.path:
            path = row.path.replace("{ns}", rest.namespace).replace("{name}", "hello").replace("{n}", "1").replace("{id}", "x")
            response = rest.call(row.method, path, sub="mallory")
            assert (response.status_code, response.json["code"]) == (403, "forbidden"), path
    assert rest.get("functions/hello", sub=OPERATOR).status_code == 200
    assert rest.get("/v1/namespaces/..%2f/functions", sub=OPERATOR).status_code in (404, 403)
    for odd in ("a%00b", "A_B", "x" * 64):
        assert rest.get(f"/v1/namespaces/{odd}/functions", sub=OPERATOR).status_code == 404


def test_an_operator_does_not_become_the_owner_of_a_namespace(rest: Rest) -> None:
    other = namespace_of("bob")
    assert rest.post(f"/v1/namespaces/{other}/ensure", sub=OPERATOR).status_code == 200
    tenant = rest.store.tenants.find(other)
    assert tenant is not None and tenant.sub != OPERATOR


# --- namespaces --------------------------------------------------------------------------------------------------------------------------


def test_ensure_is_idempotent(rest: Rest) -> None:
    first = rest.post(f"/v1/namespaces/{rest.namespace}/ensure")
    assert first.json == rest.post(f"/v1/namespaces/{rest.namespace}/ensure").json
    assert first.json["limits"].items() > {"functions": 100, "services": 50, "triggers": 200, "jobs": 200}.items()


def test_delete_everything(rest: Rest) -> None:
    path = f"/v1/namespaces/{rest.namespace}"
    rest.function()
    rest.function("web", "service")
    rest.function("job", "job")
    rest.post("triggers", {"name": "t", "type": "http", "function_ref": "hello"})
    for wrong in ("", "?confirm=", "?confirm=x"):
        assert fields_of(rest.delete(path + wrong)) == {"confirm"}
    response = rest.delete(f"{path}?confirm={rest.namespace}")
    assert response.status_code == 202 and "4 resources" in response.json["message"]
    assert {item["phase"] for kind in ("functions", "services", "jobs") for item in rest.get(kind).json} == {"Deleting"}
    assert rest.get("triggers").json == []
    for name, kind in (("hello", "function"), ("web", "service"), ("job", "job")):
        rest.gone(name, kind)
    assert rest.delete(f"{path}?confirm={rest.namespace}").status_code == 202
    assert rest.store.tenants.find(rest.namespace) is None


def test_usage(rest: Rest) -> None:
    counts = rest.get(f"/v1/namespaces/{rest.namespace}/usage").json["counts"]
    assert {"functions", "services", "jobs", "triggers", "code_bytes"} < set(counts) and not any(counts.values())
    rest.function()
    add_calls(rest, calls=3, errors=1, gb_ms=2500)
    body = rest.get(f"/v1/namespaces/{rest.namespace}/usage").json
    assert body["counts"]["functions"] == 1 and body["limits"]["jobs"] == 200
    assert [(day["invocations"], day["errors"], day["gb_seconds"]) for day in body["days"]] == [(3, 1, 2.5)]
    hello = rest.store.workloads.get(rest.namespace, Kind.FUNCTION, "hello")
    midnight = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    seen = Sighting(
        endpoint_id="i", workload_id=hello.id, namespace=rest.namespace, kind=hello.kind, name=hello.name, memory_mb=128,
        since=midnight - timedelta(seconds=12), until=midnight + timedelta(seconds=24),
    )  # fmt: skip
    rest.store.uptime.count([seen], {"i"})
    yesterday = midnight - timedelta(days=1)
    days = rest.get(f"/v1/namespaces/{rest.namespace}/usage").json["days"]
    assert [(day["day"], day["invocations"], day["gb_seconds"], day["instance_gb_seconds"]) for day in days] == [
        (yesterday.date().isoformat(), 0, 0, 1.5), (body["days"][0]["day"], 3, 2.5, 3.0)
    ]  # fmt: skip


def test_runtimes(rest: Rest) -> None:
    assert [item["name"] for item in rest.get("/v1/runtimes").json] == ["python3.11", "nodejs20", "go1.23"]


# --- history -----------------------------------------------------------------------------------------------------------------------------


def add_calls(rest: Rest, *, calls: int, errors: int, gb_ms: float) -> None:
    workload = rest.store.workloads.get(rest.namespace, Kind.FUNCTION, "hello")
    histogram = [0] * (len(LATENCY_BOUNDS_MS) + 1)
    histogram[3] = calls
    stats = CallStats(
        namespace=rest.namespace,
        workload_id=workload.id,
        kind=Kind.FUNCTION,
        name="hello",
        version=1,
        minute=datetime.now(UTC).replace(second=0, microsecond=0),
        calls=calls,
        errors=errors,
        gb_ms=gb_ms,
        duration_ms=1,
        histogram=tuple(histogram),
    )
    rest.store.history.add_history([], [stats], [])


def add_invocations(rest: Rest, count: int) -> list[str]:
    """Oldest first, one second apart."""
    workload = rest.store.workloads.get(rest.namespace, Kind.FUNCTION, "hello")
    begin = datetime(2026, 1, 31, tzinfo=UTC)
    items = [
        make_invocation(
            id=f"i{number:03}",
            request_id=f"req-{number}",
            namespace=rest.namespace,
            workload_id=workload.id,
            started_at=begin + timedelta(seconds=number),
            status=CallStatus.FAILED if number % 2 else CallStatus.SUCCEEDED,
            result="7",
        )
        for number in range(count)
    ]
    lines = [
        make_log_line(
            source_id="s", seq=number, workload_id=workload.id, invocation_id=f"i{number:03}", at=item.started_at, text=f"line {number}"
        )
        for number, item in enumerate(items)
    ]
    rest.store.history.add_history(items, [], lines)
    return [item.id for item in items]


def test_invocations(rest: Rest) -> None:
    rest.function()
    assert rest.get("functions/hello/invocations").json == []
    ids = add_invocations(rest, 120)
    path = "functions/hello/invocations"
    first = rest.get(path)
    assert [item["id"] for item in first.json] == ids[::-1][:100]
    assert "result" not in first.json[0] and "logs" not in first.json[0]
    second = rest.get(first.headers["Link"].partition(">")[0][1:])
    assert [item["id"] for item in second.json] == ids[::-1][100:] and "Link" not in second.headers
    filtered = rest.get(path + "?status=failed&since=2026-01-31T00:01:50Z&limit=3")
    assert [item["id"] for item in filtered.json] == ["i119", "i117", "i115"] and "status=failed" in filtered.headers["Link"]
    assert rest.get(path + "?trigger=cron").json == []
    one = rest.get(path + "/i007").json
    assert one["result"] == "7" and [line["text"] for line in one["logs"]] == ["line 7"]
    assert rest.get(path + "/req-7").json == one
    assert rest.get(path + "/nope").status_code == 404 and rest.get(path + "/%00").status_code == 404


@pytest.mark.parametrize(
    "query", ["status=x", "trigger=x", "since=yesterday", "since=2026-01-31", "limit=0", "cursor=%00", "cursor=unknown"]
)
def test_bad_filters(rest: Rest, query: str) -> None:
    rest.function()
    assert fields_of(rest.get(f"functions/hello/invocations?{query}")) == {query.partition("=")[0]}


def test_logs(rest: Rest) -> None:
    rest.function()
    add_invocations(rest, 5)
    response = rest.get("functions/hello/logs")
    assert response.mimetype == "text/plain"
    assert response.text.splitlines()[0] == "2026-01-31T00:00:00.000Z line 0" and len(response.text.splitlines()) == 5
    assert [line[-1] for line in rest.get("functions/hello/logs?tail=2").text.splitlines()] == ["3", "4"]
    assert rest.get("functions/hello/logs?tail=0").text == ""
    assert len(rest.get("functions/hello/logs?since=2026-01-31T00:00:03Z").text.splitlines()) == 2
    assert len(rest.get("functions/hello/logs?since=2026-01-31T01:00:03+01:00").text.splitlines()) == 2
    listed = rest.get("functions/hello/logs?tail=1", headers={"Accept": "application/json"}).json
    assert [(line["text"], line["invocation_id"]) for line in listed] == [("line 4", "i004")]
    assert fields_of(rest.get("functions/hello/logs?tail=-1")) == {"tail"}
    assert rest.get("services/hello/logs").status_code == 404


def test_stats(rest: Rest) -> None:
    rest.function()
    add_calls(rest, calls=4, errors=1, gb_ms=1)
    body = rest.get("functions/hello/stats").json
    assert (body["window"], body["slot_sec"], len(body["slots"]), body["calls"], body["errors"]) == ("1h", 60, 60, 4, 1)
    assert 2 <= body["p50_ms"] <= 3
    assert rest.get("functions/hello/stats?window=7d").json["calls"] == 4
    for bad in ("0h", "1y", "h", "500d", "99999h", "-1h"):
        assert fields_of(rest.get(f"functions/hello/stats?window={bad}")) == {"window"}


def test_unknown_query_parameters_and_bad_flags_are_refused(rest: Rest) -> None:
    rest.function()
    response = rest.get("functions/hello/logs?tial=5&since=2026-01-31T00:00:00Z")
    assert fields_of(response) == {"tial"} and 'did you mean "tail"' in response.json["error"]
    assert fields_of(rest.get("functions?limti=1")) == {"limti"}
    assert fields_of(rest.get("functions/hello/logs?follow=yes")) == {"follow"}
    assert rest.get("functions/hello/logs?follow=0").status_code == 200
    for empty in ("since=", "tail="):
        assert fields_of(rest.get(f"functions/hello/logs?{empty}")) == {empty[:-1]}


def test_other_methods_on_paths_that_asgi_serves_are_405(rest: Rest) -> None:
    rest.function()
    for method, path, allowed in (("PUT", "functions/hello/invoke", {"GET", "HEAD", "POST"}), ("TRACE", "/healthz", {"GET", "HEAD"})):
        response = rest.call(method, path)
        assert response.status_code == 405 and set(response.headers["Allow"].split(", ")) == allowed


# --- framework errors --------------------------------------------------------------------------------------------------------------------


def test_an_operator_sees_all_namespaces(rest: Rest) -> None:
    assert rest.get("/v1/namespaces").status_code == 403
    names = []
    for sub in ("alice", "bob", "carol"):
        name = namespace_of(sub)
        assert rest.post(f"/v1/namespaces/{name}/ensure", sub=sub).status_code == 200
        names.append(name)
    first = rest.get("/v1/namespaces?limit=2", sub=OPERATOR)
    assert [item["namespace"] for item in first.json] == sorted(names)[:2]
    rest_of_them = rest.get(first.headers["Link"].split(";")[0].strip("<>"), sub=OPERATOR)
    assert [item["namespace"] for item in rest_of_them.json] == sorted(names)[2:]
    assert rest.get("/v1/namespaces?cursor=%2F", sub=OPERATOR).status_code == 400


def test_unknown_paths_and_methods_return_the_common_error_body(rest: Rest) -> None:
    for path in ("/nope", "/v1", "/v1/runtime", "functions/", "functions//x", "/v1/whoami/"):
        response = rest.get(path)
        assert (response.status_code, response.json["code"]) == (404, "not_found"), path
    for method in ("DELETE", "OPTIONS", "TRACE", "PATCH"):
        response = rest.call(method, "/v1/whoami")
        assert (response.status_code, response.json["code"]) == (405, "method_not_allowed")
        assert set(response.headers["Allow"].split(", ")) == {"GET", "HEAD"}


def test_a_valid_request_id_is_kept(rest: Rest) -> None:
    assert rest.get("/nope", headers={"X-Request-Id": "abc-1"}).json["request_id"] == "abc-1"
    for bad in ("a b", "x" * 129, "é"):
        response = rest.get("/nope", headers={"X-Request-Id": bad})
        assert response.json["request_id"] == response.headers["X-Request-Id"] != bad


def test_an_internal_error_is_a_500_without_details(rest: Rest, caplog: pytest.LogCaptureFixture) -> None:
    rest.store.close()
    object.__setattr__(rest.usecases.workloads(Kind.FUNCTION), "_store", None)
    response = rest.get("functions/hello")
    assert (response.status_code, response.json["code"]) == (500, "internal")
    assert "NoneType" not in response.text and response.json["request_id"] in caplog.text


def test_responses_have_security_headers(rest: Rest) -> None:
    for path in ("/", "/v1/whoami", "/nope", "/docs"):
        headers = rest.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin" and "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
    assert "script-src 'self'" in rest.get("/docs").headers["Content-Security-Policy"]


# --- documents and pages -----------------------------------------------------------------------------------------------------------------


def test_the_openapi_document_is_valid_and_has_every_path(rest: Rest) -> None:
    importlib.import_module("openapi_spec_validator").validate(rest.document)  # most of a second, which each test process would pay
    registered = {(rule.rule, method) for rule in rest.app.url_map.iter_rules() for method in (rule.methods or ()) if method != "HEAD"}
    documented = {
        (path.replace("{n}", "<int(min=1, max=2147483647):n>").replace("{", "<").replace("}", ">"), method.upper())
        for path, methods in rest.document["paths"].items()
        for method in methods
    }
    assert {item for item in registered if not item[0].startswith(("/static/", "/funcs"))} <= documented
    assert len({row.id for row in OPERATIONS}) == len(OPERATIONS)


def test_pages_load_nothing_from_other_hosts(rest: Rest, repository: Path) -> None:
    for path in ("/", "/docs", "/docs/handlers", "/funcs"):
        text = rest.get(path, sub=None, headers={"Accept": "text/html"}).text
        assert "http://" not in text and "https://" not in text
    for name in ("docs.js", "pages.css"):
        response = rest.get(f"/static/{name}", sub=None)
        assert response.status_code == 200 and b"http" not in response.data.replace(b"http_", b"")
    assert rest.get("/static/../setup.cfg", sub=None).status_code == 404


def test_metrics(rest: Rest, make_store: Any, tmp_path: Path) -> None:
    assert "sless_build_info" in rest.get("/metrics", sub=None).text
    guarded = Rest(make_store(), tmp_path / "other", metrics_token="let-me-in")
    assert guarded.get("/metrics", sub=None).status_code == 401
    assert guarded.get("/metrics", sub=None, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert guarded.get("/metrics", sub=None, headers={"Authorization": "Bearer let-me-in"}).status_code == 200


def test_the_docs_link_to_the_handler_guide(rest: Rest) -> None:
    for path in ("/", "/docs"):
        assert 'href="/docs/handlers"' in rest.get(path, sub=None).text
    guide = rest.get("/docs/handlers", sub=None).text
    assert "def handle(event, context):" in guide and "func Handle(" in guide
