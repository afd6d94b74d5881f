"""Operators' view of tenants: list, suspension, revoked tokens, runtimes; and what tenants see of it."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from sless.domain.operators import sub_hash_of
from sless.domain.runtimes import DEPRECATED_BEFORE, RUNTIMES, Support
from sless.errors import Code
from sless.http.table import OPERATIONS
from sless.ids import namespace_of
from sless.store import Store
from sless.tokens import RevokedTokens, TokenVerifier
from tests.contract.rest_harness import OPERATOR, Rest

TENANTS = "/v1/operator/tenants"
TOKENS = "/v1/operator/revoked-tokens"
REASON = "port scans; write to support"


def suspend(rest: Rest, *path: str) -> dict[str, Any]:
    response = rest.post("/".join((TENANTS, rest.namespace, *path, "suspend")), {"reason": REASON}, sub=OPERATOR)
    assert response.status_code == 200, response.text
    return dict(response.json)


def resume(rest: Rest, *path: str) -> dict[str, Any]:
    response = rest.post("/".join((TENANTS, rest.namespace, *path, "resume")), sub=OPERATOR)
    assert response.status_code == 200, response.text
    return dict(response.json)


def test_only_operators(rest: Rest) -> None:
    rows = [row for row in OPERATIONS if row.path.startswith("/v1/operator/")]
    assert len(rows) >= 8
    for row in rows:
        path = row.path.replace("{ns}", rest.namespace).replace("{kind}", "functions").replace("{name}", "hello")
        response = rest.call(row.method, path)
        assert (response.status_code, response.json["code"]) == (403, "forbidden"), path


def test_the_list_of_tenants(rest: Rest) -> None:
    rest.function("hello")
    rest.function("work", "job")
    rest.post("triggers", {"name": "t", "type": "http", "function_ref": "hello"})
    rest.post(f"/v1/namespaces/{namespace_of('bob')}/ensure", sub="bob")
    found = {item["namespace"]: item for item in rest.get(TENANTS, sub=OPERATOR).json}
    mine = found[rest.namespace]
    assert mine["sub_sha256"] == sub_hash_of("alice") and "alice" not in str(mine)
    assert mine["counts"] == {"functions": 1, "services": 0, "jobs": 1, "triggers": 1}
    assert mine["usage"] == {"days": 31, "invocations": 0, "errors": 0, "gb_seconds": 0.0} and mine["suspended"] is None
    assert found[namespace_of("bob")]["counts"]["functions"] == 0
    assert rest.get(f"{TENANTS}/{rest.namespace}", sub=OPERATOR).json == mine
    assert rest.get(f"{TENANTS}/sless-none", sub=OPERATOR).status_code == 404
    suspend(rest)
    assert [item["namespace"] for item in rest.get(f"{TENANTS}?suspended=1", sub=OPERATOR).json] == [rest.namespace]
    assert rest.namespace not in {item["namespace"] for item in rest.get(f"{TENANTS}?suspended=0", sub=OPERATOR).json}
    first = rest.get(f"{TENANTS}?limit=1", sub=OPERATOR)
    rest_of_it = rest.get(first.headers["Link"].split(">")[0][1:], sub=OPERATOR)
    assert sorted(item["namespace"] for item in [*first.json, *rest_of_it.json]) == sorted(found)


def test_a_suspended_tenant_can_read_but_not_write(rest: Rest) -> None:
    rest.function("hello")
    rest.function("work", "job")
    rest.built("hello")
    assert suspend(rest)["suspended"]["reason"] == REASON
    for method, path, body in (
        ("POST", "functions", {"name": "other", "runtime": "python3.11"}),
        ("PATCH", "functions/hello", {"memory_mb": 256}),
        ("DELETE", "functions/hello", None),
        ("POST", "functions/hello/upload", {"files": {"handler.py": "def handle(event): return 2\n"}}),
        ("POST", "functions/hello/rebuild", None),
        ("POST", "triggers", {"name": "t", "type": "http", "function_ref": "hello"}),
        ("PATCH", "jobs/work", {"run_id": 1}),
        ("POST", "callback-key/rotate", None),
        ("DELETE", f"/v1/namespaces/{rest.namespace}?confirm={rest.namespace}", None),
    ):
        response = rest.call(method, path, **({"json": body} if body is not None else {}))
        assert (response.status_code, response.json["code"]) == (403, "read_only"), path
        assert REASON in response.json["error"]
    shown = rest.get("functions/hello").json
    assert (shown["phase"], shown["suspended"]) == ("Failed", REASON) and REASON in shown["message"]
    assert rest.get("jobs/work").json["suspended"] == REASON
    assert rest.patch("functions/hello", {"memory_mb": 256}, sub=OPERATOR).status_code == 200
    rest.post("functions", {"name": "late", "runtime": "python3.11"}, sub=OPERATOR)
    assert rest.get("functions/late").json["suspended"] == REASON
    assert resume(rest)["suspended"] is None
    assert rest.get("functions/hello").json["suspended"] is None
    assert rest.patch("functions/hello", {"memory_mb": 512}).status_code == 200
    actions = [entry["action"] for entry in rest.get("audit").json]
    assert "namespace.suspend" in actions and "namespace.resume" in actions


def test_suspending_one_function(rest: Rest) -> None:
    rest.function("hello")
    rest.function("other")
    rest.post("triggers", {"name": "t", "type": "cron", "function_ref": "hello", "schedule": "* * * * *"})
    rest.built("hello")
    assert suspend(rest, "functions", "hello")["suspended"] == REASON
    assert rest.patch("functions/hello", {"memory_mb": 256}).status_code == 403
    assert rest.upload("hello").status_code == 403
    assert rest.post("functions", {"name": "hello", "runtime": "python3.11"}).status_code == 403
    assert rest.post("triggers/t/fire").status_code == 403
    trigger = rest.get("triggers/t").json
    assert not trigger["active"] and REASON in trigger["message"]
    assert rest.patch("functions/other", {"memory_mb": 256}).status_code == 200
    suspend(rest)
    assert resume(rest, "functions", "hello")["suspended"] == REASON  # of its tenant
    resume(rest)
    assert rest.get("functions/hello").json["suspended"] is None
    assert rest.post(f"{TENANTS}/{rest.namespace}/functions/none/suspend", sub=OPERATOR).status_code == 404
    assert rest.post(f"{TENANTS}/{rest.namespace}/things/hello/suspend", sub=OPERATOR).status_code == 404
    assert rest.post(f"{TENANTS}/{rest.namespace}/suspend", {"reason": 1}, sub=OPERATOR).status_code == 400


def test_routes_change_with_a_suspension(rest: Rest) -> None:
    rest.function("hello")
    rest.built("hello")
    before = rest.store.routes.find_snapshot(-1)
    suspend(rest)
    assert before is not None
    after = rest.store.routes.find_snapshot(before.revision)
    assert after is not None and after.routes[0].blocked is not None
    assert after.routes[0].blocked[0] is Code.SUSPENDED and REASON in after.routes[0].blocked[1]
    resume(rest)
    last = rest.store.routes.find_snapshot(after.revision)
    assert last is not None and last.routes[0].blocked is None


def test_deleting_the_namespace_does_not_end_a_suspension(rest: Rest) -> None:
    rest.post(f"/v1/namespaces/{rest.namespace}/ensure")
    suspend(rest)
    rest.delete(f"/v1/namespaces/{rest.namespace}?confirm={rest.namespace}", sub=OPERATOR)
    rest.post(f"/v1/namespaces/{rest.namespace}/ensure", sub=OPERATOR)
    assert rest.post("functions", {"name": "hello", "runtime": "python3.11"}).status_code == 403


def claims_of(rest: Rest, sub: str = "alice") -> dict[str, Any]:
    return TokenVerifier(rest.settings).claims(rest.token(sub))


def test_revoking_a_token(rest: Rest) -> None:
    by_token = rest.post(TOKENS, {"token": rest.token(), "reason": "leaked"}, sub=OPERATOR)
    assert by_token.status_code == 200
    assert (by_token.json["jti"], by_token.json["sub"], by_token.json["reason"]) == (claims_of(rest)["jti"], "alice", "leaked")
    rest.post(TOKENS, {"jti": "other"}, sub=OPERATOR)
    assert [item["jti"] for item in rest.get(TOKENS, sub=OPERATOR).json] == ["other", claims_of(rest)["jti"]]
    assert rest.post(TOKENS, {}, sub=OPERATOR).status_code == 400
    assert rest.post(TOKENS, {"jti": "a\0"}, sub=OPERATOR).status_code == 400
    assert rest.post(TOKENS, {"token": "x.y.z"}, sub=OPERATOR).status_code == 400
    assert [entry["action"] for entry in rest.get("audit", sub=OPERATOR).json] == ["token.revoke"]


def test_a_revoked_token_is_refused_even_if_it_was_verified_before(rest: Rest, store: Store) -> None:
    now = [0.0]
    revoked = RevokedTokens(store.revocations.ids, lambda: now[0])
    verifier = TokenVerifier(rest.settings, is_revoked=revoked.__contains__)
    authorization = f"Bearer {rest.token()}"
    assert verifier.verify(authorization).sub == "alice"
    rest.post(TOKENS, {"token": rest.token()}, sub=OPERATOR)
    now[0] += 1.0
    with pytest.raises(Exception, match="revoked") as caught:
        verifier.verify(authorization)
    assert caught.value.code is Code.TOKEN_REVOKED  # type: ignore[attr-defined]
    assert verifier.verify(f"Bearer {rest.token(OPERATOR)}").operator


def test_expired_revocations_are_forgotten(rest: Rest, store: Store) -> None:
    from sless import clock

    rest.post(TOKENS, {"jti": "other"}, sub=OPERATOR)
    assert store.revocations.clean(clock.now()) == 0
    assert store.revocations.clean(clock.now() + timedelta(days=500)) == 1
    assert store.revocations.ids() == frozenset()


def test_runtimes_show_how_long_they_are_supported(rest: Rest) -> None:
    for item in rest.get("/v1/runtimes").json:
        assert item["deprecated"] == (item["support"] != "supported")
        assert item["support"] == RUNTIMES[item["name"]].support(datetime.now(UTC).date())
    runtime = RUNTIMES["python3.11"]
    end = date.fromisoformat(runtime.end_of_life)
    cases = {end: "end_of_life", end - timedelta(days=1): "deprecated", end - DEPRECATED_BEFORE: "deprecated"}
    cases[end - DEPRECATED_BEFORE - timedelta(days=1)] = "supported"
    assert {day: runtime.support(day) for day in cases} == {day: Support(text) for day, text in cases.items()}
