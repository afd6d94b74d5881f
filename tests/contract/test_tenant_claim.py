"""SLESS_TENANT_CLAIM: people of one team share a namespace, and the audit trail tells them apart."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from sless.domain.operators import sub_hash_of
from sless.ids import namespace_of
from sless.store import open_store
from sless.tokens import issue_token
from tests.contract.rest_harness import OPERATOR, Rest

SECRET = "s" * 64


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Rest]:
    store = open_store(f"sqlite:///{tmp_path}/x.db", durable=False)
    store.migrate()
    yield Rest(store, tmp_path / "data", tenant_claim="team", auth_mode="secret", jwt_secret=SECRET)
    store.close()


def of(rest: Rest, sub: str, team: str) -> dict[str, Any]:
    return {"sub": None, "headers": {"Authorization": f"Bearer {issue_token(rest.settings, sub, 3600, tenant=team)}"}}


def test_a_team_shares_a_namespace(rest: Rest) -> None:
    ada, bob, eve = of(rest, "ada", "red"), of(rest, "bob", "red"), of(rest, "eve", "blue")
    who = rest.get("/v1/whoami", **ada).json
    assert (who["sub"], who["namespace"], who["operator"]) == ("ada", namespace_of("red"), False)
    path = f"/v1/namespaces/{who['namespace']}"
    assert rest.post(f"{path}/functions", {"name": "hello", "runtime": "python3.11"}, **ada).status_code == 201
    assert rest.patch(f"{path}/functions/hello", {"memory_mb": 256}, **bob).status_code == 200
    assert rest.get(f"{path}/functions/hello", **eve).status_code == 403
    trail = [(entry["action"], entry["sub"]) for entry in rest.get(f"{path}/audit", **ada).json]
    assert trail == [("function.update", "bob"), ("function.create", "ada"), ("namespace.create", "ada")]
    (tenant,) = rest.get("/v1/operator/tenants", **of(rest, OPERATOR, "ops")).json
    assert tenant["sub_sha256"] == sub_hash_of("red")


def test_a_team_does_not_become_an_operator(rest: Rest) -> None:
    assert rest.get("/v1/operator/tenants", **of(rest, "eve", OPERATOR)).status_code == 403


def test_a_token_needs_the_claim(rest: Rest) -> None:
    for wrong in ({}, *({"team": value} for value in ("", " ", 7, ["red"], "x" * 1025))):
        claims: dict[str, Any] = {"sub": "ada", "exp": int(time.time()) + 60} | wrong
        token = jwt.encode(claims, SECRET, algorithm="HS256")
        answer = rest.get("/v1/whoami", sub=None, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401 and "team" in answer.json["error"], wrong
