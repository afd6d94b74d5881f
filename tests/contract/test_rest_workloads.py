"""Functions and services over REST: create, read, update, delete, list."""

import json
from typing import Any

import pytest

from sless.domain.model import Observed, VersionState
from tests.contract.rest_harness import Rest, fields_of

MINIMAL = {"name": "hello", "runtime": "python3.11"}


def test_create_returns_defaults_and_location(rest: Rest) -> None:
    response = rest.post("functions", MINIMAL)
    assert response.status_code == 201
    assert response.headers["Location"] == f"/v1/namespaces/{rest.namespace}/functions/hello"
    assert response.headers["ETag"].startswith('"')
    body = response.json
    assert body | {
        "name": "hello", "namespace": rest.namespace, "runtime": "python3.11", "entrypoint": "handler.handle", "memory_mb": 128,
        "timeout_sec": 30, "env_vars": {}, "concurrency": 50, "event_format": "sless", "phase": "Pending", "status": "Pending",
        "active_version": None, "latest_version": None, "latest_state": None, "code_sha256": None, "code_hash": None, "url": None,
    } == body  # fmt: skip
    assert rest.get("functions/hello").json == body
    assert body["created_at"].endswith("Z")
    assert {"routes", "instances"} <= set(rest.waker.topics)


def test_secrets_are_never_returned(rest: Rest) -> None:
    body = MINIMAL | {"secret_env": {"S": "hunter2"}, "build_env": {"B": "hunter2"}}
    texts = [
        rest.post("functions", body).text,
        rest.get("functions/hello").text,
        rest.get("functions").text,
        rest.patch("functions/hello", {"secret_env": {"S": "hunter2", "T": "hunter2"}}).text,
        rest.delete("functions/hello").text,
    ]
    assert not any("hunter2" in text or "secret_env" in text or "build_env" in text for text in texts)


def test_all_errors_of_a_request_are_reported_at_once(rest: Rest) -> None:
    response = rest.post(
        "functions", {"name": "Hello", "runtime": "cobol", "memory": 1, "memory_mb": "128", "env_vars": {"SLESS_MODE": "x"}}
    )
    assert fields_of(response) == {"name", "runtime", "memory", "memory_mb", "env_vars.SLESS_MODE"}
    assert response.json["code"] == "invalid" and response.json["request_id"] == response.headers["X-Request-Id"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"\xff\xfe", "invalid_json"),
        (b'{"name": NaN}', "invalid_json"),
        (b'{"description": "\\ud800"}', "invalid_json"),
        (b"[" * 10_000, "invalid_json"),
        (b"1" * 10_000, "invalid_json"),
        (b"[]", "invalid"),
        (b"null", "invalid"),
    ],
)
def test_bodies_that_are_not_json_objects(rest: Rest, data: bytes, code: str) -> None:
    for method, path in (("POST", "functions"), ("POST", "services"), ("POST", "jobs"), ("POST", "triggers")):
        response = rest.call(method, path, data=data, content_type="application/json")
        assert response.status_code == 400 and response.json["code"] == code


def test_ten_megabytes_of_json_are_413_naming_the_limit(rest: Rest) -> None:
    response = rest.post("functions", MINIMAL | {"description": "x" * (10 << 20)})
    assert response.status_code == 413 and "max_json_bytes" in response.json["error"]


def test_content_type(rest: Rest) -> None:
    assert rest.post("functions", data="a: 1", content_type="text/yaml").status_code == 415
    # curl -d sends JSON with this content type by default.
    response = rest.post("functions", data=json.dumps(MINIMAL), content_type="application/x-www-form-urlencoded")
    assert response.status_code == 201


def test_odd_text_is_kept_and_nul_is_refused(rest: Rest) -> None:
    assert fields_of(rest.post("functions", MINIMAL | {"env_vars": {"A": "a\x00b"}})) == {"env_vars.A"}
    text = "\U0001f600 ü\t\u2028\x01"
    assert rest.post("functions", MINIMAL | {"description": text, "env_vars": {"A": text}}).json["env_vars"] == {"A": text}
    assert rest.get("functions/hello").json["description"] == text
    for field in ("description", "display_name"):
        assert fields_of(rest.patch("functions/hello", {field: "a\x00b"})) == {field}


@pytest.mark.parametrize("kind", ["functions", "services", "jobs", "triggers"])
def test_invalid_names_in_paths_are_404(rest: Rest, kind: str) -> None:
    for name in ("a%00b", "A", "-a", "a" * 41, "%2e%2e", "admin", "ü", "%ff", "a b", "a'--"):
        for method in ("GET", "DELETE", "PATCH"):
            assert rest.call(method, f"{kind}/{name}", **({"json": {}} if method == "PATCH" else {})).status_code == 404


def test_environment_over_the_limit_is_413(rest: Rest) -> None:
    response = rest.post("functions", MINIMAL | {"env_vars": {"A": "x" * 64 * 1024}})
    assert response.status_code == 413 and response.json["details"][0]["field"] == "env_vars"


def test_names_are_unique_across_functions_and_services(rest: Rest) -> None:
    rest.function("x")
    for kind in ("functions", "services"):
        response = rest.post(kind, MINIMAL | {"name": "x"})
        assert response.status_code == 409 and response.json["code"] == "already_exists"
    assert rest.get("services/x").status_code == 404
    assert rest.post("jobs", MINIMAL | {"name": "x"}).status_code == 201


@pytest.mark.parametrize("kind", ["functions", "services", "jobs", "triggers"])
def test_unknown_names(rest: Rest, kind: str) -> None:
    assert rest.get(f"{kind}/nope").json["error"].endswith('"nope" not found')
    assert rest.patch(f"{kind}/nope", {}).status_code == 404
    assert rest.delete(f"{kind}/nope").status_code == 404
    if kind != "jobs":
        assert rest.put(f"{kind}/nope", {"runtime": "python3.11"}).status_code == 404


def test_put_replaces_and_needs_required_fields(rest: Rest) -> None:
    rest.function(memory_mb=256, env_vars={"A": "1"}, secret_env={"S": "1"})
    assert fields_of(rest.put("functions/hello", {"memory_mb": 64})) == {"runtime"}
    body = rest.put("functions/hello", {"runtime": "python3.11", "timeout_sec": 5}).json
    assert (body["memory_mb"], body["timeout_sec"], body["env_vars"]) == (128, 5, {})


def test_a_read_function_can_be_sent_back(rest: Rest) -> None:
    for kind in ("function", "service"):
        rest.function(f"x-{kind}", kind, env_vars={"A": "1"}, description="d")
        read = rest.get(f"{kind}s/x-{kind}").json
        assert rest.put(f"{kind}s/x-{kind}", read).json == read
        assert rest.patch(f"{kind}s/x-{kind}", read).json == read


def test_patch_merges_and_null_restores_the_default(rest: Rest) -> None:
    rest.function(memory_mb=256, env_vars={"A": "1"})
    assert rest.patch("functions/hello", {"timeout_sec": 9}).json["memory_mb"] == 256
    assert rest.patch("functions/hello", {"memory_mb": None}).json["memory_mb"] == 128
    assert fields_of(rest.patch("functions/hello", {"memory_mb": 5, "x": 1, "name": "other"})) == {"memory_mb", "x", "name"}
    assert rest.get("functions/hello").json["env_vars"] == {"A": "1"}


def test_if_match(rest: Rest) -> None:
    rest.function()
    etag = rest.get("functions/hello").headers["ETag"]
    assert rest.patch("functions/hello", {"memory_mb": 64}, headers={"If-Match": etag}).status_code == 200
    for method, options in (("PATCH", {"json": {"memory_mb": 65}}), ("PUT", {"json": {"runtime": "python3.11"}}), ("DELETE", {})):
        response = rest.call(method, "functions/hello", headers={"If-Match": etag}, **options)
        assert response.status_code == 412 and response.json["code"] == "precondition_failed"
    body = rest.get("functions/hello")
    assert body.json["memory_mb"] == 64 and body.json["phase"] == "Pending"
    for accepted in ("*", body.headers["ETag"], f'"x", {body.headers["ETag"]}'):
        response = rest.put("functions/hello", {"runtime": "python3.11", "memory_mb": 64}, headers={"If-Match": accepted})
        assert response.status_code == 200


def test_an_update_without_changes_keeps_the_etag(rest: Rest) -> None:
    rest.function(memory_mb=64)
    etag = rest.get("functions/hello").headers["ETag"]
    assert rest.patch("functions/hello", {"memory_mb": 64}).headers["ETag"] == etag
    assert rest.patch("functions/hello", {"memory_mb": 65}).headers["ETag"] != etag


def test_delete_is_202_then_shows_deleting_then_404(rest: Rest) -> None:
    rest.function()
    response = rest.delete("functions/hello")
    assert response.status_code == 202 and response.json["phase"] == "Deleting"
    assert rest.get("functions/hello").json["phase"] == "Deleting"
    assert [item["phase"] for item in rest.get("functions").json] == ["Deleting"]
    assert rest.delete("functions/hello").status_code == 202
    assert rest.patch("functions/hello", {"memory_mb": 64}).status_code == 409
    assert rest.upload().status_code == 409
    rest.gone("hello")
    assert rest.get("functions/hello").status_code == 404 and rest.get("functions").json == []


def test_post_replaces_a_function_being_deleted(rest: Rest) -> None:
    rest.function(memory_mb=64)
    rest.built()
    rest.delete("functions/hello")
    assert rest.post("functions", MINIMAL).status_code == 201
    body = rest.get("functions/hello").json
    assert (body["phase"], body["memory_mb"], body["latest_version"]) == ("Pending", 128, None)
    assert len(rest.get("functions").json) == 1


def test_post_replaces_a_failed_function_without_a_working_version(rest: Rest) -> None:
    rest.function(memory_mb=64)
    rest.built(state=VersionState.FAILED, message="pip: no such package")
    body = rest.get("functions/hello").json
    assert body["phase"] == "Failed" and "no such package" in body["message"]
    response = rest.post("functions", MINIMAL | {"memory_mb": 99})
    assert response.status_code == 201 and response.json["phase"] == "Pending" and response.json["memory_mb"] == 99


def test_post_is_409_with_a_working_version_even_if_the_newest_failed(rest: Rest) -> None:
    rest.function()
    rest.built()
    rest.built(files={"handler.py": "x = 1"}, state=VersionState.FAILED, message="no handle")
    assert rest.post("functions", MINIMAL).status_code == 409
    body = rest.get("functions/hello").json
    assert (body["phase"], body["latest_state"], body["active_version"]) == ("Ready", "failed", 1)
    assert "version 2 failed: no handle" in body["message"]


def test_services(rest: Rest) -> None:
    body = rest.function("web", "service", replicas=2, timeout_sec=None)
    assert body["replicas"] == 2 and body["timeout_sec"] == 0
    assert body["url"] == body["invoke_url"] == f"http://127.0.0.1:9090/fn/{rest.namespace}/web"
    assert fields_of(rest.post("services", MINIMAL | {"replicas": 21})) == {"replicas"}
    rest.built("web", "service")
    assert rest.get("services/web").json["phase"] == "Deploying"
    workload = rest.store.workloads.find_callable(rest.namespace, "web")
    assert workload is not None
    rest.store.workloads.set_observed(workload.id, Observed(generation=workload.generation, version=1, ready_instances=2))
    assert rest.get("services/web").json["phase"] == "Ready"


def test_lists_are_sorted_by_name_and_complete_unless_limited(rest: Rest) -> None:
    names = [f"f{number:03}" for number in range(12)]
    for name in reversed(names):
        rest.function(name)
    assert [item["name"] for item in rest.get("functions").json] == names
    seen: list[str] = []
    path = "functions?limit=5"
    while path:
        response = rest.get(path)
        seen += [item["name"] for item in response.json]
        link = response.headers.get("Link")
        path = link.partition(">")[0].removeprefix("<") if link else ""
        assert not link or link.endswith('; rel="next"')
    assert seen == names
    assert "Link" not in rest.get("functions?limit=12").headers


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", "limit=x", "limit=1001", "limit=1e3", "limit=²", "cursor=A%00", "cursor=.."])
def test_bad_pages(rest: Rest, query: str) -> None:
    for kind in ("functions", "services", "jobs", "triggers"):
        assert fields_of(rest.get(f"{kind}?{query}")) == {query.partition("=")[0]}


def test_tenant_limits(rest: Rest) -> None:
    def limit(resource: str, create: Any) -> None:
        with rest.store.database.write() as conn:
            conn.exec_driver_sql(f"UPDATE tenants SET limits = '{json.dumps({resource: 1})}'")
        assert create("one").status_code == 201
        response = create("two")
        assert response.status_code == 403 and response.json["code"] == "limit_reached" and resource in response.json["error"]

    rest.post("/v1/namespaces/" + rest.namespace + "/ensure")
    limit("functions", lambda name: rest.post("functions", MINIMAL | {"name": f"f-{name}"}))
    limit("services", lambda name: rest.post("services", MINIMAL | {"name": f"s-{name}"}))
    limit("jobs", lambda name: rest.post("jobs", MINIMAL | {"name": f"j-{name}"}))
    limit("triggers", lambda name: rest.post("triggers", {"name": name, "type": "http", "function_ref": name}))


def test_ready_is_shown_only_once_this_server_has_read_the_routes(rest: Rest) -> None:
    rest.function()
    rest.built()
    assert rest.get("functions/hello").json["phase"] == "Ready"
    rest.routes_settled = False
    shown = [rest.get("functions/hello").json, *rest.get("functions").json]
    assert [item["phase"] for item in shown] == ["Deploying"] * 2 and "routes" in shown[0]["message"]
