"""The pull secret is in every tenant's namespace: sless warns if its account can push."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from sless.backend.kubernetes.tenants import TenantNamespaces
from sless.backend.kubernetes.view import ObjectCache
from sless.builder.kubernetes import make_kubernetes_builder
from sless.config import Settings
from sless.kube.registry_accounts import accounts_of
from sless.kube.tenant import tenant_policy_of

HOST = "r.example:5000"


def secret_of(**users: str) -> dict[str, Any]:
    """By registry; `_` in its name stands for a dot."""
    auths = {host.replace("_", "."): {"auth": base64.b64encode(f"{user}:p".encode()).decode()} for host, user in users.items()}
    return {"data": {".dockerconfigjson": base64.b64encode(json.dumps({"auths": auths}).encode()).decode()}}


class Cluster:
    def __init__(self, **secrets: dict[str, Any]) -> None:
        self.secrets = secrets

    def find(self, kind: str, name: str, namespace: str) -> dict[str, Any] | None:
        assert (kind, namespace) == ("Secret", "sless")
        return self.secrets.get(name)


def settings(**more: Any) -> Settings:
    return Settings(data_dir=Path("/nowhere"), registry_host=HOST, **more)


def test_accounts_are_read_from_both_forms_and_from_an_empty_secret() -> None:
    plain = {"auths": {"https://r.example/": {"username": "u", "password": "p"}, "empty": {}}}
    encoded = {"data": {".dockerconfigjson": base64.b64encode(json.dumps(plain).encode()).decode()}}
    assert accounts_of(encoded) == {("https://r.example", "u")}
    assert accounts_of(secret_of(a="x", b_c="y")) == {("a", "x"), ("b.c", "y")}
    assert accounts_of(None) == accounts_of({}) == accounts_of({"data": {".dockerconfigjson": "%"}}) == set()


@pytest.mark.parametrize(("pull", "said"), [("robot-push", True), ("robot-pull", False)])
def test_a_pull_secret_of_the_account_that_pushes_is_a_warning(pull: str, said: bool, caplog: pytest.LogCaptureFixture) -> None:
    kube: Any = Cluster(push=secret_of(r_example="robot-push"), pull=secret_of(r_example=pull, other="x"))
    policy = tenant_policy_of(settings(registry_secret="push", registry_pull_secret="pull"), "i")
    tenants = TenantNamespaces(kube, policy, ObjectCache("i"), 60)
    tenants.read_source()
    tenants.read_source()
    text = "SLESS_REGISTRY_PULL_SECRET: expected an account that can only pull, found r.example's user 'robot-push'"
    assert caplog.text.count(text) == said


def test_without_a_pull_secret_the_server_logs_how_nodes_pull(caplog: pytest.LogCaptureFixture) -> None:
    nothing: Any = None
    make_kubernetes_builder(settings(registry_secret="push", registry_pull_secret="pull"), nothing, "i", nothing, nothing)
    assert caplog.text == ""
    make_kubernetes_builder(settings(registry_secret="push"), nothing, "i", nothing, nothing)
    assert "SLESS_REGISTRY_PULL_SECRET is not set: nodes pull from r.example:5000 without a password" in caplog.text
